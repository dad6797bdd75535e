"""What attention weights certify, and what they leave open, on the one-layer classifier (maths 5).

Taking a set R of positions out of the softmax of one head moves its output by

    f − f without R = α(R) (v̄_R − f without R),   for one position also α_t (v_t − f) / (1 − α_t)

and f without R is a mean of the other values. So attention does bound an effect from above: by α(R) times the
range of values, on average over heads; the skip connection adds the same to both and drops out. It bounds
nothing from below, since v_t may be what the others say already.

How much else the weights could have been at equal output is the question of Jain and Wallace (2019). The
Jensen–Shannon divergence from α is convex, so over all weights that give the same output it is largest at a
corner: a mixture of two tokens, one that says more and one that says less. Going through all pairs is exact.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from slalom.errors import InputError
from slalom.theory.layer import Look
from slalom.tokens import FloatArray


def removal_effect(seen: Look, positions: Iterable[int]) -> float:
    """f less f without these positions, which leave every softmax; the others stay where they are."""
    gone = _positions(seen, positions)
    attention = seen.attention[:, 0]
    mass = attention[:, gone].sum(axis=1)
    without = (seen.told[:, 0] - (attention * seen.values)[:, gone].sum(axis=1)) / (1 - mass)
    return float((seen.told[:, 0] - without).mean())


def removal_effects(seen: Look) -> FloatArray:
    """(T − 1,) the effect of every position behind [CLS], α_t (v_t − f) / (1 − α_t) averaged over heads."""
    _positions(seen, ())
    attention, told = seen.attention[:, 0, 1:], seen.told
    return (attention * (seen.values[:, 1:] - told) / (1 - attention)).mean(axis=0)


def removal_bounds(seen: Look) -> FloatArray:
    """(T − 1,) what attention and the range of values allow at most: α_t times the range, over heads.

    They add up: the effect of taking out a set of positions is at most the sum of their bounds.
    """
    _positions(seen, ())
    return (seen.attention[:, 0, 1:] * np.ptp(seen.values, axis=1)[:, None]).mean(axis=0)


def certified_removals(seen: Look) -> int:
    """How many positions can be taken out, whichever they are, before the sign of f could change."""
    most = np.sort(removal_bounds(seen))[::-1].cumsum()
    return int(np.count_nonzero(most < abs(seen.output)))


def _positions(seen: Look, positions: Iterable[int]) -> list[int]:
    if seen.layer.mean_read_out:
        raise InputError("bounds from attention hold for the [CLS] read-out: others leave with their text")
    gone = sorted(set(positions))
    if gone and not 0 < gone[0] <= gone[-1] < seen.attention.shape[2]:
        raise InputError(
            f"positions must lie between 1 and {seen.attention.shape[2] - 1}: [CLS], at 0, asks; got {gone}"
        )
    return gone


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """The furthest that one head's attention can move while its output stays."""

    attention: FloatArray
    """(T,) at most two tokens have any of it."""
    divergence: float
    """Jensen–Shannon divergence from the head's own, at most log 2 = 0.69."""
    distance: float
    """Half the sum of absolute differences, at most 1."""


def furthest_attention(attention: FloatArray, values: FloatArray, tolerance: float = 0.0) -> Counterfactual:
    """Weights (T,) furthest from `attention` whose output Σ α v differs by at most the tolerance."""
    alpha, v = np.asarray(attention, dtype=float), np.asarray(values, dtype=float)
    if alpha.shape != v.shape or alpha.ndim != 1 or tolerance < 0:
        raise InputError(
            f"one weight and one value for each token, and a tolerance of at least 0, are needed; "
            f"got {alpha.shape}, {v.shape}, {tolerance}"
        )
    output = float(alpha @ v)
    best = Counterfactual(alpha, 0.0, 0.0)
    for level in {output - tolerance, output, output + tolerance}:
        level = float(np.clip(level, v.min(), v.max()))
        candidate = _corner(alpha, v, level)
        best = candidate if candidate.divergence > best.divergence else best
    # Where the tolerance is wide, all attention on one token is a corner too.
    for i in np.flatnonzero(np.abs(v - output) <= tolerance):
        candidate = _corner(alpha, v, float(v[i]))
        best = candidate if candidate.divergence > best.divergence else best
    return best


def _corner(alpha: FloatArray, v: FloatArray, level: float) -> Counterfactual:
    """The best mixture of a token whose value is at most `level` and one whose value is at least that."""
    low, high = np.flatnonzero(v <= level), np.flatnonzero(v >= level)
    gap = v[high][None] - v[low][:, None]
    # Two tokens that both say exactly `level` may share in any way; all on the first is a corner.
    first = np.where(gap > 0, (v[high][None] - level) / np.where(gap > 0, gap, 1.0), 1.0)
    a, b = alpha[low][:, None], alpha[high][None]
    rest = np.where(low[:, None] == high[None], 1 - a, 1 - a - b)
    divergence = 0.5 * np.log(2) * rest + _part(a, first)
    divergence += np.where(low[:, None] == high[None], 0.0, _part(b, 1 - first))
    i, j = np.unravel_index(int(divergence.argmax()), divergence.shape)
    moved = np.zeros(len(alpha))
    moved[low[i]] += first[i, j]
    moved[high[j]] += 1 - first[i, j]
    return Counterfactual(moved, float(divergence[i, j]), float(np.abs(moved - alpha).sum() / 2))


def _part(a: FloatArray, b: FloatArray) -> FloatArray:
    """One token's part of the Jensen–Shannon divergence between weights a and b."""
    middle = (a + b) / 2
    return 0.5 * (xlogy(a, a) + xlogy(b, b)) - xlogy(middle, middle)


def divergence(one: FloatArray, other: FloatArray) -> float:
    """The Jensen–Shannon divergence of two distributions, in nats."""
    return float(_part(np.asarray(one, dtype=float), np.asarray(other, dtype=float)).sum())
