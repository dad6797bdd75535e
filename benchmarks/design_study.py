"""Which copies to ask about, and which surrogate to fit: the choices behind `slalom explain`, tried again.

    python benchmarks/design_study.py --model bundled --data imdb.parquet --documents 8 --out bundled.md

Texts are those of `all_scales.py` with the same model, data and seed: half of 30 to 120 tokens, half of 150
to 256. Each is asked once about a stock of copies; every line of the table fits the surrogate to a part of
the stock, with one thing changed. Judged on 300 fresh copies: all-scale R², and the share of the variance
missed in six classes of size, equally wide on a log scale. Cost: tokens read, a gradient counted three
times, in lengths of the text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from all_scales import all_scales, documents, opened
from slalom import designs
from slalom.fit import exact, heads, linear, misfit
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import Perturbations, from_keep, join, whole
from slalom.tokens import FloatArray, IntArray

SHORT, LONG, GRADIENTS, NEAR, FRESH = 1500, 250, 80, 40, 300


@dataclass(frozen=True)
class Mixture:
    """Short copies, times the root of the length; long ones; long ones with gradients; longest short one."""

    short: float = 40
    long: int = 20
    gradients: int = 4
    longest: int = 16


DEFAULT = Mixture()
SURROGATES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "one group of 12 heads": {"GROUPS": 1, "HEADS": 12},
    "4 groups of 2 heads": {"HEADS": 2},
    "4 groups of 6 heads": {"HEADS": 6},
    "8 groups of 4 heads": {"GROUPS": 8},
    "hardly a ceiling": {"_ROOM": 30.0, "_CEILING": 0.01},
    "importances half as wide": {"_IMPORTANCE": 1.0},
    "importances twice as wide": {"_IMPORTANCE": 4.0},
    "further heads half as wide": {"_FURTHER": 0.4},
    "positions as free as types": {"_DEVIATION": 1.0},
    "positions are their types": {"_DEVIATION": 0.001},
    "noise 0.15": {"NOISE": 0.15},
    "noise 0.4": {"NOISE": 0.4},
    "gradients trusted half": {"SLOPE_NOISE": 1.0},
    "gradients trusted twice": {"SLOPE_NOISE": 0.5},
    "60 steps": {"_STEPS": 60},
    "300 steps": {"_STEPS": 300},
}
MIXTURES = {
    "outputs only": Mixture(gradients=0, long=32),
    "gradients instead of long outputs": Mixture(long=0, gradients=11),
    "half of everything": Mixture(20, 10, 2),
    "twice everything": Mixture(80, 40, 8),
    "all of the stock": Mixture(10_000, LONG, GRADIENTS),
    "short copies up to 8": Mixture(55, longest=8),
    "short copies up to 32": Mixture(25, longest=32),
    "no long copies": Mixture(55, 0, 0),
}


@dataclass(frozen=True, eq=False)
class Stock:
    """All that was asked about one text, for its target."""

    n: int
    inverse: IntArray
    queries: dict[str, Perturbations]
    answers: dict[str, FloatArray]
    slopes: FloatArray
    """(Q, n) of the gradients."""

    @classmethod
    def of(cls, explainer: Any, text: str, number: int) -> Stock:
        ask = Ask(explainer.model, explainer.model.tokenize(text))
        target = choose_target(explainer.model, None, ask.whole())
        n, rng = len(ask.tokens), np.random.default_rng([number, 5])
        top = n - 1
        queries = {
            "single": designs.singles(ask.tokens.first, n),
            "short": designs.all_scales(n, SHORT, 2, min(32, top), rng),
            "long": designs.all_scales(n, LONG, min(16, top), top, rng),
            "near": designs.near_text(n, NEAR, min(10, n // 4), rng),
            "fresh": from_keep(all_scales(n, FRESH, np.random.default_rng([number, 77]))),
        }
        answers = {kind: target.score(ask(asked)) for kind, asked in queries.items()}
        slopes = np.zeros((0, n))
        if ask.differentiable is None:
            queries["gradient"] = join(
                [whole(n), designs.all_scales(n, GRADIENTS - 1, min(16, top), top, rng)]
            )
            logits, found = ask.gradients(queries["gradient"], target.weights)
            answers["gradient"] = target.score(logits)
            slopes = np.zeros((GRADIENTS, n))
            slopes[queries["gradient"].rows, queries["gradient"].positions] = found
            slopes *= float(target.read(np.ones((1, logits.shape[1] if target.column else 1)))[0])
        return cls(n, ask.tokens.inverse, queries, answers, slopes)

    def part(self, mixture: Mixture) -> tuple[Perturbations, FloatArray, FloatArray]:
        """Queries, answers, and the gradients of the last of them."""
        count = int(mixture.short * np.sqrt(self.n))
        short = np.flatnonzero(self.queries["short"].lengths <= mixture.longest)[:count]
        taken = {"single": slice(None), "short": short, "long": slice(mixture.long), "near": slice(6)}
        if len(self.slopes):
            taken["gradient"] = slice(mixture.gradients)
        queries = join([self.queries[kind][rows] for kind, rows in taken.items()])
        answers = np.concatenate([self.answers[kind][rows] for kind, rows in taken.items()])
        return queries, answers, self.slopes[: mixture.gradients]


@contextmanager
def changed(constants: dict[str, Any]) -> Iterator[None]:
    """The fit with other constants."""
    home = {name: heads if hasattr(heads, name) else misfit for name in constants}
    before = {name: getattr(home[name], name) for name in constants}
    for name, value in constants.items():
        setattr(home[name], name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(home[name], name, value)


def fitted(stock: Stock, mixture: Mixture, surrogate: str) -> tuple[FloatArray, float]:
    """Predictions for the fresh copies, and the cost."""
    queries, answers, slopes = stock.part(mixture)
    fresh = stock.queries["fresh"]
    lengths = queries.lengths + 2.0
    cost = float(lengths.sum() + 2.0 * lengths[len(lengths) - len(slopes) :].sum()) / stock.n
    if surrogate == "additive":
        return linear.fit(queries.counts(), answers[:, None]).surrogate.predict(fresh.counts())[:, 0], cost
    if surrogate == "one head":
        d = int(stock.inverse.max()) + 1
        one = exact.fit(queries.counts(stock.inverse, d), answers[:, None]).surrogate
        return one.predict(fresh.counts(stock.inverse, d))[:, 0], cost
    held = np.flatnonzero(queries.lengths > 1)
    several = heads.fit(queries.counts(), answers[:, None], stock.inverse, slopes=slopes, held=held)
    return several.surrogate.predict(fresh.counts())[:, 0], cost


def line(name: str, stocks: list[Stock], mixture: Mixture, surrogate: str = "heads") -> str:
    scores, missed, costs = [], [], []
    for stock in stocks:
        told, cost = fitted(stock, mixture, surrogate)
        truth = stock.answers["fresh"]
        share = (truth - told) ** 2 / ((truth - truth.mean()) ** 2).sum()
        sizes = stock.queries["fresh"].lengths
        places = np.minimum((6 * np.log(sizes) / np.log(stock.n)).astype(int), 5)
        scores.append(1.0 - share.sum())
        missed.append(np.bincount(places, share, 6))
        costs.append(cost)
    error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    by_size = " ".join(f"{part:.3f}" for part in np.mean(missed, axis=0))
    return f"| {name} | {np.mean(scores):.3f} ± {error:.3f} | {by_size} | {np.mean(costs):.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--longest", type=int, help="only texts of up to this many tokens")
    parser.add_argument("--seed", type=int, default=901)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    explainer = opened(arguments.model)
    stocks = []
    for number, text in enumerate(documents(explainer, arguments)):
        stocks.append(Stock.of(explainer, text, number))
        print(f"asked about text {number + 1}", flush=True)
    lines = [
        f"## {Path(arguments.model).name}, {len(stocks)} texts, seed {arguments.seed}",
        "",
        "| what | all-scale R² | missed, by size | cost |",
        "|---|---|---|---|",
        line("additive", stocks, DEFAULT, "additive"),
        line("one head (the paper's SLALOM)", stocks, DEFAULT, "one head"),
    ]
    for name, constants in SURROGATES.items():
        with changed(constants):
            lines.append(line(name, stocks, DEFAULT))
        print(lines[-1], flush=True)
    for name, mixture in MIXTURES.items():
        lines.append(line(name, stocks, mixture))
        print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
