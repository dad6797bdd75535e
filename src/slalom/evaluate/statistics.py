"""What can be said over documents: means, paired differences, and who is best or tied. Rank correlations.

Methods are compared in all pairs at once. Tests take whole documents for all methods together, studentise
every difference, and look at the largest among all pairs, so that p-values hold for all comparisons together,
whichever method happens to lead (Westfall and Young's step-down max-T). The statistic is Hall's t, which
takes the skewness of a difference into account: Student's makes one of eight equal methods differ in 9 to
22 % where noise is skewed and its spread unequal.

- Sign flips: if two methods are equal, their difference on a document could as well have had the other sign.
  Exact for differences that are symmetric around 0, for any number of documents.
- The bootstrap: documents drawn with replacement, differences measured from their mean. It knows nothing of
  symmetry. A difference is shown where sign flips show it at the level and the bootstrap at one and a half
  times the level: at the level itself it is too cautious of few documents (docs/results/statistics.md).
"""

# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np

from slalom.errors import InputError
from slalom.evaluate.protocol import Good, NotApplicable
from slalom.tokens import BoolArray, FloatArray, IntArray

DRAWS = 4_000
"""Bootstrap samples; and sign flips, where all of them would be more."""
LEVEL = 0.05
_BOOTSTRAP = 1.5
"""The level of the bootstrap, in levels."""
_ENUMERATED = 13
"""Documents up to which all sign flips are taken, 2¹² of them."""
_BLOCK = 512
"""Draws that are worked on at once."""
_NO_SPREAD = 1e-12
"""A variance below this share of the mean square is rounding."""
_LEAST_SPREAD = 0.1
"""Of the variance that was seen: what a bootstrap sample has at least. Of two methods that differ on a few
documents only, samples without these would have none, and hide the differences of all other pairs."""
_LEAST = 3
"""Tokens that can be put in order."""
_EQUAL = 1e-9
"""Statistics that differ by this share of themselves are the same number, computed twice."""


@dataclass(frozen=True)
class Average:
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
    detectable: float
    """The mean difference, in its standard deviations, from which these documents show it; ∞: none."""


def summary(values: Sequence[float] | FloatArray) -> Average:
    """Mean and standard error (sample standard deviation / √n)."""
    given = _numbers(values)
    n = len(given)
    return Average(float(given.mean()), float(given.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"), n)


def least_documents(level: float = LEVEL) -> int:
    """The fewest documents that can show a difference: with n there are 2ⁿ⁻¹ sign flips."""
    return 1 + int(np.ceil(-np.log2(level)))


def paired(
    a: Sequence[float] | FloatArray,
    b: Sequence[float] | FloatArray,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> Difference:
    """a − b over the same documents."""
    if len(a) != len(b):
        raise InputError(f"a paired comparison needs the same documents; got {len(a)} and {len(b)} numbers")
    gaps = (_numbers(a) - _numbers(b))[:, None]
    return _difference(gaps[:, 0], float(compared(gaps, draws=draws, seed=seed)[0]), level)


def compared(gaps: FloatArray, *, draws: int = DRAWS, seed: int = 0) -> FloatArray:
    """(pairs,) p-values of mean = 0 for every column of (documents, pairs), adjusted for all of them.

    NaN: a pair lacks the document. Each is the larger one of the two tests, the bootstrap's divided by 1.5.
    """
    by_flips, by_bootstrap = (test(gaps, draws=draws, seed=seed) for test in (sign_flips, bootstrap))
    return np.maximum(by_flips, by_bootstrap / _BOOTSTRAP)


def sign_flips(gaps: FloatArray, *, draws: int = DRAWS, seed: int = 0) -> FloatArray:
    """(pairs,) adjusted p-values by flips of the signs of documents, which the pairs share."""
    blocks = _flipped(np.nan_to_num(gaps), ~np.isnan(gaps), draws, seed)
    return _stepped_down(next(blocks)[0], blocks)


def bootstrap(gaps: FloatArray, *, draws: int = DRAWS, seed: int = 0) -> FloatArray:
    """(pairs,) adjusted p-values by documents drawn with replacement, which the pairs share."""
    observed, resampled = _resampled(gaps, draws, seed)
    return _stepped_down(observed, resampled)


def detectable(gaps: FloatArray, *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> float:
    """The mean of a difference, in its standard deviations, from which it is shown.

    By the bootstrap; of few documents by Student's t with Bonferroni's share of the level.
    """
    from scipy.stats import t as student

    documents = int((~np.isnan(gaps)).sum(axis=0).min())
    if len(gaps) <= _ENUMERATED:
        shown = student.ppf(1 - level / (2 * gaps.shape[1]), max(documents - 1, 1))
        return float(shown / np.sqrt(documents))
    largest = np.concatenate([block.max(axis=1) for block in _resampled(gaps, draws, seed)[1]])
    return float(np.sqrt(np.quantile(largest, 1 - level, method="higher") / documents))


def _stepped_down(observed: FloatArray, drawn: Iterable[FloatArray]) -> FloatArray:
    """p-values of statistics (pairs,) from blocks (draws, pairs) of what they are if nothing differs."""
    order = np.argsort(-observed, kind="stable")
    reached, total = np.zeros(len(order)), 0
    for block in drawn:
        # the largest among this pair and all with smaller statistics: those before it are decided
        largest = np.maximum.accumulate(block[:, order][:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= observed[order] * (1 - _EQUAL)).sum(axis=0)
        total += len(block)
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate(reached / total)
    return p


def _flipped(filled: FloatArray, present: BoolArray, draws: int, seed: int) -> Iterator[FloatArray]:
    """The statistics of the differences, then blocks (draws, pairs) of them with signs flipped."""
    counts, squares, cubes = present.sum(axis=0), (filled**2).sum(axis=0), filled**3
    yield _hall(counts, filled.sum(axis=0)[None], squares, cubes.sum(axis=0)[None])
    for signs in _flips(len(filled), draws, seed):
        yield _hall(counts, signs @ filled, squares, signs @ cubes)


def _resampled(gaps: FloatArray, draws: int, seed: int) -> tuple[FloatArray, Iterator[FloatArray]]:
    """The statistics of the differences, and blocks (draws, pairs) of them around the means."""
    present, centred = (~np.isnan(gaps)).astype(float), _centred(gaps)
    filled = np.nan_to_num(gaps)
    observed = _hall(present.sum(axis=0), *((filled**power).sum(axis=0) for power in (1, 2, 3)))
    least = _LEAST_SPREAD * (centred**2).sum(axis=0) / present.sum(axis=0)
    rng, n = np.random.default_rng([seed, 0xB007]), len(gaps)

    def blocks() -> Iterator[FloatArray]:
        yield observed[None]
        for start in range(1, draws, _BLOCK):
            copies = rng.multinomial(n, np.full(n, 1 / n), size=min(_BLOCK, draws - start)).astype(float)
            size = copies @ present
            first, second, third = (copies @ centred**power for power in (1, 2, 3))
            drawn = _hall(np.maximum(size, 1), first, second, third, least)
            yield np.where(size > 1, drawn, np.inf)

    return observed, blocks()


def _centred(gaps: FloatArray) -> FloatArray:
    """Differences from their means, 0 where a pair lacks the document or rounding alone is left."""
    present = ~np.isnan(gaps)
    means = np.where(present, gaps, 0.0).sum(axis=0) / present.sum(axis=0)
    centred = np.where(present, gaps - means, 0.0)
    return np.where(np.abs(centred) > 1e-12 * np.abs(means), centred, 0.0)


def _hall(
    counts: FloatArray | IntArray,
    sums: FloatArray,
    squares: FloatArray,
    cubes: FloatArray,
    least: FloatArray | float = 0.0,
) -> FloatArray:
    """Hall's t², from the sums of the differences' powers: t, with what its skewness does to it taken out.

    Monotone in the mean (Hall 1992). 0 where nothing differs; without spread, skewness is left out. A
    variance is `least` at least.
    """
    mean, square = sums / counts, squares / counts
    scale = np.where(square > 0, square, 1.0)
    spread = np.maximum(np.maximum(square - mean**2, _NO_SPREAD * scale), least)
    third = cubes / counts - 3 * mean * square + 2 * mean**3
    skewness = np.where(spread > 1e3 * _NO_SPREAD * scale, third / spread**1.5, 0.0)
    ratio = mean / np.sqrt(spread)
    told = ratio + skewness * ratio**2 / 3 + skewness**2 * ratio**3 / 27 + skewness / (6 * counts)
    return counts * told**2


def best_or_tied(
    scores: Mapping[str, Mapping[str, float]],
    good: Good = "high",
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> Standing:
    """Which methods are at the top; `scores` has a number by document for every method.

    The leader has the best mean over the documents that all share. The chance that it is said to beat any
    method that is as good is `level` for all comparisons together.
    """
    if not scores:
        raise InputError("there are no methods to compare")
    shared = sorted(set[str].intersection(*(set(found) for found in scores.values())))
    if not shared:
        raise InputError(
            "the methods have no document in common; compare those that ran on the same documents"
        )
    sign = 1.0 if good == "high" else -1.0
    means = {name: sign * float(np.mean([own[d] for d in shared])) for name, own in scores.items()}
    leader = max(means, key=lambda name: means[name])
    pairs, gaps = _all_pairs(scores, leader)
    p = dict(zip(pairs, compared(gaps, draws=draws, seed=seed).tolist() if pairs else (), strict=True))
    found = {
        other: _difference(gaps[~np.isnan(gaps[:, place]), place], p[one, other], level)
        for place, (one, other) in enumerate(pairs)
        if one == leader
    }
    worse = tuple(name for name in scores if name != leader and found[name].p <= level)
    behind = max((means[name] for name in worse), default=-np.inf)
    tied = tuple(n for n in scores if n == leader or (n not in worse and means[n] > behind))
    shows = detectable(gaps, level=level, draws=draws, seed=seed) if pairs else 0.0
    shows = shows if len(shared) >= least_documents(level) else np.inf
    return Standing(leader, tied, worse, found, len(pairs), len(shared), shows)


def _all_pairs(
    scores: Mapping[str, Mapping[str, float]], leader: str
) -> tuple[list[tuple[str, str]], FloatArray]:
    """Every pair of methods, the leader first in its own, and (documents, pairs) their differences."""
    documents = sorted(set[str]().union(*scores.values()))
    table = {name: np.array([own.get(d, np.nan) for d in documents]) for name, own in scores.items()}
    pairs = list(combinations([leader, *(name for name in scores if name != leader)], 2))
    pairs = [(a, b) for a, b in pairs if not np.isnan(table[a] - table[b]).all()]
    gaps = [table[a] - table[b] for a, b in pairs]
    return pairs, np.column_stack(gaps) if gaps else np.zeros((len(documents), 0))


def _flips(documents: int, draws: int, seed: int) -> Iterator[FloatArray]:
    """Blocks of (…, documents) signs; the first flip changes nothing. Turning all over changes no t²."""
    if documents <= _ENUMERATED:
        yield np.array([(1.0, *free) for free in product((1.0, -1.0), repeat=documents - 1)])
        return
    rng = np.random.default_rng(seed)
    yield np.ones((1, documents))
    for start in range(1, draws, _BLOCK):
        yield rng.choice([1.0, -1.0], size=(min(_BLOCK, draws - start), documents))


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


def correlation(told: FloatArray, truth: FloatArray, kind: Literal["spearman", "kendall"]) -> float:
    """The rank correlation; 0 where `told` is constant: it puts nothing in order.

    Raises NotApplicable where `truth` is constant or has fewer than three numbers.
    """
    from scipy.stats import kendalltau, spearmanr

    if len(truth) < _LEAST:
        raise NotApplicable(f"fewer than {_LEAST} tokens to put in order")
    if np.ptp(truth) == 0.0:
        raise NotApplicable("what the order is compared with is the same for all tokens")
    if np.ptp(told) == 0.0:
        return 0.0
    return float(np.asarray((spearmanr if kind == "spearman" else kendalltau)(told, truth)[0]))


def likeness(one: FloatArray, other: FloatArray) -> float:
    """Spearman's correlation of two scorings of equal standing: 1 if equal, 0 if only one is constant."""
    if len(one) < _LEAST:
        raise NotApplicable(f"fewer than {_LEAST} tokens to put in order")
    if np.array_equal(one, other):
        return 1.0
    constant = [np.ptp(scores) == 0.0 for scores in (one, other)]
    return float(all(constant)) if any(constant) else correlation(one, other, "spearman")


def strongest_first(scores: FloatArray, seed: int) -> IntArray:
    """The positions by falling score. Ties are broken at random, from the seed: a place earns nothing."""
    return np.lexsort((np.random.default_rng(seed).random(len(scores)), -scores))
