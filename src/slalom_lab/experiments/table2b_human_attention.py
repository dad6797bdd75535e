"""Table 2b: AU-ROC of predicting human attention on Yelp-HAT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from slalom_lab.experiments._shared import columns, figures, real, together
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    all_of,
    conclude,
    decide,
    distinct,
)
from slalom_lab.experiments._shared.verdicts import not_behind, outperforms, pooled, within

TITLE = "SLALOM paper, Table 2b"
CLAIM = (
    "importances predict where human attention is placed better than LIME and SHAP, and as well as values "
    "and linearised scores or better (the paper's GPT-2 has all three alike); integrated gradients and "
    "gradients are almost at random level"
)
NEEDS = {"data": ("yelp_hat", "yelp"), "packages": ("captum", "lime", "pyarrow", "shap", "sklearn")}

MARGIN = 0.02
"""AU-ROC: the standard errors of the paper's own columns are 0.02 to 0.04."""
RANDOM = 0.05
"""Almost at random level: AU-ROC within 0.5 ± this, by two standard errors."""
COLUMNS = ("values", "importances", "lin. SLALOM", "LIME", "SHAP")


def _paper(*numbers: tuple[float, float]) -> dict[str, tuple[float, float]]:
    return dict(zip(COLUMNS, numbers, strict=True))


PAPER = {
    "DistilBERT": _paper((0.68, 0.03), (0.73, 0.02), (0.71, 0.03), (0.67, 0.03), (0.69, 0.03)),
    "BERT": _paper((0.57, 0.04), (0.72, 0.03), (0.64, 0.03), (0.63, 0.03), (0.68, 0.03)),
    "GPT-2": _paper((0.67, 0.02), (0.67, 0.02), (0.67, 0.02), (0.64, 0.03), (0.60, 0.03)),
}
_MAP = "auroc_consensus"
NUMBERS = {
    **columns.scores_of_slalom(_MAP),
    "LIME": ("lime", _MAP),
    "SHAP": ("kernel_shap", _MAP),
    "IG": (real.IG, _MAP),
    "Grad": ("gradient", _MAP),
    "values (this library)": ("slalom", f"{_MAP}_value"),
    "importances (this library)": ("slalom", f"{_MAP}_importance"),
    "lin. (this library)": ("slalom", _MAP),
}


@dataclass(frozen=True)
class Size:
    documents: int
    """Of which people marked some words and left some, among those that the model reads."""
    budget: int
    cut: int


SIZES = {"quick": Size(20, 500, real.CUT), "full": Size(100, 480, 48)}
"""Ten samples for each token; the paper has 5,000 for reviews of up to 512."""


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """AU-ROC of unsigned scores for the words that all annotators marked."""
    size = size or SIZES[settings.mode]
    methods = ("slalom_sgd", "lime", "kernel_shap", real.IG, "gradient", "slalom")
    others = [name for name in COLUMNS if name != "importances"]
    rows: list[Row] = []
    studied = []
    for classifier in real.classifiers(settings, "yelp"):
        rows += real.accuracy(classifier, "yelp")
        texts = real.marked(settings, classifier, size.documents, size.cut)
        results = real.study(
            settings, classifier, texts, methods, ("human_attention",), budget=size.budget, cut=size.cut
        )
        rows += columns.rows(results, classifier, "human_attention", NUMBERS, PAPER[classifier.like])
        rows += columns.differences(results, classifier, "human_attention", NUMBERS, "importances", others)
        rows += columns.costs(results, classifier)
        studied.append(results)
    rows += together.rows(studied, "human_attention", NUMBERS, ("IG", "Grad"), {"importances": others})
    figure = figures.save(figures.columns(columns.shown(rows), "AU-ROC for the consensus map"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    """Which of the differences are clear, and what both sides cost."""
    return f"{columns.weigh(rows)}. {columns.tell_costs(rows)}"


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """The claim's three parts, each by its own rule."""
    ahead = outperforms(rows, [f"importances over {name}" for name in ("LIME", "SHAP")], MARGIN)
    level = not_behind(rows, [f"importances over {name}" for name in ("values", "lin. SLALOM")], MARGIN)
    return {
        "importances are better than LIME and SHAP": ahead,
        "importances are not behind values and linearised scores": level,
        "IG and Grad are almost at random level": _random(rows),
    }


def _random(rows: Sequence[Row]) -> Judgement:
    near, told = [], []
    for name in ("IG", "Grad"):
        row = pooled(rows, name)
        near.append(within(replace(row, ours=None if row.ours is None else row.ours - 0.5), RANDOM))
        number = "not measured" if row.ours is None else f"{row.ours:.3f} ± {row.error or 0.0:.3f}"
        told.append(f"{name} {number}")
    return all_of(near), f"{', '.join(told)} (almost is within {RANDOM} of 0.5)"


def judge(rows: Sequence[Row]) -> Judgement:
    """Pooled: better than LIME and SHAP, not behind values and linearised scores; IG and Grad near 0.5."""
    models = distinct(columns.models(rows), "model")
    ahead, told = outperforms(rows, [f"importances over {name}" for name in ("LIME", "SHAP")], MARGIN)
    level, also = not_behind(rows, [f"importances over {name}" for name in ("values", "lin. SLALOM")], MARGIN)
    chance = {name: sum(decide(row, 0.5) is True for row in rows if row.measure == name) for name in COLUMNS}
    sentence = (
        f"{told}; beside SLALOM's other scores, {also}; above chance by two standard errors: "
        + ", ".join(f"{name} for {count} of {len(models)} models" for name, count in chance.items())
    )
    near, more = _random(rows)
    return all_of([ahead, level, near]), f"{sentence}; {more}"
