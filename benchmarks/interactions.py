"""Pairs of words: what SLALOM says that two words do together, beside shapiq, against the model itself.

    python benchmarks/interactions.py run --model bundled --data sst2.parquet --out pairs.json
    python benchmarks/interactions.py table pairs.json … --out docs/results/interactions.md

For two words of a text the model is asked four times: Δ = F(text) − F(without i) − F(without j) +
F(without both). SLALOM predicts Δ by its surrogate of the default explanation, in closed form. shapiq fits
an additive model of order two (the Faithful Shapley Interaction Index), whose coefficient of a pair is its Δ,
to as many copies of the text as SLALOM asked, and to four times as many. Error: squared, relative to
predicting that no two words work together (1), summed over the pairs of a text, median over texts.
Needs `pip install 'slalom-xai[bench]'`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from scipy.stats import spearmanr

import slalom
import slalom.errors
from slalom.interactions import pairs_in_text
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.outside import shapiq_pairs
from slalom.perturb import from_keep

PAIRS = 200
"""Pairs of a text that the model is asked about, the strongest by any method among them."""

COLUMNS = ("method", "error, pooled (median)", "best gain allowed", "rank", "strongest five", "their sign")
READING = """Made by `benchmarks/interactions.py run` and `table`. Best gain allowed: the same error after a
factor for each text that suits the truth best. Rank: Spearman's correlation of predicted and true Δ over the
pairs. Strongest five: the true size of a method's five strongest pairs, relative to the five truly strongest;
and how many of them have the right sign."""


def main() -> None:
    arguments = parse()
    warnings.simplefilter("ignore")
    if arguments.command == "table":
        runs = [json.loads(path.read_text()) for path in arguments.rows]
        arguments.out.write_text(page(runs))
        return
    explainer = slalom.Explainer(None if arguments.model == "bundled" else arguments.model)
    rows: list[dict[str, Any]] = []
    for number, text in enumerate(documents(explainer, arguments)):
        rows += [{"document": number, **row} for row in measured(explainer, text, number)]
        run = {"model": arguments.model, "data": arguments.data.stem, "seed": arguments.seed, "rows": rows}
        arguments.out.write_text(json.dumps(run))
    print(page([json.loads(arguments.out.read_text())]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--model", default="bundled", help="a directory, or the bundled model")
    run.add_argument("--data", type=Path, required=True)
    run.add_argument("--documents", type=int, default=40)
    run.add_argument("--words", type=int, nargs=2, default=(8, 30), help="fewest and most words of a text")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--out", type=Path, required=True)
    show = commands.add_parser("table")
    show.add_argument("rows", type=Path, nargs="+")
    show.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def documents(explainer: slalom.Explainer, arguments: argparse.Namespace) -> list[str]:
    frame = pandas.read_parquet(arguments.data)
    split = "test" if (frame.split == "test").any() else "validation"
    texts = frame[frame.split == split].text.sample(frac=1.0, random_state=arguments.seed)
    low, high = arguments.words
    fitting = (text for text in texts if low <= len(text.split()) <= high)
    return [text for text, _ in zip(fitting, range(arguments.documents), strict=False)]


def measured(explainer: slalom.Explainer, text: str, number: int) -> list[dict[str, Any]]:
    found = explainer(text).shown
    whole = explainer(text, units="tokens").tokens
    ask = Ask(explainer.model, explainer.model.tokenize(text))
    target = choose_target(explainer.model, found.target, ask.whole())
    starts = np.searchsorted(whole.spans[:, 0], found.tokens.spans[:, 0])
    owner = np.searchsorted(starts, np.arange(len(whole)), side="right") - 1
    n, queries = len(found), found.cost.queries

    def answers(words: np.ndarray) -> np.ndarray:
        """The model's scores for copies that hold these words (N × n)."""
        return target.score(ask(from_keep(words[:, owner])))

    if found.surrogate is None:
        raise ValueError("the default method fits a surrogate")
    told = {"slalom": pairs_in_text(found.surrogate, n)}
    told |= {
        f"shapiq, {times} × the copies": shapiq_pairs(answers, n, times * queries, number) for times in (1, 4)
    }
    pairs = chosen(told, n, np.random.default_rng([number, 78]))
    truth = together(answers, n, pairs)
    return [
        {"method": name, "words": n, "queries": queries, "pairs": len(pairs)}
        | judged(matrix[tuple(pairs.T)], truth)
        for name, matrix in told.items()
    ]


def chosen(told: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    """(P, 2) pairs: the ten strongest of each method, the others at random."""
    every = np.column_stack(np.triu_indices(n, 1))
    strong = [np.argsort(-np.abs(matrix[tuple(every.T)]))[:10] for matrix in told.values()]
    order = np.concatenate([*strong, rng.permutation(len(every))])
    return every[list(dict.fromkeys(order.tolist()))[:PAIRS]]


def together(answers: Any, n: int, pairs: np.ndarray) -> np.ndarray:
    """(P,) what the model does without both words beyond what it does without each."""
    whole, single = answers(np.ones((1, n), bool))[0], answers(~np.eye(n, dtype=bool))
    both = np.ones((len(pairs), n), bool)
    both[np.arange(len(pairs))[:, None], pairs] = False
    return whole - single[pairs[:, 0]] - single[pairs[:, 1]] + answers(both)


def judged(told: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    rank = float(np.asarray(spearmanr(told, truth))[0]) if np.ptp(told) > 0 and np.ptp(truth) > 0 else 0.0
    gain = float(told @ truth) / max(float(told @ told), 1e-12)
    strongest = np.argsort(-np.abs(told))[:5]
    return {
        "error": float(((told - truth) ** 2).sum()),
        "nothing": float((truth**2).sum()),
        "gained": float(((gain * told - truth) ** 2).sum()),
        "rank": float(rank),
        "found": float(np.abs(truth[strongest]).mean() / max(np.sort(np.abs(truth))[-5:].mean(), 1e-12)),
        "sign": float((np.sign(told[strongest]) == np.sign(truth[strongest])).mean()),
    }


def page(runs: list[dict[str, Any]]) -> str:
    lines = ["# Pairs of words beside shapiq", "", str(__doc__).split("\n\n", 2)[2].strip(), ""]
    lines += [READING, ""]
    for run in runs:
        frame = pandas.DataFrame(run["rows"])
        count = frame.document.nunique()
        lines += [f"## {Path(run['model']).name}, {count} texts of {run['data']}, seed {run['seed']}", ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        for name, rows in frame.groupby("method", sort=False):
            cells = [name, pooled(rows.error, rows.nothing), pooled(rows.gained, rows.nothing)]
            cells += [f"{rows[key].mean():.2f} ± {rows[key].sem():.2f}" for key in ("rank", "found")]
            lines.append(f"| {' | '.join([*cells, f'{rows.sign.mean():.2f}'])} |")
        lines += [""]
    return "\n".join(lines)


def pooled(error: pandas.Series, nothing: pandas.Series) -> str:
    return f"{error.sum() / nothing.sum():.2f} ({(error / nothing).median():.2f})"


if __name__ == "__main__":
    main()
