"""Anchors on a masked document: the words that, left standing, keep the prediction whatever else is masked.

`find_anchor` is the search of Ribeiro, Singh and Guestrin (2018): a beam of sets of words that grow by one
word, compared by KL-LUCB, over any classifier of masks. Words outside the anchor are masked independently
with probability 1/2, so an anchor of k words covers exactly 2^−k of the masks and the shortest one covers
most.

On one head nothing need be sampled. Its denominator is positive, so the sign of f is the sign of a sum over
words,

    f(z) > 0  ⇔  c + Σ_i z_i m_i > 0,   m_i = (gv)_i − (g_h v_h)_i

and exchanging a word of an anchor for one of larger margin m (towards the predicted class) can only raise the
precision: the best anchor of k words is the k largest margins. Not the k largest attention weights.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from slalom.checks import at_least_one
from slalom.errors import InputError
from slalom.theory.layer import Masked
from slalom.tokens import FloatArray, IntArray

Classify = Callable[[FloatArray], np.ndarray]
"""(N, d) masks (1 where a word stands) → (N,) booleans: is the prediction that of the whole document?"""

_LARGEST = 44
"""Free words up to which a precision is computed exactly: two halves of 2^22 sums."""


@dataclass(frozen=True)
class Anchor:
    """Words (by number) that hold a prediction."""

    words: tuple[int, ...]
    precision: float
    """The share of the masks with these words that keep the prediction; `find_anchor` estimates it."""
    found: bool
    """Whether the precision reaches the threshold; otherwise this is the most precise set that was seen."""
    queries: int = 0

    @property
    def coverage(self) -> float:
        """The share of all masks that leave these words."""
        return 0.5 ** len(self.words)


@dataclass
class _Candidate:
    words: tuple[int, ...]
    asked: int = 0
    held: int = 0

    @property
    def precision(self) -> float:
        return self.held / self.asked


def keeps_prediction(document: Masked) -> Classify:
    """The classifier of masks that `find_anchor` needs, for a document seen by the one-layer model.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> keeps_prediction(masked(planted_layer(), [0, 2, 3]))(np.eye(2)).tolist()
        [True, False]
    """
    whole = bool(document.outputs(np.ones((1, document.size)))[0] > 0)
    return lambda keep: (document.outputs(keep) > 0) == whole


def find_anchor(
    classify: Classify,
    size: int,
    *,
    threshold: float = 0.95,
    confidence: float = 0.9,
    tolerance: float = 0.1,
    margin: float = 0.05,
    beam: int = 4,
    batch: int = 100,
    longest: int | None = None,
    seed: int = 0,
) -> Anchor:
    """The shortest set of words found whose precision is at least `threshold`, with this `confidence`.

    tolerance: by how much the beam may miss the best candidates of each length.
    margin: an anchor is accepted when its lower bound exceeds threshold − margin, and dropped likewise.

    Example:
        >>> find_anchor(lambda keep: keep[:, 1] == 1, size=3).words
        (1,)
    """
    if not 0 < threshold <= 1 or not 0 < confidence < 1 or not 0 < tolerance < 1 or not 0 < margin < 1:
        raise InputError("threshold, confidence, tolerance and margin of an anchor must lie between 0 and 1")
    at_least_one(size=size, beam=beam, batch=batch)
    delta, rng = 1 - confidence, np.random.default_rng(seed)
    queries = 0

    def ask(candidate: _Candidate) -> None:
        nonlocal queries
        keep = rng.integers(0, 2, size=(batch, size)).astype(float)
        keep[:, list(candidate.words)] = 1.0
        candidate.held += int(np.count_nonzero(classify(keep)))
        candidate.asked += batch
        queries += batch

    bests = [_Candidate(())]
    tried: list[_Candidate] = []
    for _ in range((size if longest is None else min(longest, size)) + 1):
        # One test for each member of the beam and each length shares the allowed error.
        level = np.log((1 + (beam - 1) * size) / delta)
        accepted = [c for c in bests if _accept(c, ask, level, threshold, margin)]
        if accepted:
            best = max(accepted, key=lambda c: c.precision)
            return Anchor(best.words, best.precision, True, queries)
        tried += bests
        bests = _top(_longer(bests, size), ask, beam, tolerance, delta)
    best = max(tried, key=lambda c: c.precision)
    return Anchor(best.words, best.precision, False, queries)


def _accept(
    candidate: _Candidate, ask: Callable[[_Candidate], None], level: float, threshold: float, margin: float
) -> bool:
    """Ask until the candidate's precision is on one side of the threshold, up to the margin."""
    while True:
        if candidate.asked:
            low, high = (_bound([candidate], level, end)[0] for end in (0.0, 1.0))
            if candidate.precision >= threshold and low > threshold - margin:
                return True
            if candidate.precision < threshold and high < threshold + margin:
                return False
        ask(candidate)


def _longer(bests: Iterable[_Candidate], size: int) -> list[_Candidate]:
    words = {tuple(sorted({*c.words, i})) for c in bests for i in range(size) if i not in c.words}
    return [_Candidate(w) for w in sorted(words)]


def _top(
    candidates: list[_Candidate],
    ask: Callable[[_Candidate], None],
    count: int,
    tolerance: float,
    delta: float,
) -> list[_Candidate]:
    """KL-LUCB: the `count` most precise candidates, up to the tolerance, with probability 1 − delta."""
    for candidate in candidates:
        ask(candidate)
    step = 1
    while len(candidates) > count:
        # The exploration rate of Kaufmann and Kalyanakrishnan (2013).
        rate = np.log(405.5 * len(candidates) * step**1.1 / delta)
        level = rate + np.log(rate)
        ranked = sorted(candidates, key=lambda c: c.precision, reverse=True)
        low, high = _bound(ranked[:count], level, 0.0), _bound(ranked[count:], level, 1.0)
        if high.max() - low.min() <= tolerance:
            return ranked[:count]
        ask(ranked[int(low.argmin())])
        ask(ranked[count + int(high.argmax())])
        step += 1
    return candidates


def _bound(candidates: list[_Candidate], level: float, end: float) -> FloatArray:
    """The q between each estimate and `end` (0 or 1) with n·KL(estimate, q) = level, by bisection."""
    asked = np.array([c.asked for c in candidates], dtype=float)
    p = np.array([c.held for c in candidates]) / asked
    inside, outside = p, np.full(len(p), end)
    for _ in range(24):
        middle = (inside + outside) / 2
        near = rel_entr(p, middle) + rel_entr(1 - p, 1 - middle) <= level / asked
        inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
    return inside


@dataclass(frozen=True, eq=False)
class Margins:
    """One head as a vote: the prediction of the whole document stands where base + Σ z_i margins_i > 0."""

    base: float
    margins: FloatArray
    """(d,) signed so that positive margins hold the prediction."""


def margins(document: Masked) -> Margins:
    """The vote of a document seen by a single head.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> margins(masked(planted_layer(), [0, 2, 3])).margins.round(4).tolist()
        [1.5, -1.0]
    """
    if len(document.fixed_mass) != 1:
        raise InputError(
            f"only one head is a vote of its words; this document has {len(document.fixed_mass)} heads"
        )
    kept = document.kept_sum[0] + document.offset * document.kept_mass[0]
    gone = document.gone_sum[0] + document.offset * document.gone_mass[0]
    base = float(document.fixed_sum[0] + document.offset * document.fixed_mass[0] + gone.sum())
    sign = 1.0 if base + (kept - gone).sum() > 0 else -1.0
    return Margins(sign * base, sign * (kept - gone))


def precision(vote: Margins, words: Iterable[int]) -> float:
    """The exact precision of an anchor: the share of masks of the other words that keep the prediction.

    Example:
        >>> vote = Margins(0.0, np.array([3.0, -2.0]))
        >>> precision(vote, words=[0]), precision(vote, words=[])
        (1.0, 0.5)
    """
    held = np.zeros(len(vote.margins), dtype=bool)
    held[list(words)] = True
    free = vote.margins[~held]
    if len(free) > _LARGEST:
        raise InputError(f"{len(free)} free words are too many to go through; at most {_LARGEST}")
    half = len(free) // 2
    left, right = np.sort(_sums(free[:half])), _sums(free[half:])
    need = -(vote.base + vote.margins[held].sum()) - right
    below = np.asarray(np.searchsorted(left, need, side="right"), dtype=np.int64)
    return float((len(left) - below).sum() / (len(left) * len(right)))


def _sums(weights: FloatArray) -> FloatArray:
    """The sums of all subsets."""
    result = np.zeros(1)
    for weight in weights:
        result = np.concatenate([result, result + weight])
    return result


def best_anchor(vote: Margins, threshold: float = 0.95) -> Anchor:
    """The shortest anchor there is, and among the shortest the most precise one: the largest margins.

    Example:
        >>> best_anchor(Margins(0.0, np.array([3.0, -2.0]))).words
        (0,)
    """
    order: IntArray = np.argsort(-vote.margins, kind="stable")
    for k in range(len(order) + 1):
        words = tuple(sorted(order[:k].tolist()))
        exact = precision(vote, words)
        if exact >= threshold:
            return Anchor(words, exact, True)
    raise InputError("even the whole document does not hold its prediction: f is 0 on it")
