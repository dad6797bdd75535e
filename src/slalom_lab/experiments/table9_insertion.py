"""Table 9 (F.5): insertion AOPC of SLALOM's scores, LIME, SHAP, IG and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from slalom_lab.experiments._shared import columns, figures
from slalom_lab.experiments._shared.outcome import Findings, Judgement, Row, RunSettings, conclude
from slalom_lab.experiments._shared.verdicts import not_behind
from slalom_lab.experiments.table2c_deletion import SIZES, Size, measured, paper

TITLE = "SLALOM paper, Table 9 (F.5)"
CLAIM = "linearised SLALOM scores perform on par with LIME and SHAP in the insertion benchmark"
NEEDS = {"data": ("imdb",), "packages": ("captum", "lime", "pyarrow", "shap", "sklearn")}

__all__ = ["CLAIM", "NEEDS", "SIZES", "TITLE", "analyse", "judge", "run"]

PAR = 0.01
"""On par: behind by no more than this, as in the deletion benchmark."""

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


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """One minus the mean probability with the strongest 5, 10, … tokens kept: low is good."""
    size = size or SIZES[settings.mode]
    rows = measured(settings, size, "insertion", PAPER)
    figure = figures.save(figures.columns(columns.shown(rows), "insertion AOPC, low is good"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    """Which of the differences are clear."""
    return columns.weigh(rows, threshold=-PAR)


def judge(rows: Sequence[Row]) -> Judgement:
    """On par: pooled, by two standard errors not behind LIME or SHAP by more than `PAR`."""
    return not_behind(rows, [f"lin. SLALOM over {name}" for name in ("LIME", "SHAP")], PAR)
