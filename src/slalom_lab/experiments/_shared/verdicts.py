"""One rule for every claim that one column is better than another, over several models.

The differences, paired by document, are averaged over the models with equal weights. Where there is a row of
all models together, its standard error is over documents, which the models share; without one the models
count as independent. The margin, a difference nobody would act on, stands in the file of the
experiment, written down before its run:

    on par   two standard errors around the pooled difference lie within ± margin, whatever its sign
    better   otherwise, where they lie above zero
    worse    otherwise, where they lie below zero
    open     otherwise

A claim of being better holds where it is better, does not hold where it is worse, and is "on par" there; a
claim of being on par holds where the difference is by two standard errors not below −margin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from slalom_lab.experiments._shared.outcome import ON_PAR, Row, Verdict

ALL = "all models"
"""The model of rows about all models together."""

Comparison = Literal["better", "on par", "worse", "open"]


def pooled(rows: Sequence[Row], measure: str) -> Row:
    """The mean of a difference over the models: the row of all of them, or the mean of theirs."""
    known = [row for row in rows if row.measure == measure and row.ours is not None]
    own = [row for row in known if row.where.get("model") != ALL]
    for row in known:
        if row.where.get("model") == ALL:
            return replace(row, where={"models": len(own)})
    errors = [row.error for row in own if row.error is not None]
    mean = math.fsum(row.ours or 0.0 for row in own) / len(own) if own else None
    error = math.sqrt(math.fsum(e**2 for e in errors)) / len(own) if own and len(errors) == len(own) else None
    return Row({"models": len(own)}, measure, mean, error, sum(row.n or 0 for row in own))


def compare(row: Row, margin: float) -> Comparison:
    """What a difference comes to."""
    if row.ours is None or row.error is None:
        return "open"
    low, high = row.ours - 2 * row.error, row.ours + 2 * row.error
    if -margin < low and high < margin:
        return "on par"
    if low > 0:
        return "better"
    return "worse" if high < 0 else "open"


def within(row: Row, margin: float) -> bool | None:
    """Whether a number lies within ± margin, by two standard errors; None where it may lie on either side."""
    if row.ours is None or row.error is None:
        return None
    if abs(row.ours) + 2 * row.error < margin:
        return True
    return False if abs(row.ours) - 2 * row.error > margin else None


def outperforms(rows: Sequence[Row], measures: Sequence[str], margin: float) -> tuple[Verdict, str]:
    """Whether one column is better than others, pooled over the models: the verdict, and what it rests on."""
    found = [(pooled(rows, measure), measure) for measure in measures]
    words: list[Comparison] = [compare(row, margin) for row, _ in found]
    if "worse" in words:
        verdict: Verdict = False
    elif "open" in words:
        verdict = None
    else:
        verdict = ON_PAR if "on par" in words else True
    return verdict, _told(found, words, margin)


def not_behind(rows: Sequence[Row], measures: Sequence[str], margin: float) -> tuple[Verdict, str]:
    """Whether one column is by two standard errors not behind others by more than the margin, pooled."""
    found = [(pooled(rows, measure), measure) for measure in measures]
    verdicts: list[bool | None] = []
    for row, _ in found:
        if row.ours is None or row.error is None:
            verdicts.append(None)
        elif row.ours - 2 * row.error > -margin:
            verdicts.append(True)
        else:
            verdicts.append(False if row.ours + 2 * row.error < -margin else None)
    verdict = False if False in verdicts else None if None in verdicts or not verdicts else True
    return verdict, _told(found, [compare(row, margin) for row, _ in found], margin)


def _told(found: Sequence[tuple[Row, str]], words: Sequence[Comparison], margin: float) -> str:
    parts = [
        f"{measure} {'–' if row.ours is None else f'{row.ours:+.4f}'}"
        f"{'' if row.error is None else f' ± {row.error:.4f}'}, {word}"
        for (row, measure), word in zip(found, words, strict=True)
    ]
    models = max((int(row.where["models"]) for row, _ in found), default=0)
    return f"pooled over {models} model{'s' * (models != 1)} (margin {margin:g}): {'; '.join(parts)}"
