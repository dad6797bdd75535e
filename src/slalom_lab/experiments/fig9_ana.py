"""Fig. 9 (F.3): SLALOM-Ana, SLALOM-SGD and the exact solver over context length and vocabulary size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from slalom.api import Explainer
from slalom.surrogate import Slalom
from slalom_lab.experiments._shared import figures, synthetic
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    all_of,
    conclude,
    decide,
    mean_row,
    select,
)
from slalom_lab.experiments._shared.solvers import fitted
from slalom_lab.experiments._shared.verdicts import within

TITLE = "SLALOM paper, Fig. 9 (F.3)"
CLAIM = (
    "SLALOM-Ana and SLALOM-SGD are alike in parameter error; on log-odds, the error of SGD stays almost "
    "constant over the context length while that of Ana grows, since Ana sees short sequences only"
)
NEEDS = {"data": (), "packages": ("accelerate",)}

SOLVERS = ("ana", "sgd", "exact")
SLOPE = "slope of log error over log context"
HALF = "half of ana less sgd"
"""Almost constant beside drastic growth (F.3): SGD's slope is below half of Ana's, seed by seed."""
ABOVE, APART = "log ratio of logit errors", "log ratio of parameter errors"
"""Over seeds."""
ALIKE = float(np.log(2))
_LOGIT, _PARAMETER, _MODEL = "logit MSE", "parameter MSE", "MSE to the model"
"""The first two from the SLALOM behind the labels, the last from what the transformer itself answers."""


@dataclass(frozen=True)
class Size:
    words: tuple[int, ...]
    contexts: tuple[int, ...]
    texts: int
    queries: int
    epochs: float
    width: int
    layers: int
    runs: int

    @property
    def settings(self) -> list[tuple[int, int]]:
        """(words, context): each of the two is varied at the other's middle value."""
        middle_words = self.words[len(self.words) // 2]
        middle = self.contexts[len(self.contexts) // 2]
        return list(
            dict.fromkeys([*((middle_words, n) for n in self.contexts), *((d, middle) for d in self.words)])
        )


SIZES = {
    "quick": Size((10,), (5, 10, 30), 20_000, 2000, 1, 64, 1, 15),
    "full": Size((10, 20), (5, 10, 30), 20_000, 2000, 1, 64, 1, 30),
}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Errors of every solver on a transformer trained for every vocabulary and context length."""
    size = size or SIZES[settings.mode]
    seeds = [settings.seed + i for i in range(size.runs)]
    found: dict[tuple[int, int, str], list[dict[str, float]]] = {}
    for seed in seeds:
        for words, context in size.settings:
            settings.say(f"{words} words, context {context}, seed {seed}")
            for solver, numbers in _errors(settings, size, words, context, seed).items():
                found.setdefault((words, context, solver), []).append(numbers)
    rows = [
        mean_row(
            {"words": words, "context": context, "solver": solver}, measure, [run[measure] for run in runs]
        )
        for (words, context, solver), runs in found.items()
        for measure in runs[0]
    ]
    rows += _seed_rows(found, size)
    figure = figures.save(_figure(rows, size), settings)
    return conclude(rows, judge, asdict(size), seeds, figure)


def _seed_rows(found: dict[tuple[int, int, str], list[dict[str, float]]], size: Size) -> list[Row]:
    """What is judged, seed by seed: slopes over the context, and how Ana stands to SGD."""
    middle, longest = size.words[len(size.words) // 2], size.contexts[-1]
    logs = {
        solver: np.log([[run[_LOGIT] for run in found[middle, n, solver]] for n in size.contexts])
        for solver in SOLVERS
    }
    x = np.log(size.contexts) - np.mean(np.log(size.contexts))
    slopes = {solver: x @ values / (x @ x) for solver, values in logs.items()}
    rows = [mean_row({"solver": solver}, SLOPE, own.tolist()) for solver, own in slopes.items()]
    rows.append(mean_row({"solver": HALF}, SLOPE, (slopes["ana"] / 2 - slopes["sgd"]).tolist()))
    rows.append(mean_row({"solver": "ana less sgd"}, SLOPE, (slopes["ana"] - slopes["sgd"]).tolist()))
    above = logs["ana"][-1] - logs["sgd"][-1]
    rows.append(mean_row({"solver": "ana over sgd", "context": longest}, ABOVE, above.tolist()))
    parameters = {
        solver: np.log([[run[_PARAMETER] for run in found[w, n, solver]] for w, n in size.settings])
        for solver in ("ana", "sgd")
    }
    apart = (parameters["ana"] - parameters["sgd"]).mean(axis=0)
    rows.append(mean_row({"solver": "ana over sgd"}, APART, apart.tolist()))
    if len(size.words) > 1:
        for words in size.words:
            own = np.mean(
                [
                    parameters["ana"][i] - parameters["sgd"][i]
                    for i, (w, _) in enumerate(size.settings)
                    if w == words
                ],
                axis=0,
            )
            rows.append(mean_row({"solver": "ana over sgd", "words": words}, APART, own.tolist()))
    return rows


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """The parts of the claim, apart: each by two standard errors over seeds."""
    by_slope = {row.where["solver"]: row for row in rows if row.measure == SLOPE}
    grows, half, sgd = by_slope["ana less sgd"], by_slope[HALF], by_slope["sgd"]
    above = next(row for row in rows if row.measure == ABOVE)
    apart, *vocabularies = (row for row in rows if row.measure == APART)
    sizes = "".join(f", with {row.where['words']} words {_number(row)}" for row in vocabularies)
    return {
        "Ana's error grows faster than SGD's": (
            decide(grows),
            f"slope of Ana less that of SGD {_told(grows)}",
        ),
        "SGD's error stays almost constant": (
            decide(half),
            f"slope of SGD's log error over log context {_told(sgd)}, half of Ana's less it {_number(half)} "
            "(almost constant is a slope below half of Ana's)",
        ),
        "Ana's error is above SGD's at the longest context": (
            decide(above),
            f"log of their ratio {_told(above)}",
        ),
        "parameter errors are alike": (
            within(apart, ALIKE),
            f"log of their ratio {_told(apart)}{sizes} (alike is within {ALIKE:.2f}, a factor of two)",
        ),
    }


def _number(row: Row) -> str:
    return f"{row.ours or 0.0:+.2f} ± {row.error or 0.0:.2f}"


def _told(row: Row) -> str:
    return f"{_number(row)} over {row.n} seeds"


def judge(rows: Sequence[Row]) -> Judgement:
    """All four parts, each by two standard errors over seeds."""
    found = parts(rows)
    above, apart = (next(row for row in rows if row.measure == measure) for measure in (ABOVE, APART))
    slopes = {row.where["solver"]: row for row in rows if row.measure == SLOPE}
    words = {True: "holds", False: "does not hold", None: "is open"}
    sentence = (
        "; ".join(f"that {part} {words[verdict]}" for part, (verdict, _) in found.items())  # type: ignore[index]
        + "; slopes of log error over log context: "
        + ", ".join(f"{s} {_number(slopes[s])}" for s in SOLVERS)
        + f"; at context {above.where['context']} Ana's error is {np.exp(above.ours or 0.0):.2f} times SGD's"
        f", its parameter error {np.exp(apart.ours or 0.0):.2f} times; {above.n} seeds"
    )
    return all_of([verdict for verdict, _ in found.values()]), sentence


def analyse(rows: Sequence[Row]) -> str:
    """How much of the logit error is the transformer's own, which no solver can undo."""
    own, logit = (
        {s: float(np.mean(select(rows, measure, solver=s))) for s in SOLVERS} for measure in (_MODEL, _LOGIT)
    )
    return (
        "mean squared error on average over all settings, from the SLALOM behind the labels and from the "
        "transformer's own answers: "
        + ", ".join(f"{s} {logit[s]:.3g} and {own[s]:.3g}" for s in SOLVERS)
        + "; the first holds what the transformer did not learn, the second what a solver cannot describe"
    )


def _errors(
    settings: RunSettings, size: Size, words: int, context: int, seed: int
) -> dict[str, dict[str, float]]:
    from slalom_lab.training import Network

    truth = synthetic.random_slalom(words, np.random.default_rng(seed))
    rng = np.random.default_rng((seed, 4))
    sequences = synthetic.slalom_sequences(size.texts, words, context, rng)
    documents = synthetic.labelled(
        sequences, truth.predict(synthetic.count_matrix(sequences, words))[:, 0], synthetic.names(words), rng
    )
    network = Network("distilbert", layers=size.layers, width=size.width)
    explainer = synthetic.trained(
        settings, network, documents, synthetic.names(words), epochs=size.epochs, batch=64, seed=seed
    )
    queries, test = (synthetic.slalom_sequences(size.queries, words, context, rng) for _ in range(2))
    outputs, fresh = (
        synthetic.ask(explainer, queries, synthetic.names(words)),
        synthetic.count_matrix(test, words),
    )
    wanted, own = truth.predict(fresh)[:, 0], synthetic.ask(explainer, test, synthetic.names(words))
    result = {}
    for solver in SOLVERS:
        if solver == "ana":
            surrogate = _ana(explainer, words)
        else:
            surrogate = fitted(solver, synthetic.count_matrix(queries, words), outputs, seed)
        told = surrogate.predict(fresh)[:, 0]
        result[solver] = {
            _LOGIT: float(np.mean((told - wanted) ** 2)),
            _PARAMETER: float(np.mean((synthetic.centred(surrogate) - synthetic.centred(truth)) ** 2)),
            _MODEL: float(np.mean((told - own) ** 2)),
        }
    return result


def _ana(explainer: Explainer, words: int) -> Slalom:
    from slalom.fit import ana

    singles = synthetic.ask(explainer, list(ana.single_queries(words)), synthetic.names(words))
    plan = ana.pair_queries(singles)
    pairs = synthetic.ask(explainer, list(plan.pairs), synthetic.names(words))
    return ana.solve(plan, singles, pairs, strict=False).surrogate


def _figure(rows: Sequence[Row], size: Size) -> figures.Figure:
    picture = figures.figure(8.0, 6.0)
    axes = picture.subplots(2, 2)
    middle_words = size.words[len(size.words) // 2]
    middle = size.contexts[len(size.contexts) // 2]
    for line, measure in zip(axes, (_LOGIT, _PARAMETER), strict=True):
        varied = {"context": (size.contexts, "words", middle_words), "words": (size.words, "context", middle)}
        for ax, (key, (values, other, fixed)) in zip(line, varied.items(), strict=True):
            curves = {
                solver: (
                    values,
                    [
                        select(rows, measure, solver=solver, **{key: value, other: fixed})[0]
                        for value in values
                    ],
                )
                for solver in SOLVERS
            }
            figures.lines(ax, curves)
            ax.set_yscale("log")
            ax.set_xlabel({"context": "context length", "words": "vocabulary"}[key])
            ax.set_ylabel(measure)
    return picture
