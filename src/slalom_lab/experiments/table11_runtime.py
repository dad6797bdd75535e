"""Table 11 (F.7): run time of the methods for equal numbers of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

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


@dataclass(frozen=True)
class Size:
    samples: tuple[int, ...]
    documents: int
    cut: int


SIZES = {"quick": Size((1000, 3000), 2, 128), "full": Size((1000, 3000, 10_000), 2, 128)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Seconds for one explanation, the model's answers included; the BERT of the tables."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    classifier = real.small(settings, "imdb")
    model = classifier.explainer.model
    documents = [shorten(model, document, size.cut) for document in texts]
    classifier.explainer(documents[0].text, budget=200)  # warms caches and libraries up
    rows: list[Row] = []
    for samples in size.samples:
        for name, method in (SAMPLED | ONCE).items():
            settings.say(f"{name}, {samples} samples")
            call = _call(name, samples)
            seconds = [
                classifier.explainer(d.text, method=method, seed=settings.seed, **call).cost.seconds
                for d in documents
            ]
            paper = {**PAPER.get(samples, {}), **PAPER_ONCE}.get(name)
            rows.append(mean_row({"samples": samples, "model": classifier.title}, name, seconds, paper))
    drawn = [row for row in rows if row.where["samples"] == size.samples[0]]
    figure = figures.save(figures.columns(drawn, f"seconds, {size.samples[0]} samples"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """The log of LIME's and of SHAP's seconds over SLALOM's, pooled over the numbers of samples."""
    told = []
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
        return {}
    return {"budget": samples, **({"length": 5} if name == "SLALOM, exact fit" else {})}
