"""Table 12 (F.7): how good SLALOM's ranking is with fewer samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from slalom.data import Document
from slalom.evaluate.document import shorten
from slalom_lab.experiments._shared import figures, real
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
from slalom_lab.experiments._shared.verdicts import not_behind, outperforms

TITLE = "SLALOM paper, Table 12 (F.7)"
CLAIM = (
    "500 samples already give a deletion AOPC that is competitive with SHAP's, and more samples improve it"
)
NEEDS = {"data": ("imdb",), "packages": ("pyarrow", "shap")}

SHAP = "SHAP (nsamples “auto”)"
PAPER = {
    SHAP: (0.9135, 0.0105),
    "500 samples": (0.9243, 0.0105),
    "1000 samples": (0.9236, 0.005),
    "2000 samples": (0.9348, 0.005),
    "5000 samples": (0.9387, 0.005),
    "10000 samples": (0.9387, 0.005),
}
_AOPC = "deletion AOPC"
_ALIKE, _SLOPE = "rank correlation of two seeds", "change by a doubling of the tokens"
_EXACT, _ALL = "SLALOM, exact fit", "SLALOM, exact fit, all sizes"
"""The paper's queries with another solver, and the library's own design with it."""
_BESIDE, _GAIN = "fewest samples beside SHAP", "most samples beside fewest"
_SOLVER, _DESIGN = "exact solver beside SGD, same queries", "copies of all sizes beside short queries"
PAR = 0.01
"""AOPC. Competitive: behind SHAP by no more than this; more samples improve it: by more than this."""


@dataclass(frozen=True)
class Size:
    samples: tuple[int, ...]
    documents: int
    cut: int
    lengths: tuple[int, ...]
    """Tokens that reviews are cut to, to see how many samples a length needs."""
    reviews: int
    """Of each length."""


SIZES = {
    "quick": Size((500, 1000, 2000), 10, real.CUT, (16, 64), 4),
    "full": Size((500, 1000, 2000, 5000), 100, 48, (8, 16, 32, 64), 24),
}
"""The paper has 10,000 too, which there are no better than 5,000."""


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Deletion AOPC by number of samples, for the paper's SGD and for the exact solver."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    classifier = real.small(settings, "imdb")
    # shap's "auto" is 2 n + 2048 samples
    specs: dict[tuple[str, str], str] = {(SHAP, "SHAP"): f"kernel_shap:budget={2 * size.cut + 2048}"}
    for n in size.samples:
        specs[f"{n} samples", "SLALOM"] = f"slalom_sgd:budget={n}"
    fewest = size.samples[0]  # solver and design are told apart where samples are few
    specs[f"{fewest} samples", _EXACT] = f"slalom:length=5:budget={fewest}"
    specs[f"{fewest} samples", _ALL] = f"slalom:budget={fewest}"
    results = real.study(
        settings, classifier, texts, tuple(specs.values()), ("deletion",), budget=1000, cut=size.cut
    )
    found = results.values("deletion", "aopc")
    rows = [
        mean_row(
            {"samples": samples, "method": name},
            _AOPC,
            list(found[spec].values()),
            PAPER.get(samples) if name in ("SHAP", "SLALOM") else None,
        )
        for (samples, name), spec in specs.items()
    ]
    few, many = (f"{n} samples" for n in (size.samples[0], size.samples[-1]))
    pairs = {
        _BESIDE: ((few, "SLALOM"), (SHAP, "SHAP")),
        _GAIN: ((many, "SLALOM"), (few, "SLALOM")),
        _SOLVER: ((few, _EXACT), (few, "SLALOM")),
        _DESIGN: ((few, _ALL), (few, _EXACT)),
    }
    for name, places in pairs.items():
        one, other = (found[specs[place]] for place in places)
        values = [one[document] - other[document] for document in one if document in other]
        rows.append(mean_row({"samples": "", "method": name}, _AOPC, values))
    rows += _by_length(settings, classifier, size)
    told = {**asdict(size), "model": classifier.title}
    figure = figures.save(_figure(rows, size), settings)
    return conclude(rows, judge, told, (settings.seed,), figure)


def _by_length(settings: RunSettings, classifier: real.Classifier, size: Size) -> list[Row]:
    """How alike the linearised scores of two seeds are, with the fewest samples, for pieces of a review."""
    found: dict[int, list[float]] = {n: [] for n in size.lengths}
    slopes = []
    for count, document in enumerate(real.documents(settings, "imdb", size.reviews)):
        settings.say(f"{count + 1} of {size.reviews} reviews cut to {len(size.lengths)} lengths")
        own = [_alike(classifier, document, length, size.samples[0]) for length in size.lengths]
        if None in own:
            continue  # a review that is shorter than the longest piece
        for length, value in zip(size.lengths, own, strict=True):
            found[length].append(value or 0.0)
        x = np.log2(size.lengths) - np.mean(np.log2(size.lengths))
        slopes.append(float(x @ np.array(own) / (x @ x)))
    where = {"samples": f"{size.samples[0]} samples"}
    rows = [mean_row({**where, "method": f"{n} tokens"}, _ALIKE, own) for n, own in found.items()]
    return [*rows, mean_row({**where, "method": _SLOPE}, _ALIKE, slopes)]


def _alike(classifier: real.Classifier, document: Document, length: int, samples: int) -> float | None:
    text = shorten(classifier.explainer.model, document, length).text
    one, other = (
        classifier.explainer(text, method="slalom_sgd", target=1, budget=samples, seed=seed)
        for seed in (0, 1)
    )
    if len(one) < 0.9 * length:
        return None
    ranks: Any = spearmanr(one.score(), other.score())
    return float(ranks.statistic)


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """The claim's two parts, and what F.7 says about longer texts."""
    beside, gain = _judged(rows)
    found = {
        "the fewest samples are competitive with SHAP": not_behind([beside], [_BESIDE], PAR),
        "more samples improve it": outperforms([gain], [_GAIN], PAR),
    }
    slopes = [row for row in rows if row.where["method"] == _SLOPE]
    if slopes:
        found["longer texts need more samples"] = _longer(rows, slopes[0])
    return found


def _longer(rows: Sequence[Row], slope: Row) -> Judgement:
    rises = decide(slope)
    curve = [row for row in rows if row.measure == _ALIKE and row is not slope]
    return (
        None if rises is None else not rises,
        f"with {slope.where['samples']} the rank correlation of two seeds' scores is "
        + ", ".join(f"{row.ours or 0.0:.3f} at {row.where['method']}" for row in curve)
        + f"; by a doubling it changes by {slope.ours or 0.0:+.4f} ± {slope.error or 0.0:.4f}",
    )


def _judged(rows: Sequence[Row]) -> list[Row]:
    return [
        replace(next(row for row in rows if row.where["method"] == name), measure=name)
        for name in (_BESIDE, _GAIN)
    ]


def analyse(rows: Sequence[Row]) -> str:
    """Solver and design apart: what the fit gains on the paper's queries, and what other queries gain."""
    parts = {name: next(row for row in rows if row.where["method"] == name) for name in (_SOLVER, _DESIGN)}
    curve = select(rows, _AOPC, method="SLALOM")
    return (
        "with the fewest samples, "
        + "; ".join(f"{name}: {row.ours:+.3f} ± {row.error or 0.0:.3f}" for name, row in parts.items())
        + f"; from the fewest to the most samples SLALOM gains {curve[-1] - curve[0]:+.3f}"
    )


def judge(rows: Sequence[Row]) -> Judgement:
    """The fewest samples are at most `PAR` behind SHAP, and the most are better by more than `PAR`."""
    beside, gain = _judged(rows)
    curve, exact = (select(rows, _AOPC, method=name) for name in ("SLALOM", _EXACT))
    counts = [row.where["samples"] for row in rows if row.where["method"] == "SLALOM"]
    par, told = not_behind([beside], [_BESIDE], PAR)
    more, also = outperforms([gain], [_GAIN], PAR)
    sentence = (
        f"deletion AOPC {curve[0]:.3f} with {counts[0]} and {curve[-1]:.3f} with {counts[-1]} (exact fit "
        f"{exact[0]:.3f} with the fewest), SHAP {select(rows, _AOPC, method='SHAP')[0]:.3f}; "
        f"{told}; {also}"
    )
    return all_of([par, more]), sentence


def _figure(rows: Sequence[Row], size: Size) -> figures.Figure:
    picture = figures.figure()
    ax = picture.subplots()
    [shap] = select(rows, _AOPC, method="SHAP")
    found = {name: select(rows, _AOPC, method=name) for name in ("SLALOM", _EXACT, _ALL)}
    curves = {name: (size.samples[: len(own)], own) for name, own in found.items()}
    figures.lines(ax, {**curves, "SHAP": (size.samples, [shap] * len(size.samples))}, dashed=("SHAP",))
    ax.set_xscale("log")
    ax.set_xlabel("samples")
    ax.set_ylabel("deletion AOPC")
    return picture
