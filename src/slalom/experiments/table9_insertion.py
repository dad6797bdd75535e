"""Table 9 (F.5): insertion AOPC of SLALOM's scores, LIME, SHAP, IG and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from slalom.experiments import figures
from slalom.experiments.outcome import (
    Judgement,
    Outcome,
    Row,
    Settings,
    conclude,
    distinct,
    select,
)
from slalom.experiments.table2c_deletion import SIZES, Size, measured, paper

TITLE = "SLALOM paper, Table 9 (F.5)"
CLAIM = "linearised SLALOM scores perform on par with LIME and SHAP in the insertion benchmark"
NEEDS = {"data": ("imdb",), "packages": ("captum", "lime", "pyarrow", "shap", "sklearn")}

__all__ = ["CLAIM", "NEEDS", "SIZES", "TITLE", "judge", "run"]

PAR = 0.02
"""On par: behind the better of the two by no more than this."""

PAPER = {
    "GPT-2": paper(
        (0.088, 0.061),
        (0.531, 0.209),
        (0.088, 0.061),
        (0.089, 0.062),
        (0.100, 0.071),
        (0.617, 0.191),
        (0.559, 0.191),
    ),
    "BERT": paper(
        (0.011, 0.005),
        (0.293, 0.199),
        (0.010, 0.004),
        (0.009, 0.004),
        (0.010, 0.006),
        (0.482, 0.275),
        (0.497, 0.280),
    ),
    "DistilBERT": paper(
        (0.041, 0.020),
        (0.442, 0.336),
        (0.040, 0.019),
        (0.041, 0.021),
        (0.044, 0.025),
        (0.439, 0.335),
        (0.343, 0.319),
    ),
}


def run(settings: Settings, size: Size | None = None) -> Outcome:
    """One minus the mean probability with the strongest 5, 10, … tokens kept: low is good."""
    size = size or SIZES[settings.mode]
    rows = measured(settings, size, "insertion", PAPER)
    figure = figures.save(figures.columns(rows, "insertion AOPC, low is good"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """On par with the better of LIME and SHAP, for every model."""
    good, told = 0, []
    models = distinct(rows, "model")
    for model in models:
        linear, lime, shap, own = (
            select(rows, name, model=model)[0] for name in ("lin. SLALOM", "LIME", "SHAP", "this library")
        )
        good += linear <= min(lime, shap) + PAR
        told.append(f"{model}: {linear:.3f}, LIME {lime:.3f}, SHAP {shap:.3f}, this library {own:.3f}")
    sentence = (
        f"linearised SLALOM is within {PAR} of the better of LIME and SHAP, or below it, for {good} of "
        f"{len(models)} models ({'; '.join(told)})"
    )
    return good == len(models), sentence
