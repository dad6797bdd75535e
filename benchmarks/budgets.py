"""What more queries do: the same texts explained with larger and larger budgets.

    python benchmarks/budgets.py --model bundled --data imdb.parquet --out docs/results/budgets.md

Texts are those of `all_scales.py`. Told for every budget: R² on 300 fresh copies of all sizes, the error of
removals, deletion AOPC; and of the values their correlation with what the model says of the tokens alone, and
the largest of them in units of the largest such answer.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import slalom
from all_scales import FRESH, all_scales, deletion, documents, opened, predictions, removed
from slalom.errors import SlalomWarning
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--longest", type=int, help="only texts of up to this many tokens")
    parser.add_argument("--budgets", type=int, nargs="*", default=[1000, 3000, 10_000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SlalomWarning)
    explainer = opened(arguments.model)
    rows: list[dict[str, Any]] = []
    for number, text in enumerate(documents(explainer, arguments)):
        rows += [one(explainer, text, number, budget) for budget in ("auto", *arguments.budgets)]
        arguments.out.write_text(table(arguments, pandas.DataFrame(rows)))
        print(f"text {number + 1}", flush=True)
    print(arguments.out.read_text())


def one(explainer: slalom.Explainer, text: str, number: int, budget: Any) -> dict[str, Any]:
    ask = Ask(explainer.model, explainer.model.tokenize(text))
    target = choose_target(explainer.model, None, ask.whole())
    n, rng = len(ask.tokens), np.random.default_rng([number, 77])
    copies, near = all_scales(n, FRESH, rng), removed(n, rng)
    said, left, alone = (target.score(ask(from_keep(keep))) for keep in (copies, near, np.eye(n, dtype=bool)))
    change = left - float(target.score(ask.whole()[None])[0])
    found = explainer(text, target=target.index, budget=budget)
    return {
        "budget": str(budget),
        **predictions(found, copies, said, near, change),
        "no_change": float((change**2).sum()),
        "deletion": deletion(ask, found),
        "correlation": float(np.corrcoef(found.values, alone)[0, 1]),
        "largest": float(np.abs(found.values).max() / np.abs(alone).max()),
    }


def table(arguments: argparse.Namespace, frame: pandas.DataFrame) -> str:
    columns = ("budget", "all-scale R²", "removal error, pooled", "deletion AOPC", "values: correlation")
    columns += ("lowest", "largest value", "of all texts")
    texts = frame.budget.value_counts().iloc[0]
    lines = [f"# Budgets\n\n{Path(arguments.model).name}, {texts} texts, seed {arguments.seed}.", ""]
    lines += ["Made by `benchmarks/budgets.py`, which says what the columns are.", ""]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for budget, rows in frame.groupby("budget", sort=False):
        lines.append(
            f"| {budget} | {rows.r2.mean():.3f} ± {rows.r2.sem():.3f} "
            f"| {rows.removal_error.sum() / rows.no_change.sum():.2f} | {rows.deletion.mean():.3f} "
            f"| {rows.correlation.mean():.3f} | {rows.correlation.min():.3f} "
            f"| {rows.largest.mean():.2f} | {rows.largest.max():.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
