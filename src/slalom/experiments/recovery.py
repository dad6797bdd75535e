"""Fig. 4 c, d, Tables 7 and 8: a SLALOM is recovered from transformers trained on labels drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slalom.experiments import figures
from slalom.experiments.outcome import Judgement, Outcome, Row, Settings, conclude, mean_row, select
from slalom.experiments.synthetic import (
    ask,
    centred,
    count_matrix,
    labelled,
    names,
    random_slalom,
    slalom_sequences,
    trained,
)
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray

TITLE = "SLALOM paper, Fig. 4 c, d, Tables 7 and 8"
CLAIM = (
    "transformers trained on data that follow a SLALOM are fitted by a SLALOM that recovers its log-odds and "
    "its parameters; beyond the paper: the exact solver's parameter error is at most a tenth of SGD's"
)
NEEDS = {"data": (), "packages": ("accelerate",)}

PLANTED = "planted (Prop. 5.1)"
SOLVERS = ("sgd", "exact", "exact + background")
_LOGIT, _PARAMETER, _R2 = "logit MSE", "parameter MSE", "R² of the log-odds"
_SOLVER = "MSE from the best fit"
"""What the solver leaves: distance to the least-squares SLALOM of the same queries, whatever the model is."""
_GOOD = 0.9
"""The share of the true log-odds' variance that counts as recovered."""

PAPER_LOGIT = {
    "distilbert": {1: (0.002, 0.001), 2: (0.003, 0.002), 6: (0.001, 0.001), 12: (0.001, 0.000)},
    "bert": {1: (0.002, 0.000), 2: (0.003, 0.002), 6: (0.011, 0.007), 12: (0.001, 0.000)},
    "gpt2": {1: (0.011, 0.009), 2: (0.017, 0.011), 6: (0.001, 0.000), 12: (0.001, 0.000)},
}
"""Table 7. Those of Table 8 are multiplied by a factor that our copy lost, so they stand beside nothing."""


@dataclass(frozen=True)
class Size:
    words: int
    longest: int
    texts: int
    queries: int
    epochs: float
    width: int
    architectures: tuple[str, ...]
    layers: tuple[int, ...]
    runs: int


SIZES = {
    "quick": Size(20, 20, 30_000, 5000, 1, 64, ("distilbert", "bert", "gpt2"), (1, 2), 1),
    "full": Size(30, 30, 150_000, 5000, 1, 64, ("distilbert", "bert", "gpt2"), (1, 2, 6, 12), 3),
}


def run(settings: Settings, size: Size | None = None) -> Outcome:
    """Train, ask, fit with every solver, compare with the SLALOM behind the labels."""
    size = size or SIZES[settings.mode]
    seeds = [settings.seed + i for i in range(size.runs)]
    found: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    points: tuple[FloatArray, FloatArray] | None = None
    for seed in seeds:
        truth = random_slalom(size.words, np.random.default_rng(seed))
        for kind, layers, explainer in _models(settings, size, truth, seed):
            for solver, (numbers, recovered) in _recovered(explainer, truth, size, seed).items():
                found.setdefault((kind, layers, solver), []).append(numbers)
                if kind in size.architectures and solver == "exact" and points is None:
                    points = centred(truth), centred(recovered)
    rows = [row for place, runs in found.items() for row in _rows(place, runs)]
    figure = None if points is None else figures.save(_figure(*points), settings)
    return conclude(rows, judge, asdict(size), seeds, figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """The claim holds if the SLALOM explains 90 % of the true log-odds' variance for every trained model."""
    trained_rows = [row for row in rows if row.where["model"] != PLANTED]
    places = list(dict.fromkeys((row.where["model"], row.where["layers"]) for row in trained_rows))
    if not places:
        return None, "no transformer was trained"
    r2 = {place: select(rows, _R2, model=place[0], layers=place[1], solver="exact")[0] for place in places}
    good = sum(value >= _GOOD for value in r2.values())
    whole, solver = (
        sum(_ratio(rows, measure, *place) <= 0.1 for place in places) for measure in (_PARAMETER, _SOLVER)
    )
    sentence = (
        f"the recovered SLALOM explains at least {_GOOD:.0%} of the variance of the true log-odds for {good} "
        f"of {len(places)} trained models (worst {min(r2.values()):.3f}); the exact solver's parameter error "
        f"is {_ratio(rows, _PARAMETER, PLANTED, 1):.0e} of SGD's on the planted transformer; on trained "
        f"ones, which are no SLALOM themselves, it is at most a tenth of SGD's for {whole} of {len(places)}, "
        f"and its distance from the best SLALOM of the same answers for {solver} of {len(places)}"
    )
    return good == len(places), sentence


def _ratio(rows: Sequence[Row], measure: str, model: str | int, layers: str | int) -> float:
    exact, sgd = (
        select(rows, measure, model=model, layers=layers, solver=solver)[0] for solver in ("exact", "sgd")
    )
    return exact / sgd


def _models(settings: Settings, size: Size, truth: Slalom, seed: int) -> Any:
    from slalom.api import Explainer
    from slalom.theory.planted import plant
    from slalom.training import Network

    words = names(size.words)
    yield PLANTED, 1, Explainer(*plant(truth.importances, truth.values[:, 0], words))
    rng = np.random.default_rng((seed, 1))
    sequences = slalom_sequences(size.texts, size.words, size.longest, rng)
    log_odds = truth.predict(count_matrix(sequences, size.words))[:, 0]
    documents = labelled(sequences, log_odds, words, rng)
    for architecture in size.architectures:
        for layers in size.layers:
            settings.say(f"{architecture} with {layers} layers, seed {seed}")
            network = Network(architecture, layers=layers, width=size.width)  # type: ignore[arg-type]
            yield (
                architecture,
                layers,
                trained(settings, network, documents, words, epochs=size.epochs, batch=64, seed=seed),
            )


def _recovered(
    explainer: Any, truth: Slalom, size: Size, seed: int
) -> dict[str, tuple[dict[str, float], Slalom]]:
    """By solver: the errors of what it recovers from the same queries."""
    rng = np.random.default_rng((seed, 2))
    queries, test = (slalom_sequences(size.queries, size.words, size.longest, rng) for _ in range(2))
    counts, fresh = (count_matrix(part, size.words) for part in (queries, test))
    outputs = ask(explainer, queries, names(size.words))
    wanted = truth.predict(fresh)[:, 0]
    best = least_squares(counts, outputs, fitted("exact", counts, outputs, seed))
    result = {}
    for solver in SOLVERS:
        found = fitted(solver, counts, outputs, seed)
        error = float(np.mean((found.predict(fresh)[:, 0] - wanted) ** 2))
        numbers = {
            _LOGIT: error,
            _PARAMETER: float(np.mean((centred(found) - centred(truth)) ** 2)),
            _R2: 1 - error / float(wanted.var()),
            _SOLVER: float(np.mean((centred(found) - best) ** 2)),
        }
        result[solver] = (numbers, found)
    return result


def fitted(solver: str, counts: Any, outputs: FloatArray, seed: int) -> Slalom:
    """The SLALOM that a solver fits to the same queries."""
    from slalom.fit import exact, sgd

    if solver == "sgd":
        return sgd.fit(counts, outputs, seed=seed).surrogate
    return exact.fit([exact.Group(counts, outputs)], background=solver != "exact").surrogate


def least_squares(counts: Any, outputs: FloatArray, start: Slalom) -> FloatArray:
    """Importances around their mean and values of least squared error, without any ridge (maths 3c)."""
    from scipy import optimize

    dense, words = counts.toarray(), len(start.importances)

    def shares(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        weighted = dense * np.exp(theta[:words])
        alpha = weighted / weighted.sum(axis=1, keepdims=True)
        return alpha, alpha @ theta[words:]

    def slopes(theta: FloatArray) -> FloatArray:
        alpha, predicted = shares(theta)
        return np.hstack([alpha * (theta[words:] - predicted[:, None]), alpha])

    options: Any = {"jac": slopes, "xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    found = optimize.least_squares(lambda theta: shares(theta)[1] - outputs, centred(start), **options).x
    return centred(Slalom(found[words:], found[:words]))


def _rows(place: tuple[str, int, str], runs: list[dict[str, float]]) -> list[Row]:
    kind, layers, solver = place
    where: dict[str, str | int] = {"model": kind, "layers": layers, "solver": solver}
    paper = PAPER_LOGIT.get(kind, {}).get(layers) if solver == "sgd" else None
    return [
        mean_row(where, measure, [run[measure] for run in runs], paper if measure == _LOGIT else None)
        for measure in runs[0]
    ]


def _figure(true: FloatArray, found: FloatArray) -> Any:
    picture = figures.figure(8.0, 3.6)
    half = len(true) // 2
    axes = picture.subplots(1, 2)
    for ax, part, name in zip(axes, (slice(half), slice(half, None)), ("importance", "value"), strict=True):
        low, high = min(true[part].min(), found[part].min()), max(true[part].max(), found[part].max())
        ax.plot([low, high], [low, high], "--", color="0.6")
        ax.scatter(true[part], found[part], s=18, color=figures.COLOURS[0])
        ax.set_xlabel(f"true {name}")
        ax.set_ylabel(f"recovered {name}")
    return picture
