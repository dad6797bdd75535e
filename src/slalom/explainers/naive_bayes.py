"""Naive Bayes: how much more often a token stands in texts of the label than in others.

It explains the data, not the model: w(τ) = log((c⁺ + smoothing) / (c⁻ + smoothing)), with the counts of the
token in labelled texts of the target and in as many others (`slalom.label_counts`). `data` is a list
of (text, label) pairs, or the path of a file with the columns `text` and `label`, or the name of a data set
(docs/data.md), or what was counted in one of them already.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from slalom.checks import Range
from slalom.errors import InputError
from slalom.explainers._common import Budget, finish
from slalom.explanation import Explanation
from slalom.label_counts import SMOOTHING, LabelCounts, counted
from slalom.models.ask import Ask
from slalom.models.protocol import Model
from slalom.models.target import Target

NEEDS = "labelled data"

_NO_DATA = (
    "'naive_bayes' needs labelled data: data=[(text, label), …] or the path of a file with the columns "
    "text and label (on the command line: explain -o data=FILE, compare --data FILE)"
)


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    data: Iterable[tuple[str, str | int]] | LabelCounts | str | Path | None = None,
    smoothing: Annotated[float, Range(1e-9, 1e9)] = SMOOTHING,
    granularity: Literal["types"] = "types",
) -> Explanation:
    """One weight for every token type, from class-wise counts with multiplicity (maths 6)."""
    if data is None:
        raise InputError(_NO_DATA)
    counts = _own(ask.model, data) if isinstance(data, LabelCounts) else counted(ask.model, data)
    weights = counts.weights(ask.tokens, target.index, smoothing)
    source = str(data) if isinstance(data, str | Path) else "given"
    return finish(
        ask,
        target,
        "naive_bayes",
        {"attribution": weights[ask.tokens.inverse]},
        settings={"data": f"{source}: {sum(counts.texts)} texts", "smoothing": smoothing},
    )


def _own(model: Model, counts: LabelCounts) -> LabelCounts:
    if not counts.fits(model):
        raise InputError(
            f"data was counted for another model, with the labels {', '.join(counts.labels)}; the labels of "
            f"this one are {', '.join(model.labels)}: count with label_counts(explainer.model, documents)"
        )
    return counts
