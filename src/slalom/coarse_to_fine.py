"""Which units matter enough to be looked at word by word, and one explanation of both levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import ceil

import numpy as np

from slalom.explanation import Cost, Explanation
from slalom.levels import Level
from slalom.tokens import BoolArray, FloatArray, IntArray

_MATTER = 0.6
"""Units are looked at until they hold this share of all scores, by size …"""
_MOST = 1 / 3
"""… and never more than this share of the units, but for the first few."""
_LEAST = 3


def that_matter(windows: Sequence[Explanation], weights: FloatArray) -> list[BoolArray]:
    """For each window, which of its units matter; the strongest of the whole text come first."""
    sizes = [weight * np.abs(one.score()) for one, weight in zip(windows, weights, strict=True)]
    every = np.concatenate(sizes)
    order = np.argsort(-every, kind="stable")
    reached = np.cumsum(every[order])
    enough = int(np.searchsorted(reached, _MATTER * reached[-1])) + 1
    count = min(enough, max(_LEAST, ceil(_MOST * len(every))))
    chosen = np.zeros(len(every), dtype=bool)
    chosen[order[:count]] = True
    return np.split(chosen, np.cumsum([len(one) for one in windows])[:-1])


def mixed(numbers: IntArray, chosen: BoolArray) -> IntArray:
    """(n,) for tokens in units `numbers`: those of the chosen units for themselves, the others together."""
    own = chosen[numbers]
    change = np.r_[True, (np.diff(numbers) != 0) | own[1:] | own[:-1]]
    return np.cumsum(change) - 1


def both_levels(
    name: str, coarse: Explanation, fine: Explanation | None, numbers: IntArray, finer: IntArray
) -> Explanation:
    """The finer explanation, which has the scores of the coarse one as a level.

    numbers, finer: the units of the tokens, before and after some of them were looked at.
    """
    if fine is None:
        levels = {name: Level(np.arange(len(coarse)), coarse.scores, coarse.stderr)}
        classes = {
            label: both_levels(name, one, None, numbers, finer) for label, one in coarse.classes.items()
        }
        return replace(coarse, levels=levels, classes=classes)
    _, first = np.unique(finer, return_index=True)
    levels = {**fine.levels, name: Level(numbers[first], coarse.scores, coarse.stderr)}
    classes = {
        label: both_levels(name, coarse.classes[label], one, numbers, finer)
        for label, one in fine.classes.items()
    }
    return replace(fine, levels=levels, classes=classes, cost=added([coarse.cost, fine.cost]))


def added(costs: Sequence[Cost]) -> Cost:
    """What several explanations cost together; the seconds of the whole are known to the caller."""
    each = [asdict(cost) for cost in costs]
    return Cost(**{name: sum(cost[name] for cost in each) for name in each[0]})
