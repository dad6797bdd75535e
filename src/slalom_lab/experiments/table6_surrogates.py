"""Fig. 4 a, b and Table 6: a linear model, a GAM and SLALOM fitted to the outputs of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import sparse

from slalom.tokens import FloatArray
from slalom_lab.experiments._shared import figures
from slalom_lab.experiments._shared.linear_models import Training, transformers
from slalom_lab.experiments._shared.outcome import (
    ON_PAR,
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    mean_row,
    select,
)
from slalom_lab.experiments._shared.solvers import fitted
from slalom_lab.experiments._shared.synthetic import (
    LONGEST,
    WORDS,
    Sequences,
    ask,
    count_matrix,
    linear_sequences,
)
from slalom_lab.experiments._shared.verdicts import compare

TITLE = "SLALOM paper, Fig. 4 a, b and Table 6"
CLAIM = (
    "although the data are linear, SLALOM describes the outputs of transformers trained on them better than "
    "a linear model and a GAM do"
)
NEEDS = {"data": (), "packages": ("accelerate", "sklearn")}

SURROGATES = ("linear model", "GAM", "SLALOM", "SLALOM, sgd", "SLALOM + background")
_LASSO = 0.01
"""The GAM's regularisation constant (E.1.2, as the paper's code has it)."""

_L, _G, _S, _SGD = SURROGATES[:4]
_PAR = 0.1
"""On par: errors that differ by a tenth."""
PAPER: Mapping[tuple[str, int], Mapping[str, tuple[float, float]]] = {
    ("gpt2", 1): {_L: (20.31, 2.02), _G: (48.78, 2.70), _S: (16.92, 1.33)},
    ("gpt2", 2): {_L: (24.81, 3.11), _G: (54.33, 3.26), _S: (22.17, 1.98)},
    ("gpt2", 6): {_L: (32.66, 7.60), _G: (57.08, 7.19), _S: (21.59, 4.14)},
    ("gpt2", 12): {_L: (25.74, 4.18), _G: (54.36, 3.94), _S: (20.25, 2.37)},
    ("distilbert", 1): {_L: (28.28, 4.30), _G: (44.43, 2.22), _S: (10.83, 2.13)},
    ("distilbert", 2): {_L: (32.58, 7.75), _G: (53.87, 7.20), _S: (16.82, 4.38)},
    ("distilbert", 6): {_L: (31.49, 4.06), _G: (49.35, 3.13), _S: (17.26, 3.64)},
    ("distilbert", 12): {_L: (50.82, 9.21), _G: (71.64, 9.19), _S: (27.50, 4.18)},
    ("bert", 1): {_L: (26.33, 1.90), _G: (43.30, 0.88), _S: (7.34, 0.70)},
    ("bert", 2): {_L: (28.43, 3.75), _G: (48.28, 3.23), _S: (9.92, 1.19)},
    ("bert", 6): {_L: (50.82, 6.34), _G: (68.23, 4.59), _S: (23.99, 3.38)},
    ("bert", 12): {_L: (44.58, 13.15), _G: (51.38, 14.71), _S: (18.77, 6.78)},
}


@dataclass(frozen=True)
class Size(Training):
    outputs: int
    runs: int


SIZES = {
    "quick": Size(20_000, 1, 64, ("bert", "gpt2"), (1, 2), 4000, 1),
    "full": Size(20_000, 1, 64, ("bert", "distilbert", "gpt2"), (1, 2, 6, 12), 10_000, 3),
}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """The error of every surrogate on outputs it has not seen."""
    size = size or SIZES[settings.mode]
    seeds = [settings.seed + i for i in range(size.runs)]
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for seed in seeds:
        for architecture, layers, explainer in transformers(settings, size, seed):
            rng = np.random.default_rng((seed, 5))
            parts = [linear_sequences(size.outputs, rng) for _ in range(2)]
            answers = [ask(explainer, part, WORDS) for part in parts]
            errors = surrogate_errors(parts, answers, seed)
            found.setdefault((architecture, layers), []).append(errors)
    rows = [row for place, runs in found.items() for row in _rows(place, runs)]
    return conclude(rows, judge, asdict(size), seeds, figures.save(_figure(rows), settings))


def judge(rows: Sequence[Row]) -> Judgement:
    """Over the models, the log of SLALOM's error over that of the better of linear model and GAM.

    The verdict is about the paper's own fit, by SGD, where the rows have it; the exact fit is told beside it.
    Mean and standard error are over models; a tenth more or less counts as on par.
    """
    told, verdict = [], None
    for name in (_SGD, _S):
        factors = _factors(rows, name)
        if not factors:
            continue
        logs = np.log(factors)
        error = float(logs.std(ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else None
        word = compare(Row({}, name, -float(logs.mean()), error, len(logs)), _PAR)
        told.append(
            f"{name}: smallest error for {int((logs < 0).sum())} of {len(logs)} models, {min(factors):.2f} "
            f"to {max(factors):.2f} times that of the better of linear model and GAM, {word}"
        )
        if len(told) == 1:
            verdict = {"better": True, "worse": False, "on par": ON_PAR, "open": None}[word]
    return verdict, "; ".join(told)


def _factors(rows: Sequence[Row], name: str) -> list[float]:
    places = list(dict.fromkeys((row.where["architecture"], row.where["layers"]) for row in rows))
    found = []
    for architecture, layers in places:
        own = select(rows, "MSE", architecture=architecture, layers=layers, surrogate=name)
        others = [
            select(rows, "MSE", architecture=architecture, layers=layers, surrogate=other)[0]
            for other in (_L, _G)
        ]
        found += [value / min(others) for value in own]
    return found


def analyse(rows: Sequence[Row]) -> str:
    """How much of the outputs' variance each surrogate leaves, on average over the models."""
    places = list(dict.fromkeys((row.where["architecture"], row.where["layers"]) for row in rows))
    left: dict[str, list[float]] = {}
    for architecture, layers in places:
        own = {
            str(row.where["surrogate"]): row.ours or 0.0
            for row in rows
            if (row.where["architecture"], row.where["layers"]) == (architecture, layers)
        }
        for name in SURROGATES:
            left.setdefault(name, []).append(own[name] / own["variance"])
    return (
        "of the variance of the models' outputs, on average: "
        + ", ".join(f"{name} leaves {np.mean(shares):.1%}" for name, shares in left.items())
        + ". The outputs' own variance sets the scale of the errors; it depends on how long a model was "
        "trained, so the errors can be compared with the paper's by their order only"
    )


def surrogate_errors(
    parts: Sequence[Sequences], answers: Sequence[FloatArray], seed: int
) -> dict[str, float]:
    """Mean squared errors on the second part of surrogates fitted to the first."""
    counts = [count_matrix(part, len(WORDS)) for part in parts]
    placed = [_by_position(part) for part in parts]
    predicted = {
        "linear model": _linear(counts, answers[0]),
        "GAM": _gam(placed, answers[0]),
        "SLALOM": fitted("exact", counts[0], answers[0], seed).predict(counts[1])[:, 0],
        "SLALOM, sgd": fitted("sgd", counts[0], answers[0], seed).predict(counts[1])[:, 0],
        "SLALOM + background": fitted("background", counts[0], answers[0], seed).predict(counts[1])[:, 0],
        "variance": np.full(len(answers[1]), answers[0].mean()),
    }
    return {name: float(np.mean((values - answers[1]) ** 2)) for name, values in predicted.items()}


def _linear(counts: Sequence[sparse.csr_array], outputs: FloatArray) -> FloatArray:
    from slalom.fit import linear

    return linear.fit(counts[0], outputs, ridge=0).surrogate.predict(counts[1])[:, 0]


def _gam(features: Sequence[sparse.csr_array], outputs: FloatArray) -> FloatArray:
    from sklearn.linear_model import Lasso

    return Lasso(alpha=_LASSO).fit(features[0], outputs).predict(features[1])


def _by_position(sequences: Sequences) -> sparse.csr_array:
    """(N, words · positions) whether each word stands at each position."""
    rows = np.repeat(np.arange(len(sequences)), [len(sequence) for sequence in sequences])
    columns = np.concatenate([np.arange(len(s)) * len(WORDS) + s for s in sequences])
    shape = (len(sequences), LONGEST * len(WORDS))
    found = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    # scikit-learn takes no wider ones
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def _rows(place: tuple[str, int], runs: list[dict[str, float]]) -> list[Row]:
    architecture, layers = place
    return [
        mean_row(
            {"architecture": architecture, "layers": layers, "surrogate": name},
            "MSE",
            [run[name] for run in runs],
            PAPER.get(place, {}).get(name),
        )
        for name in (*SURROGATES, "variance")
    ]


def _figure(rows: Sequence[Row]) -> figures.Figure:
    picture = figures.figure(7.0, 4.0)
    ax = picture.subplots()
    places = list(dict.fromkeys((row.where["architecture"], row.where["layers"]) for row in rows))
    for i, name in enumerate(SURROGATES):
        heights = [select(rows, "MSE", architecture=a, layers=n, surrogate=name)[0] for a, n in places]
        ax.bar(np.arange(len(places)) + 0.16 * (i - 2), heights, 0.16, color=figures.COLOURS[i], label=name)
    ax.set_xticks(np.arange(len(places)), [f"{a}, {n}" for a, n in places], rotation=30, ha="right")
    ax.set_ylabel("MSE on fresh outputs")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    return picture
