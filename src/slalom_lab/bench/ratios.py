"""Ratios of times, their spread, and whether a goal is reached. Pure functions of given numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import median
from typing import Literal

import numpy as np

from slalom.files import Record

Sense = Literal["at least", "at most"]
Times = Mapping[tuple[int, int], float]
"""Seconds by document and round."""


@dataclass(frozen=True)
class RatioSpread:
    """The median, smallest and largest of n numbers."""

    median: float
    low: float
    high: float
    n: int


def spread(values: Sequence[float]) -> RatioSpread:
    """NaN throughout where there are no values."""
    if not values:
        return RatioSpread(nan, nan, nan, 0)
    return RatioSpread(float(median(values)), float(min(values)), float(max(values)), len(values))


def paired(above: Times, below: Times) -> list[float]:
    """The ratios of two times, for every document and round that both have."""
    return [above[key] / below[key] for key in above if key in below]


def best_of(times: Mapping[str, Times], names: Sequence[str]) -> str | None:
    """The name with the smallest median time among those that were measured."""
    measured = {name: median(times[name].values()) for name in names if times.get(name)}
    return min(measured, key=lambda name: measured[name]) if measured else None


def goal(claim: str, values: Sequence[float], sense: Sense, bound: float, reason: str = "") -> Record:
    """A claim beside what was measured; the median decides, and without a measurement nothing is decided."""
    found = spread(values)
    reached: bool | None = None
    if found.n and not isnan(found.median):
        reached = found.median >= bound if sense == "at least" else found.median <= bound
    told = {"claim": claim, "sense": sense, "bound": bound, "reached": reached}
    return {**told, "reason": reason, "ratio": vars(found)}


def enough(budgets: Sequence[int], quality: Mapping[int, float], wanted: float) -> int | None:
    """The smallest budget from which on the quality does not fall below `wanted`; None if there is none."""
    found = None
    for budget in sorted(budgets, reverse=True):
        if not quality[budget] >= wanted:
            break
        found = budget
    return found


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error; the error of a single value is NaN."""
    given = np.asarray(values, dtype=float)
    error = given.std(ddof=1) / np.sqrt(len(given)) if len(given) > 1 else np.nan
    return float(given.mean()), float(error)
