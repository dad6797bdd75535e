"""The core table: SLALOM's efforts beside the reference package and lime, on real reviews.

    python benchmarks/core.py --model DIR --data yelp.parquet --out docs/results/core.md

DIR is a fine-tuned encoder (scripts/train_encoder.py); the data file has the columns text and split. Needs
the packages slalom-explanations, lime and pandas. Everything runs in one process, document by document,
methods in turn, so that the ratios of their times can be compared.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import slalom
from slalom.evaluate.protocols.deletion import deletion, insertion
from slalom.evaluate.protocols.removals import removals
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom_lab.bench import peers

Row = dict[str, Any]
PEERS = ("reference, 1000", "lime, 1000")


def main() -> None:
    arguments = parse()
    explainer = slalom.Explainer(arguments.model)
    texts = documents(explainer, arguments)
    runs = {name: run for name, run in methods(explainer).items() if name not in arguments.without}
    next(iter(runs.values()))(texts[0])  # the first call of a process pays for imports
    rows: list[Row] = []
    for number, text in enumerate(texts):
        ask = Ask(explainer.model, explainer.model.tokenize(text))
        for name, run in runs.items():
            rows.append(judge(ask, name, run, text) | {"document": number})
        print(f"{number + 1} of {len(texts)} documents", flush=True)
        arguments.out.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    report = f"{table(rows)}\n\n{against(rows, 'slalom balanced')}\n"
    arguments.out.write_text(f"{head(arguments, rows)}\n\n{report}")
    print(report)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True, help="directory of the classifier")
    parser.add_argument("--data", type=Path, required=True, help="Parquet file with columns text and split")
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--shortest", type=int, default=30, help="tokens")
    parser.add_argument("--longest", type=int, default=120, help="tokens")
    parser.add_argument("--seed", type=int, default=11, help="of the choice of documents")
    parser.add_argument("--without", nargs="*", default=[], help="methods to leave out")
    parser.add_argument("--out", type=Path, required=True, help="Markdown file; rows go beside it as JSON")
    return parser.parse_args()


def documents(explainer: slalom.Explainer, arguments: argparse.Namespace) -> list[str]:
    frame = pandas.read_parquet(arguments.data)
    shuffled = frame[frame.split == "test"].text.sample(frac=1.0, random_state=arguments.seed)
    fitting = (t for t in shuffled if _fits(len(explainer.model.tokenize(t)), arguments))
    return [text for text, _ in zip(fitting, range(arguments.documents), strict=False)]


def _fits(length: int, arguments: argparse.Namespace) -> bool:
    return arguments.shortest <= length <= arguments.longest


def methods(explainer: slalom.Explainer) -> dict[str, Callable[[str], Explanation]]:
    model: Any = explainer.model

    def peer(name: str, samples: int, text: str) -> Explanation:
        plain = explainer(text, method="random")
        target = choose_target(model, plain.target, plain.probabilities)
        question = peers.Question(model.module, model.tokenizer, plain.tokens, target)
        found = peers.PEERS[name].explain(question, samples)
        return replace(plain, method=name, scores={"attribution": found}, ranking="attribution")

    return {
        "slalom fast, 500": lambda t: explainer(t, effort="fast", budget=500),
        "slalom fast": lambda t: explainer(t, effort="fast"),
        "slalom balanced": lambda t: explainer(t),
        "slalom faithful": lambda t: explainer(t, effort="faithful"),
        "reference, 1000": lambda t: peer("reference_published", 1000, t),
        "lime, 1000": lambda t: peer("lime", 1000, t),
        "occlusion": lambda t: explainer(t, method="occlusion"),
        "random": lambda t: explainer(t, method="random"),
    }


def judge(ask: Ask, name: str, run: Callable[[str], Explanation], text: str) -> Row:
    start = time.perf_counter()
    explanation = run(text)
    seconds = time.perf_counter() - start
    # the peers' scores are not in units of log-odds, so they predict no change of it
    left_out = None if name in PEERS else removals(ask, explanation, masks=10)
    return {
        "method": name,
        "tokens": len(explanation),
        "seconds": seconds,
        "fit_share": (seconds - explanation.cost.model_seconds) / max(explanation.cost.model_seconds, 1e-9),
        "queries": explanation.cost.queries,
        "deletion": deletion(ask, explanation),
        "insertion": insertion(ask, explanation),
        "removal_error": float(left_out.error.sum()) if left_out else np.nan,
        "no_change": float(left_out.nothing.sum()) if left_out else np.nan,
    }


def table(rows: list[Row]) -> str:
    frame = pandas.DataFrame(rows)
    lines = [
        "| method | deletion AOPC ↑ | insertion ↓ | removal error ↓ | queries | seconds | time / lime |",
        "|---|---|---|---|---|---|---|",
    ]
    lime = frame[frame.method == "lime, 1000"].seconds.sum()
    for name, part in frame.groupby("method", sort=False):
        peer = name in PEERS
        told = "–" if peer else f"{part.removal_error.sum() / part.no_change.sum():.2f}"
        queries = 1000 if peer else round(part.queries.mean())
        lines.append(
            f"| {name} | {mean(part.deletion)} | {mean(part.insertion)} | {told} | {queries} "
            f"| {part.seconds.mean():.2f} | {part.seconds.sum() / lime:.3f} |"
        )
    return "\n".join(lines)


def mean(column: pandas.Series) -> str:
    return f"{column.mean():.3f} ± {column.sem():.3f}"


def against(rows: list[Row], best: str) -> str:
    """Paired differences in deletion AOPC to one method."""
    wide = pandas.DataFrame(rows).pivot(index="document", columns="method", values="deletion")
    lines = [f"Deletion AOPC of {best} less that of the other, paired over documents:", ""]
    for name in wide.columns.drop(best):
        gap = wide[best] - wide[name]
        lines.append(f"- {name}: {gap.mean():+.3f} ± {gap.sem():.3f}")
    return "\n".join(lines)


HEAD = """# The core against the reference package and lime

{count} reviews of {shortest} to {longest} tokens (median {median:.0f}) from `{data}` (split test, seed
{seed}), explained for the predicted label of a fine-tuned encoder (`scripts/train_encoder.py`). Means and
standard errors over documents. Removal error: squared error of the predicted change of the log-odds under 1
to 10 random removals (10 masks each), summed over documents, relative to predicting no change. Times are of
one process.

Produced by:

    python benchmarks/core.py --model DIR --data {data} --out docs/results/core.md {options}"""


def head(arguments: argparse.Namespace, rows: list[Row]) -> str:
    tokens = list({r["document"]: r["tokens"] for r in rows}.values())
    return HEAD.format(
        count=len(tokens),
        shortest=min(tokens),
        longest=max(tokens),
        median=np.median(tokens),
        data=arguments.data.name,
        seed=arguments.seed,
        options=_options(arguments),
    )


def _options(arguments: argparse.Namespace) -> str:
    numbers = " ".join(
        f"--{name} {getattr(arguments, name)}" for name in ("documents", "shortest", "longest", "seed")
    )
    return f"{numbers} --without {shlex.join(arguments.without)}" if arguments.without else numbers


if __name__ == "__main__":
    main()
