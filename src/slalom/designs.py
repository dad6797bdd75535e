"""Which perturbed copies of a text to ask about (maths 3d, 3e).

No design asks the empty text: some models have no answer to it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from slalom.perturb import Perturbations, from_keep, from_rows
from slalom.tokens import IntArray

Rng = np.random.Generator


def singles(first: IntArray, size: int) -> Perturbations:
    """Every type alone: what it says on its own."""
    return Perturbations(first, np.arange(len(first) + 1), size)


def short(first: IntArray, size: int, count: int, lengths: tuple[int, ...], rng: Rng) -> Perturbations:
    """`count` sequences of types with lengths drawn from `lengths`; every type stands in equally many."""
    drawn = rng.choice(np.array(lengths), size=count)
    return Perturbations(first[balanced(len(first), int(drawn.sum()), rng)], np.r_[0, np.cumsum(drawn)], size)


def picked(n: int, count: int, length: int, rng: Rng) -> Perturbations:
    """`count` sequences of `length` tokens in the order of the text; every token stands in equally many."""
    drawn = np.sort(balanced(n, count * length, rng).reshape(count, length), axis=1)
    return Perturbations(drawn.ravel(), np.arange(count + 1) * length, n)


def balanced(n: int, count: int, rng: Rng) -> IntArray:
    """`count` numbers below n, each equally often (give or take one), in random order."""
    rounds = -(-count // n)
    shuffled = rng.permuted(np.broadcast_to(np.arange(n), (rounds, n)), axis=1)
    return shuffled.ravel()[:count]


def all_scales(n: int, count: int, shortest: int, longest: int, rng: Rng) -> Perturbations:
    """Copies that keep k tokens, log k uniform (maths 3f); every third is a stretch of neighbours.

    Sizes are taken evenly from their distribution, so that few copies cover all scales; what is kept is
    balanced over the text.
    """
    places = (rng.permutation(count) + rng.random(count)) / max(count, 1)
    sizes = np.floor(shortest * ((longest + 1) / shortest) ** places).astype(np.int64)
    sizes = np.clip(sizes, 1, min(longest, n))
    keep = np.zeros((count, n), dtype=bool)
    stretch = np.arange(count) % 3 == 2
    start = rng.integers(0, n - sizes + 1)[:, None]
    places = np.arange(n)
    keep[stretch] = ((places >= start) & (places < start + sizes[:, None]))[stretch]
    pool = rng.permuted(np.broadcast_to(places, (-(-int(sizes[~stretch].sum()) // n) + 1, n)), axis=1).ravel()
    at = 0
    for row in np.flatnonzero(~stretch):
        taken = pool[at : at + sizes[row]]
        at += sizes[row]
        keep[row, taken] = True
        # over the seam of two rounds a token can come twice; another one takes its place
        missing = sizes[row] - int(keep[row].sum())
        keep[row, rng.choice(np.flatnonzero(~keep[row]), missing, replace=False)] = True
    return from_keep(keep)


_GROWTH = 1.5


def prefixes(copies: Perturbations) -> Perturbations:
    """Of every copy its first 2, 3, 4, 7, 10 … tokens, each time half as many again; not the copy itself."""
    sizes, size = list[int](), 2.0
    while size < copies.lengths.max(initial=0):
        sizes.append(round(size))
        size *= _GROWTH
    ends = copies.offsets.tolist()
    rows = [copies.positions[a : a + k] for a, b in pairwise(ends) for k in sizes if k < b - a]
    return from_rows(rows, copies.size)


def near_text(n: int, count: int, most: int, rng: Rng) -> Perturbations:
    """The text without 1 … most random tokens; the first that goes is spread evenly over the text."""
    first = ((rng.permutation(count) + rng.random(count)) / count * n).astype(np.int64)
    most = min(most, n - 1)
    removed = np.minimum((most + 1) ** rng.random(count), most).astype(np.int64)
    keep = np.ones((count, n), dtype=bool)
    for row, (start, size) in enumerate(zip(first, removed, strict=True)):
        later = rng.permutation(np.arange(int(start) + 1, n))
        keep[row, np.r_[start, later][:size]] = False
    return from_keep(keep)


def leave_one_out(n: int) -> Perturbations:
    """The text without each of its tokens."""
    return from_keep(~np.eye(n, dtype=bool))


def leave_words_out(words: IntArray) -> Perturbations:
    """The text without each of its words that have several tokens; `words` are those of the tokens."""
    numbers, sizes = np.unique(words, return_counts=True)
    several = numbers[(sizes > 1) & (sizes < len(words))]
    return from_keep(words != several[:, None])


def deletions(n: int, count: int, most: int, rng: Rng) -> Perturbations:
    """The text without k random tokens, k uniform in 0 … most (the paper's fidelity variant)."""
    k = rng.integers(0, min(most, n - 1) + 1, size=count)
    return from_keep(_ranks(count, n, rng) >= k[:, None])


def subsets(n: int, count: int, rng: Rng) -> Perturbations:
    """The text without k random tokens, k uniform in 1 … n − 1 (LIME's sampling)."""
    k = rng.integers(1, max(n, 2), size=count)
    return from_keep(_ranks(count, n, rng) >= k[:, None])


def _ranks(count: int, n: int, rng: Rng) -> IntArray:
    """A random ranking of the n tokens for each of `count` queries."""
    return rng.random((count, n)).argsort(axis=1).argsort(axis=1)
