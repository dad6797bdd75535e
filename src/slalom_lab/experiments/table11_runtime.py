"""Table 11 (F.7): run time of the methods for equal numbers of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from slalom.data import Dataset
from slalom.evaluate.document import shorten
from slalom.files import Record
from slalom_lab.experiments._shared import figures, real
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    distinct,
    mean_row,
    select,
)
from slalom_lab.experiments._shared.verdicts import outperforms

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
MARGIN = 0.1
"""Of the logarithm of a ratio of seconds: a tenth more or less is nothing that one would notice."""
PAPER_ONCE = {"IG": (0.05, 0.01), "Grad": (0.01, 0.01)}
"""A GPU's seconds for a 6-layer BERT: the ratios may be compared, the seconds not."""
PAPER_LARGER: dict[str, tuple[float, float | None]] = {}
"""Our copy of the text has lost which model it is and its seconds; the ratios are 25 (LIME), 40 (SHAP)."""


@dataclass(frozen=True)
class Size:
    samples: tuple[int, ...]
    documents: int
    cut: int


SIZES = {"quick": Size((1000, 3000), 2, 128), "full": Size((1000, 3000), 2, real.CUT)}
LARGER = "larger model"
QUICK = ("IG", "Grad")


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Seconds for one explanation, the model's answers included; the BERT of the tables."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    classifier = real.small(settings, "imdb")
    rows = [row for samples in size.samples for row in _timed(settings, classifier, texts, samples, size.cut)]
    larger = None if settings.mode == "quick" else real.larger(settings, "imdb")
    if larger is not None:
        own = _timed(settings, larger, texts, size.samples[0], size.cut, PAPER_LARGER)
        rows += [replace(row, where={**row.where, "size": LARGER}) for row in own]
    drawn = [row for row in _table(rows) if row.where["samples"] == size.samples[0]]
    figure = figures.save(figures.columns(drawn, f"seconds, {size.samples[0]} samples"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def _timed(
    settings: RunSettings,
    classifier: real.Classifier,
    texts: Dataset,
    samples: int,
    cut: int,
    theirs: Mapping[str, tuple[float, float | None]] | None = None,
) -> list[Row]:
    """Seconds of every method, the first call of each left out: it loads libraries."""
    documents = [shorten(classifier.explainer.model, document, cut) for document in texts]
    paper = {**PAPER.get(samples, {}), **PAPER_ONCE} if theirs is None else theirs
    rows = []
    for name, method in (SAMPLED | ONCE).items():
        settings.say(f"{classifier.title}: {name}, {samples} samples")
        few = {**_call(name, samples), **({} if name in ONCE else {"budget": 200})}
        classifier.explainer(documents[0].text, method=method, seed=settings.seed, **few)
        seconds = [
            classifier.explainer(
                d.text, method=method, seed=settings.seed, **_call(name, samples)
            ).cost.seconds
            for d in documents
        ]
        where: dict[str, str | int] = {"samples": samples, "model": classifier.title}
        rows.append(mean_row(where, name, seconds, paper.get(name)))
    return rows


def _table(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "size" not in row.where]


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """The second part of the paper's table, and what it says about gradients."""
    found: dict[str, Judgement] = {}
    larger = {row.measure: row.ours or 0.0 for row in rows if row.where.get("size") == LARGER}
    if larger:
        ratios = {name: larger[name] / larger["SLALOM"] for name in ("LIME", "SHAP")}
        told = ", ".join(f"{ratio:.1f} times faster than {name}" for name, ratio in ratios.items())
        found["a larger model"] = all(ratio > 1 + MARGIN for ratio in ratios.values()), f"SLALOM is {told}"
    seconds: dict[str, list[float]] = {}
    for row in _table(rows):
        seconds.setdefault(row.measure, []).append(row.ours or 0.0)
    if all(name in seconds for name in QUICK):
        slow = {name: max(seconds[name]) for name in QUICK}
        quick = min(min(own) for name, own in seconds.items() if name not in QUICK)
        found["gradients and integrated gradients are the quickest"] = (
            max(slow.values()) < quick,
            ", ".join(f"{name} {most:.2f} s" for name, most in slow.items())
            + f", the quickest of the others {quick:.2f} s",
        )
    return found


def judge(rows: Sequence[Row]) -> Judgement:
    """The log of LIME's and of SHAP's seconds over SLALOM's, pooled over the numbers of samples."""
    told, rows = [], _table(rows)
    logs: dict[str, list[float]] = {"LIME": [], "SHAP": []}
    for samples in distinct(rows, "samples"):
        shap, lime, own, exact = (select(rows, name, samples=samples)[0] for name in SAMPLED)
        logs["LIME"].append(float(np.log(lime / own)))
        logs["SHAP"].append(float(np.log(shap / own)))
        told.append(
            f"{samples} samples: {lime / own:.1f} times faster than LIME, {shap / own:.1f} times than SHAP "
            f"(with the exact fit {lime / exact:.1f} and {shap / exact:.1f} times)"
        )
    pooled = [mean_row({}, f"log seconds of {name} over SLALOM's", found) for name, found in logs.items()]
    verdict, also = outperforms(pooled, [row.measure for row in pooled], MARGIN)
    return verdict, f"SLALOM's run time: {'; '.join(told)}; {also}"


def _call(name: str, samples: int) -> Record:
    if name in ONCE:
        return {"most_steps": 50} if name == "IG" else {}
    return {"budget": samples, **({"length": 5} if name == "SLALOM, exact fit" else {})}
