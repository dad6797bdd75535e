"""What can be said over documents: means, paired differences, and who is best or tied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slalom.errors import InputError
from slalom.evaluate import Good
from slalom.tokens import FloatArray

SAMPLES = 10_000
LEVEL = 0.05
_BLOCK = 1_000_000
"""Numbers held at once while resampling."""


@dataclass(frozen=True)
class Summary:
    """A mean over documents and its standard error (NaN for a single document)."""

    mean: float
    stderr: float
    n: int


@dataclass(frozen=True)
class Difference:
    """The mean of a − b over documents, its bootstrap interval and two-sided p-value."""

    difference: float
    low: float
    high: float
    p: float
    n: int


@dataclass(frozen=True)
class Standing:
    """Who leads, and whom the leader is not shown to beat."""

    leader: str
    tied: tuple[str, ...]
    """The leader and every method whose difference to it may be chance."""
    differences: Mapping[str, Difference]
    """By other method: leader − method over the documents that both have, p adjusted by Holm."""
    comparisons: int
    """How many comparisons the adjustment covers: the leader with each other method."""
    documents: int
    """Documents that all methods have; the leader has the best mean over them."""


def summary(values: Sequence[float] | FloatArray) -> Summary:
    """Mean and standard error (sample standard deviation / √n)."""
    given = _numbers(values)
    n = len(given)
    return Summary(float(given.mean()), float(given.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"), n)


def paired_bootstrap(
    a: Sequence[float] | FloatArray,
    b: Sequence[float] | FloatArray,
    *,
    samples: int = SAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Difference:
    """a − b over the same documents, which are resampled together.

    The interval holds the middle 1 − level of the resampled means; p is the smallest level at which it
    excludes 0, never below 2 / (samples + 1).
    """
    gaps = _numbers(a) - _numbers(b) if len(a) == len(b) else None
    if gaps is None:
        raise InputError(f"a paired comparison needs the same documents; got {len(a)} and {len(b)} numbers")
    means = _resampled(gaps, samples, seed)
    low, high = np.quantile(means, [level / 2, 1 - level / 2])
    tail = min(np.sum(means <= 0.0), np.sum(means >= 0.0))
    p = min(1.0, 2.0 * (1.0 + tail) / (samples + 1.0))
    return Difference(float(gaps.mean()), float(low), float(high), float(p), len(gaps))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values adjusted for their number (Holm): each may be held against the level as it is."""
    order = sorted(p, key=lambda name: p[name])
    stepped = np.maximum.accumulate([min(1.0, p[name] * (len(p) - i)) for i, name in enumerate(order)])
    adjusted = dict(zip(order, stepped.tolist(), strict=True))
    return {name: adjusted[name] for name in p}


def best_or_tied(
    scores: Mapping[str, Mapping[str, float]],
    good: Good = "high",
    *,
    level: float = LEVEL,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Standing:
    """Which methods are at the top; `scores` has a number by document for every method.

    The leader has the best mean over the documents that all share. It is compared with each other method over
    the documents of both; a method is tied if its p, adjusted by Holm for the number of these comparisons, is
    above `level`, and no method with a better mean is shown to be worse: scatter alone earns no tie.
    The leader is chosen from the same data, so a bare win over a tied method means nothing.
    """
    if not scores:
        raise InputError("there are no methods to compare")
    shared = sorted(set.intersection(*(set(found) for found in scores.values())))
    if not shared:
        raise InputError(
            "the methods have no document in common; compare those that ran on the same documents"
        )
    sign = 1.0 if good == "high" else -1.0
    means = {name: sign * float(np.mean([own[d] for d in shared])) for name, own in scores.items()}
    leader = max(means, key=lambda name: means[name])
    found: dict[str, Difference] = {}
    for name in scores:
        if name != leader:
            both = sorted(set(scores[leader]) & set(scores[name]))
            found[name] = paired_bootstrap(
                [scores[leader][d] for d in both],
                [scores[name][d] for d in both],
                samples=samples,
                level=level,
                seed=seed,
            )
    adjusted = holm({name: one.p for name, one in found.items()})
    found = {name: replace(one, p=adjusted[name]) for name, one in found.items()}
    worse = max((means[name] for name, one in found.items() if one.p <= level), default=-np.inf)
    tied = tuple(name for name in scores if name == leader or (found[name].p > level and means[name] > worse))
    return Standing(leader, tied, found, len(found), len(shared))


def _resampled(numbers: FloatArray, samples: int, seed: int) -> FloatArray:
    """(samples,) means of draws with replacement, a bounded number at a time."""
    rng, n = np.random.default_rng(seed), len(numbers)
    block = max(1, _BLOCK // n)
    sizes = [min(block, samples - start) for start in range(0, samples, block)]
    return np.concatenate([numbers[rng.integers(n, size=(size, n))].mean(axis=1) for size in sizes])


def _numbers(values: Sequence[float] | FloatArray) -> FloatArray:
    given = np.asarray(values, dtype=float)
    if given.ndim != 1 or len(given) == 0 or not np.isfinite(given).all():
        raise InputError(f"statistics need at least one number and finite ones; got {given.tolist()[:5]}")
    return given
