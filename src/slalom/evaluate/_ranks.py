"""Orders of tokens, and rank correlations that always have an answer or say why there is none."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from slalom.evaluate.protocol import NotApplicable
from slalom.tokens import FloatArray, IntArray

_LEAST = 3


def strongest_first(scores: FloatArray, seed: int) -> IntArray:
    """The positions by falling score. Ties are broken at random, from the seed: a place earns nothing."""
    return np.lexsort((np.random.default_rng(seed).random(len(scores)), -scores))


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
    found: Any = (spearmanr if kind == "spearman" else kendalltau)(told, truth)
    return float(found.statistic)


def likeness(one: FloatArray, other: FloatArray) -> float:
    """Spearman's correlation of two scorings of equal standing: 1 if equal, 0 if only one is constant."""
    if len(one) < _LEAST:
        raise NotApplicable(f"fewer than {_LEAST} tokens to put in order")
    if np.array_equal(one, other):
        return 1.0
    constant = [np.ptp(scores) == 0.0 for scores in (one, other)]
    return float(all(constant)) if any(constant) else correlation(one, other, "spearman")
