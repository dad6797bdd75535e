"""What can be said over documents: means, paired differences, and who is best or tied.

Methods are compared in all pairs at once by sign flips: if two methods are equal, their difference on a
document could as well have had the other sign. Flipping whole documents, for all methods together, gives the
distribution of the largest studentised difference among all pairs, and with it p-values that hold for all
comparisons together, whichever method happens to lead (Westfall and Young's step-down max-T; exact for
differences that are symmetric around 0, for any number of documents).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from slalom.errors import InputError
from slalom.evaluate.protocol import Good
from slalom.tokens import FloatArray, IntArray

FLIPS = 4_000
"""Sign flips that are drawn where all of them would be more."""
LEVEL = 0.05
_ENUMERATED = 13
"""Documents up to which all sign flips are taken: 2¹² of them."""
_BLOCK = 512
"""Flips that are worked on at once."""
_EQUAL = 1e-9
"""Statistics that differ by this share of themselves are the same number, computed twice."""


@dataclass(frozen=True)
class Summary:
    """A mean over documents and its standard error (NaN for a single document)."""

    mean: float
    stderr: float
    n: int


@dataclass(frozen=True)
class Difference:
    """The mean of a − b over the documents that both have."""

    difference: float
    low: float
    high: float
    """The 95 % interval of Student's t for this pair alone."""
    p: float
    """Two-sided, adjusted for all pairs that were compared with it."""
    n: int


@dataclass(frozen=True)
class Standing:
    """Who leads, and whom the leader is not shown to beat."""

    leader: str
    tied: tuple[str, ...]
    """The leader and every method that may be as good: none that is shown to be worse, nor one behind it."""
    worse: tuple[str, ...]
    """The methods that the leader is shown to beat."""
    differences: Mapping[str, Difference]
    """By other method: leader − method."""
    comparisons: int
    """How many pairs the p-values are adjusted for: all."""
    documents: int
    """Documents that all methods have; the leader has the best mean over them."""
    enough: bool
    """Whether any outcome on so many documents could have shown a difference."""


def summary(values: Sequence[float] | FloatArray) -> Summary:
    """Mean and standard error (sample standard deviation / √n)."""
    given = _numbers(values)
    n = len(given)
    return Summary(float(given.mean()), float(given.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"), n)


def least_documents(level: float = LEVEL) -> int:
    """The fewest documents that can show a difference: with n there are 2ⁿ⁻¹ sign flips."""
    return 1 + int(np.ceil(-np.log2(level)))


def paired(
    a: Sequence[float] | FloatArray,
    b: Sequence[float] | FloatArray,
    *,
    level: float = LEVEL,
    flips: int = FLIPS,
    seed: int = 0,
) -> Difference:
    """a − b over the same documents, by the studentised sign-flip test."""
    if len(a) != len(b):
        raise InputError(f"a paired comparison needs the same documents; got {len(a)} and {len(b)} numbers")
    gaps = (_numbers(a) - _numbers(b))[:, None]
    return _difference(gaps[:, 0], float(step_down(gaps, flips=flips, seed=seed)[0]), level)


def step_down(gaps: FloatArray, *, flips: int = FLIPS, seed: int = 0) -> FloatArray:
    """(pairs,) p-values of mean = 0 for every column of (documents, pairs), adjusted for all of them.

    NaN: a pair lacks the document. The columns flip together, so that what they share stays shared.
    """
    present = ~np.isnan(gaps)
    counts, filled = present.sum(axis=0), np.where(present, gaps, 0.0)
    squares = (filled**2).sum(axis=0)
    observed = _statistics(filled.sum(axis=0)[None], squares, counts)[0]
    order = np.argsort(-observed, kind="stable")
    reached, total = np.zeros(len(order)), 0
    for signs in _flips(len(gaps), flips, seed):
        flipped = _statistics(signs @ filled, squares, counts)[:, order]
        # the largest among this pair and all with smaller statistics: those before it are decided
        largest = np.maximum.accumulate(flipped[:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= observed[order] * (1 - _EQUAL)).sum(axis=0)
        total += len(signs)
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate(reached / total)
    return p


def best_or_tied(
    scores: Mapping[str, Mapping[str, float]],
    good: Good = "high",
    *,
    level: float = LEVEL,
    flips: int = FLIPS,
    seed: int = 0,
) -> Standing:
    """Which methods are at the top; `scores` has a number by document for every method.

    The leader has the best mean over the documents that all share. The chance that it is said to beat any
    method that is as good is `level` for all comparisons together.
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
    pairs, gaps = _all_pairs(scores, leader)
    p = dict(zip(pairs, step_down(gaps, flips=flips, seed=seed).tolist() if pairs else (), strict=True))
    found = {
        other: _difference(gaps[~np.isnan(gaps[:, place]), place], p[one, other], level)
        for place, (one, other) in enumerate(pairs)
        if one == leader
    }
    worse = tuple(name for name in scores if name != leader and found[name].p <= level)
    behind = max((means[name] for name in worse), default=-np.inf)
    tied = tuple(n for n in scores if n == leader or (n not in worse and means[n] > behind))
    enough = len(shared) >= least_documents(level)
    return Standing(leader, tied, worse, found, len(pairs), len(shared), enough)


def _all_pairs(
    scores: Mapping[str, Mapping[str, float]], leader: str
) -> tuple[list[tuple[str, str]], FloatArray]:
    """Every pair of methods, the leader first in its own, and (documents, pairs) their differences."""
    documents = sorted(set().union(*scores.values()))
    table = {name: np.array([own.get(d, np.nan) for d in documents]) for name, own in scores.items()}
    pairs = list(combinations([leader, *(name for name in scores if name != leader)], 2))
    pairs = [(a, b) for a, b in pairs if not np.isnan(table[a] - table[b]).all()]
    gaps = [table[a] - table[b] for a, b in pairs]
    return pairs, np.column_stack(gaps) if gaps else np.zeros((len(documents), 0))


def _statistics(sums: FloatArray, squares: FloatArray, counts: IntArray) -> FloatArray:
    """t² of differences with these sums and sums of squares: 0 where nothing differs."""
    known = np.where(squares > 0, squares, 1.0)
    ratio = np.minimum(sums**2 / (counts * known), 1.0)
    return np.maximum(counts - 1, 1) * ratio / (1.0 - ratio + 1e-12)


def _flips(documents: int, flips: int, seed: int) -> Iterator[FloatArray]:
    """Blocks of (…, documents) signs; the first flip changes nothing. Turning all over changes no t²."""
    if documents <= _ENUMERATED:
        yield np.array([(1.0, *free) for free in product((1.0, -1.0), repeat=documents - 1)])
        return
    rng = np.random.default_rng(seed)
    yield np.ones((1, documents))
    for start in range(1, flips, _BLOCK):
        yield rng.choice([1.0, -1.0], size=(min(_BLOCK, flips - start), documents))


def _difference(gaps: FloatArray, p: float, level: float) -> Difference:
    from scipy.stats import t as student

    found = summary(gaps)
    half = float(student.ppf(1 - level / 2, found.n - 1)) * found.stderr if found.n > 1 else np.inf
    return Difference(found.mean, found.mean - half, found.mean + half, p, found.n)


def _numbers(values: Sequence[float] | FloatArray) -> FloatArray:
    given = np.asarray(values, dtype=float)
    if given.ndim != 1 or len(given) == 0 or not np.isfinite(given).all():
        raise InputError(f"statistics need at least one number and finite ones; got {given.tolist()[:5]}")
    return given
