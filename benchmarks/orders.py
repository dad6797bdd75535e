"""In which order should tokens go? Deletion AOPC of orders that a surrogate offers, less that of its shares.

    python benchmarks/orders.py --model bundled --data imdb.parquet --documents 12 --seed 901

Half of the documents have 30 to 120 tokens, half 150 to 240 (`--longest 120`: short ones only). Figures of
development stand in docs/design-study.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import pandas

import slalom
from slalom.errors import SlalomWarning
from slalom.evaluate.protocols.deletion import STEP
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target, choose_target
from slalom.perturb import from_keep
from slalom.surrogate import Surrogate

LENGTHS = ((30, 120), (150, 240))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help='a directory, or "bundled"')
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=12, help="of each length")
    parser.add_argument("--longest", type=int, default=240)
    parser.add_argument("--seed", type=int, default=901)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SlalomWarning)
    explainer = slalom.Explainer() if arguments.model == "bundled" else slalom.Explainer(arguments.model)
    frame = pandas.read_parquet(arguments.data)
    texts = frame[frame.split == "test"].text.sample(frac=1.0, random_state=arguments.seed)
    for low, high in LENGTHS:
        if high > arguments.longest:
            continue
        fitting = (t for t in texts if len(t) < 10 * high and low <= len(explainer.model.tokenize(t)) <= high)
        chosen = [text for text, _ in zip(fitting, range(arguments.documents), strict=False)]
        budgets: tuple[Literal["auto"], int] = ("auto", 1000)
        for budget in budgets:
            rows = [measured(explainer, text, number, budget) for number, text in enumerate(chosen)]
            tell(pandas.DataFrame(rows), f"{low} to {high} tokens, budget {budget}")


def measured(
    explainer: slalom.Explainer, text: str, seed: int, budget: int | Literal["auto"]
) -> dict[str, float]:
    """The deletion AOPC of every order, for one text."""
    ask = Ask(explainer.model, explainer.model.tokenize(text))
    target = choose_target(explainer.model, None, ask.whole())
    found = explainer(text, target=target.index, seed=seed, budget=budget)
    return {name: aopc(ask, target, order) for name, order in orders(found).items()}


def orders(found: Explanation) -> dict[str, np.ndarray]:
    """Tokens by what is told of them, the strongest first."""
    share, shapley = found.score("share"), found.score("shapley")
    scores = {
        "share": share,
        "Shapley value": shapley,
        "share + Shapley value": share + shapley,
        "share + a quarter of it": share + shapley / 4,
        "value": found.score("value"),
    }
    ranked = {name: np.argsort(-one, kind="stable") for name, one in scores.items()}
    return ranked if found.surrogate is None else ranked | {"greedy": greedy(found.surrogate, len(share))}


def greedy(surrogate: Surrogate, n: int) -> np.ndarray:
    """The token goes next whose loss, as the surrogate has it, leaves least."""
    keep, order = np.ones(n), []
    while len(order) < n - 1:
        left = np.flatnonzero(keep)
        copies = np.repeat(keep[None], len(left), axis=0)
        copies[np.arange(len(left)), left] = 0.0
        order.append(int(left[surrogate.predict(copies)[:, 0].argmin()]))
        keep[order[-1]] = 0.0
    return np.array([*order, int(keep.argmax())])


def aopc(ask: Ask, target: Target, order: np.ndarray) -> float:
    """1 − the mean probability of the label with 5, 10, … of the last tokens of the order kept."""
    keep = np.zeros((len(order) // STEP, len(order)), dtype=bool)
    for row, kept in zip(keep, range(STEP, len(order) + 1, STEP), strict=True):
        row[order[len(order) - kept :]] = True
    scores = target.score(ask(from_keep(keep)))
    return float(1 - (1 / (1 + np.exp(-scores))).mean())


def tell(rows: pandas.DataFrame, title: str) -> None:
    """Each order less that of the shares, with its standard error over texts."""
    print(f"{title}, {len(rows)} texts: share {rows['share'].mean():.4f}")
    for name in rows.columns.drop("share"):
        gap = rows[name] - rows["share"]
        print(f"  {name}: {gap.mean():+.4f} ± {gap.sem():.4f}", flush=True)


if __name__ == "__main__":
    main()
