"""Which perturbed copies of a text to ask about (maths 3d, 3e)."""

from __future__ import annotations

import numpy as np

from slalom.perturb import Perturbations, from_keep
from slalom.tokens import IntArray

Rng = np.random.Generator


def singles(first: IntArray, size: int) -> Perturbations:
    """Every type alone: what it says on its own."""
    return Perturbations(first, np.arange(len(first) + 1), size)


def short(first: IntArray, size: int, count: int, lengths: IntArray, rng: Rng) -> Perturbations:
    """`count` sequences of types with lengths drawn from `lengths`; every type stands in equally many."""
    drawn = rng.choice(lengths, size=count)
    return Perturbations(first[balanced(len(first), int(drawn.sum()), rng)], np.r_[0, np.cumsum(drawn)], size)


def balanced(n: int, count: int, rng: Rng) -> IntArray:
    """`count` numbers below n, each equally often (give or take one), in random order."""
    rounds = -(-count // n)
    shuffled = rng.permuted(np.broadcast_to(np.arange(n), (rounds, n)), axis=1)
    return shuffled.ravel()[:count]


def leave_one_out(n: int) -> Perturbations:
    """The text without each of its tokens."""
    return from_keep(~np.eye(n, dtype=bool))


def blocks(n: int, size: int, covers: int, rng: Rng) -> Perturbations:
    """The text without random blocks of `size` tokens; each of the `covers` passes leaves every token out once."""
    count = -(-n // size)
    keep = np.ones((covers * count, n), dtype=bool)
    for cover in range(covers):
        keep[cover * count + np.arange(n) // size, rng.permutation(n)] = False
    return from_keep(keep)


def deletions(n: int, count: int, most: int, rng: Rng) -> Perturbations:
    """The text without k random tokens, k uniform in 0 … most (the paper's fidelity variant)."""
    k = rng.integers(0, min(most, n - 1) + 1, size=count)
    ranks = rng.random((count, n)).argsort(axis=1).argsort(axis=1)
    return from_keep(ranks >= k[:, None])


def subsets(n: int, count: int, rng: Rng) -> Perturbations:
    """The text without k random tokens, k uniform in 1 … n − 1 (LIME's sampling)."""
    k = rng.integers(1, max(n, 2), size=count)
    ranks = rng.random((count, n)).argsort(axis=1).argsort(axis=1)
    return from_keep(ranks >= k[:, None])
