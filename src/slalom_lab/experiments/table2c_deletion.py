"""Table 2c: deletion AOPC of SLALOM's scores, LIME, SHAP, IG and gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from slalom_lab.experiments._shared import columns, figures, real, together
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    Verdict,
    all_of,
    conclude,
    decide,
)
from slalom_lab.experiments._shared.verdicts import compare, outperforms, pooled

TITLE = "SLALOM paper, Table 2c"
CLAIM = (
    "linearised SLALOM scores outperform LIME and SHAP in the deletion benchmark, and integrated gradients "
    "and gradients are far behind"
)
NEEDS = {"data": ("imdb",), "packages": ("captum", "lime", "pyarrow", "shap", "sklearn")}

COLUMNS = ("values", "importances", "lin. SLALOM", "LIME", "SHAP", "IG", "Grad")
MARGIN = 0.01
"""AOPC, a probability: the paper's own columns of SLALOM, LIME and SHAP differ by 0.003 to 0.04."""
SHORTER = "SLALOM is fitted to shorter sequences than LIME (F.7)"
FAR = 0.1
"""Far behind: the paper's IG and Grad are behind by 0.5 and more."""
PAIRS = {
    "lin. SLALOM": ("LIME", "SHAP", "IG", "Grad", "importances"),
    "values": ("importances",),
    "this library": ("LIME", "lin. SLALOM"),
}
"""Which columns are compared with which; the claim is about the first, and 6.3 about the importances."""


def paper(*numbers: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """A line of the paper's table."""
    return dict(zip(COLUMNS, numbers, strict=True))


PAPER = {
    "DistilBERT": paper(
        (0.913, 0.053),
        (0.249, 0.215),
        (0.915, 0.053),
        (0.892, 0.068),
        (0.876, 0.071),
        (0.360, 0.346),
        (0.387, 0.344),
    ),
    "BERT": paper(
        (0.943, 0.048),
        (0.262, 0.252),
        (0.944, 0.048),
        (0.939, 0.056),
        (0.929, 0.070),
        (0.093, 0.130),
        (0.093, 0.129),
    ),
    "GPT-2": paper(
        (0.907, 0.055),
        (0.294, 0.154),
        (0.908, 0.055),
        (0.905, 0.057),
        (0.895, 0.063),
        (0.378, 0.203),
        (0.436, 0.204),
    ),
}


@dataclass(frozen=True)
class Size:
    documents: int
    budget: int
    cut: int


SIZES = {"quick": Size(12, 500, real.CUT), "full": Size(100, 480, 48)}
"""Ten samples for each token; the paper has 5,000 for reviews of up to 512."""


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """AOPC with tokens dropped in steps of five, strongest first; explained is the predicted label."""
    size = size or SIZES[settings.mode]
    rows = measured(settings, size, "deletion", PAPER)
    figure = figures.save(figures.columns(columns.shown(rows), "deletion AOPC, high is good"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def measured(
    settings: RunSettings, size: Size, protocol: str, published: dict[str, dict[str, tuple[float, float]]]
) -> list[Row]:
    """The rows of deletion or insertion: both are judged on the same explanations, which are made once."""
    texts = real.documents(settings, "imdb", size.documents)
    numbers = {column: (method, "aopc") for column, method in real.METHODS.items()}
    sign = 1.0 if protocol == "deletion" else -1.0
    rows: list[Row] = []
    studied = []
    for classifier in real.classifiers(settings, "imdb"):
        results = real.study(
            settings,
            classifier,
            texts,
            tuple(real.METHODS.values()),
            ("deletion", "insertion"),
            budget=size.budget,
            cut=size.cut,
        )
        studied.append(results)
        rows += columns.rows(results, classifier, protocol, numbers, published[classifier.like])
        for one, others in PAIRS.items():
            rows += columns.differences(results, classifier, protocol, numbers, one, others, sign)
        if protocol == "deletion":
            rows += columns.costs(results, classifier)
    return [*rows, *together.rows(studied, protocol, numbers, (), PAIRS, sign)]


def analyse(rows: Sequence[Row]) -> str:
    """Which of the differences are clear, and what both sides cost."""
    return f"{columns.weigh(rows)}. {columns.tell_costs(rows)}"


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """The claim's two parts, each by its own rule; which of SLALOM's scores deletion needs; F.7's costs."""
    return {
        "linearised scores outperform LIME and SHAP": _ahead(rows),
        "IG and Grad are far behind": _far(rows),
        SHORTER: _shorter(rows),
        "values and linearised scores, not importances (Section 6.3)": _needed(rows),
    }


def _shorter(rows: Sequence[Row]) -> Judgement:
    """F.7's reason for the run times: as many samples have fewer tokens, on every model."""
    read = {
        name: [row for row in rows if row.measure == f"tokens read, {name}"]
        for name in ("LIME", "lin. SLALOM")
    }
    verdicts: list[Verdict] = []
    told = []
    for lime, own in zip(*read.values(), strict=True):
        more, less = lime.ours or 0.0, own.ours or 0.0
        error = math.hypot(lime.error or 0.0, own.error or 0.0)
        verdicts.append(decide(Row(own.where, "more tokens", more - less, error)))
        told.append(f"{own.where['model']} reads {less:,.0f} tokens for SLALOM and {more:,.0f} for LIME")
    return all_of(verdicts), f"with the same number of samples {'; '.join(told) or 'no cost was measured'}"


def _needed(rows: Sequence[Row]) -> Judgement:
    """Both above the importances, pooled."""
    verdicts = [decide(_apart(rows, name, "importances")) for name in ("values", "lin. SLALOM")]
    means = {name: pooled(rows, name) for name in ("values", "lin. SLALOM", "importances")}
    told = ", ".join(f"{name} {row.ours or 0.0:.3f}" for name, row in means.items())
    return all_of(verdicts), f"pooled deletion AOPC: {told}"


def _apart(rows: Sequence[Row], one: str, other: str) -> Row:
    """How much better one column is, pooled: paired by document, or as if of other documents: too wide."""
    paired = pooled(rows, f"{one} over {other}")
    if paired.ours is not None:
        return paired
    more, less = pooled(rows, one), pooled(rows, other)
    if more.ours is None or less.ours is None:
        return paired
    error = math.hypot(more.error or 0.0, less.error or 0.0)
    return replace(paired, ours=more.ours - less.ours, error=error)


def _ahead(rows: Sequence[Row]) -> Judgement:
    return outperforms(rows, [f"lin. SLALOM over {name}" for name in ("LIME", "SHAP")], MARGIN)


def _far(rows: Sequence[Row]) -> Judgement:
    behind = {name: _apart(rows, "lin. SLALOM", name) for name in ("IG", "Grad")}
    shifted = {
        name: replace(row, ours=None if row.ours is None else row.ours - FAR) for name, row in behind.items()
    }
    words = {"better": True, "on par": None, "worse": False, "open": None}
    far = [words[compare(row, 0.0)] for row in shifted.values()]
    told = ", ".join(
        f"{'–' if row.ours is None else f'{row.ours:.3f}'} ± {row.error or 0.0:.3f} {name}"
        for name, row in behind.items()
    )
    return all_of(far), f"behind by {told} (far is {FAR} and more)"


def judge(rows: Sequence[Row]) -> Judgement:
    """Pooled: better than LIME and SHAP; ahead of IG and of gradients by two standard errors and `FAR`."""
    (ahead, told), (far, also) = _ahead(rows), _far(rows)
    return all_of([ahead, far]), f"{told}; {also}"
