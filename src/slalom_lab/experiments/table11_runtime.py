"""Table 11 (F.7): run time of the methods for equal numbers of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from slalom.data import Dataset
from slalom.evaluate.document import shorten
from slalom.files import Record
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared import figures, real
from slalom_lab.experiments._shared.outcome import (
    ON_PAR,
    Findings,
    Judgement,
    Row,
    RunSettings,
    Verdict,
    all_of,
    conclude,
    distinct,
    mean_row,
    select,
)
from slalom_lab.experiments._shared.verdicts import Comparison, compare, outperforms, within

TITLE = "SLALOM paper, Table 11 (F.7)"
CLAIM = (
    "with the same number of samples SLALOM is several times faster than LIME and SHAP, since it is fitted "
    "to shorter sequences"
)
NEEDS = {"data": ("imdb",), "packages": ("captum", "lime", "shap", "sklearn")}

SAMPLED = {"SHAP": "kernel_shap", "LIME": "lime", "SLALOM": "slalom_sgd", "SLALOM, exact fit": "slalom"}
ONCE = {"IG": "integrated_gradients", "Grad": "gradient"}
PAPER = {
    1000: {"SHAP": (3.89, 0.21), "LIME": (1.55, 0.22), "SLALOM": (0.24, 0.02)},
    3000: {"SHAP": (13.70, 0.29), "LIME": (4.69, 0.66), "SLALOM": (0.71, 0.01)},
    10000: {"SHAP": (45.54, 0.80), "LIME": (15.57, 2.20), "SLALOM": (2.40, 0.02)},
}
WORDS = {"LIME": 9, "SHAP": 20}
"""How many times faster the paper says it is: "around 8-10x" and "almost 20x"."""
TWICE = float(np.log(2))
"""Of the logarithm of a ratio: as many times faster is up to twice and down to half as many times."""
MARGIN = 0.1
"""Of the logarithm of a ratio of seconds: a tenth more or less is nothing that one would notice."""
PAPER_ONCE = {"IG": (0.05, 0.01), "Grad": (0.01, 0.01)}
"""A GPU's seconds for a 6-layer BERT: the ratios may be compared, the seconds not."""
PAPER_LARGER = {
    "SHAP": (25.04, 2.37),
    "LIME": (15.73, 2.37),
    "IG": (0.29, 0.04),
    "Grad": (0.06, 0.01),
    "SLALOM": (0.62, 0.02),
}
"""The second part of the table, 1000 samples; our copy of the text has lost which model it is."""
OVER = {name: f"log seconds of {name} over SLALOM's" for name in ("LIME", "SHAP")}
QUICKEST = "log seconds of the quickest sampled method over the slower of IG and Grad"
"""Paired by document."""


@dataclass(frozen=True)
class Size:
    samples: tuple[int, ...]
    documents: int
    cut: int


SIZES = {"quick": Size((1000, 3000), 3, 128), "full": Size((1000, 3000), 8, real.CUT)}
ALL = "all"
LARGER = "larger model"
QUICK = ("IG", "Grad")
Seconds = Mapping[str, Sequence[float]]
"""By method, of every document."""


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Seconds for one explanation, the model's answers included; the BERT of the tables."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    classifier = real.small(settings, "imdb")
    rows: list[Row] = []
    timed: list[Seconds] = []
    for samples in size.samples:
        timed.append(_timed(settings, classifier, texts, samples, size.cut))
        where: dict[str, str | int] = {"samples": samples, "model": classifier.title}
        rows += _rows(where, timed[-1], {**PAPER.get(samples, {}), **PAPER_ONCE})
    rows += _together({"samples": ALL, "model": classifier.title}, timed)
    larger = None if settings.mode == "quick" else real.larger(settings, "imdb")
    if larger is not None:
        own = _timed(settings, larger, texts, size.samples[0], size.cut)
        where = {"samples": size.samples[0], "model": larger.title, "size": LARGER}
        rows += _rows(where, own, PAPER_LARGER)
    drawn = [row for row in _table(rows) if row.where["samples"] == size.samples[0] and _is_seconds(row)]
    figure = figures.save(figures.columns(drawn, f"seconds, {size.samples[0]} samples"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def _timed(
    settings: RunSettings,
    classifier: real.Classifier,
    texts: Dataset,
    samples: int,
    cut: int,
) -> Seconds:
    """Seconds of every method on every document, the first call of each left out: it loads libraries."""
    documents = [shorten(classifier.explainer.model, document, cut) for document in texts]
    found: dict[str, list[float]] = {}
    for name, method in (SAMPLED | ONCE).items():
        settings.say(f"{classifier.title}: {name}, {samples} samples")
        few = {**_call(name, samples), **({} if name in ONCE else {"budget": 200})}
        classifier.explainer(documents[0].text, method=method, seed=settings.seed, **few)
        found[name] = [
            classifier.explainer(
                d.text, method=method, seed=settings.seed, **_call(name, samples)
            ).cost.seconds
            for d in documents
        ]
    return found


def _rows(
    where: Mapping[str, str | int], seconds: Seconds, theirs: Mapping[str, tuple[float, float]]
) -> list[Row]:
    """Seconds by method, and the logarithms of their ratios, document by document."""
    rows = [mean_row(where, name, own, theirs.get(name)) for name, own in seconds.items()]
    for measure, logs in _logs(seconds).items():
        name = next((name for name, known in OVER.items() if known == measure and name in theirs), None)
        paper = None if name is None else float(np.log(theirs[name][0] / theirs["SLALOM"][0]))
        rows.append(mean_row(where, measure, logs.tolist(), None if paper is None else (paper, None)))
    return rows


def _logs(seconds: Seconds) -> dict[str, FloatArray]:
    """By measure, the logarithm of a ratio of seconds for every document."""
    own = {name: np.log(values) for name, values in seconds.items()}
    found = {measure: own[name] - own["SLALOM"] for name, measure in OVER.items()}
    quickest = np.min([own[name] for name in SAMPLED], axis=0)
    return {**found, QUICKEST: quickest - np.max([own[name] for name in QUICK], axis=0)}


def _together(where: Mapping[str, str | int], timed: Sequence[Seconds]) -> list[Row]:
    """The same logarithms, each document's mean over the numbers of samples."""
    each = [_logs(seconds) for seconds in timed]
    return [
        mean_row(where, measure, np.mean([own[measure] for own in each], axis=0).tolist())
        for measure in OVER.values()
    ]


def _is_seconds(row: Row) -> bool:
    return row.measure in SAMPLED or row.measure in ONCE


def _table(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "size" not in row.where]


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """How many times faster, the second part of the paper's table, and what it says about gradients."""
    found = {"as many times faster as the paper's": _as_fast(rows)}
    larger = [row for row in rows if row.where.get("size") == LARGER]
    if larger:
        found["a larger model"] = outperforms(larger, tuple(OVER.values()), MARGIN)
    quickest = [row for row in _table(rows) if row.measure == QUICKEST]
    if quickest:
        found["gradients and integrated gradients are the quickest"] = (
            all_of([_BETTER[compare(row, MARGIN)] for row in quickest]),
            "log of the quickest other method's seconds over the slower of both, "
            + ", ".join(f"{row.where['samples']} samples {_number(row)}" for row in quickest),
        )
    return found


_BETTER: Mapping[Comparison, Verdict] = {"better": True, "worse": False, "on par": ON_PAR, "open": None}


def _as_fast(rows: Sequence[Row]) -> Judgement:
    """By two standard errors over documents within a factor of two of the paper's words."""
    verdicts, told = [], []
    for name, times in WORDS.items():
        row = _all(rows, name)
        off = None if row.ours is None else row.ours - float(np.log(times))
        verdicts.append(within(replace(row, ours=off), TWICE))
        told.append(f"{name} {np.exp(row.ours or 0.0):.1f} times, log {_number(row)} (the paper {times})")
    return all_of(verdicts), f"SLALOM is faster than {', '.join(told)}; alike is within a factor of two"


def _all(rows: Sequence[Row], name: str) -> Row:
    """The mean over the numbers of samples, document by document."""
    none = Row({}, OVER[name], None)
    return next((row for row in rows if row.measure == OVER[name] and row.where["samples"] == ALL), none)


def _number(row: Row) -> str:
    return f"{row.ours or 0.0:+.2f} ± {row.error or 0.0:.2f}"


def judge(rows: Sequence[Row]) -> Judgement:
    """The log of LIME's and of SHAP's seconds over SLALOM's, paired by document, over all samples."""
    told, table = [], _table(rows)
    for samples in (samples for samples in distinct(table, "samples") if samples != ALL):
        shap, lime, own, exact = (select(table, name, samples=samples)[0] for name in SAMPLED)
        told.append(
            f"{samples} samples: {lime / own:.1f} times faster than LIME, {shap / own:.1f} times than SHAP "
            f"(with the exact fit {lime / exact:.1f} and {shap / exact:.1f} times)"
        )
    verdict, also = outperforms([_all(rows, name) for name in OVER], tuple(OVER.values()), MARGIN)
    return verdict, f"SLALOM's run time: {'; '.join(told)}; {also}"


def _call(name: str, samples: int) -> Record:
    if name in ONCE:
        return {"most_steps": 50} if name == "IG" else {}
    return {"budget": samples, **({"length": 5} if name == "SLALOM, exact fit" else {})}
