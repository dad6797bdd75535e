"""Bounds: what attention certifies and leaves open, and the lemmas behind LIME's limit (maths 5).

Attention weights certify something and leave much open. Taking a set R of positions
out of the softmax of one head moves its output by

    f − f without R = α(R) (v̄_R − f without R),   for one position also α_t (v_t − f) / (1 − α_t)

and f without R is a mean of the other values. So attention does bound an effect from above: by α(R) times the
range of values, on average over heads; the skip connection adds the same to both and drops out. It bounds
nothing from below, since v_t may be what the others say already.

How much else the weights could have been at equal output is the question of Jain and Wallace (2019). The
Jensen–Shannon divergence from α is convex, so over all weights that give the same output it is largest at a
corner: a mixture of two tokens, one that says more and one that says less. Going through all pairs is exact.

Behind the theorem of Lopardo, Precioso and Garreau stand three lemmas. `expected_sum` and
`variance_sum` are the mean and the variance of such a sum over masks of one size. The third is on quotients:
for |X| ≤ C and cn ≤ Y ≤ Cn,

    |E[X/Y] − E[X]/E[Y]| ≤ C Var(Y)/(c³n³) + C √Var(Y)/(c²n²)

With C² in the second term, as it is printed, it fails where C < 1: for X = ±C against Y = n(m ± ε) the left
side is near Cε/m², the right side near C²ε/m². The term is |Cov(X, Y)|/E[Y]², and X deviates by C, not by C².
The theorem's constants may be taken larger than 1, so its conclusion does not hang on this.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from slalom.errors import InputError
from slalom.theory.layer import Look, Masked
from slalom.tokens import FloatArray


def removal_effect(seen: Look, positions: Iterable[int]) -> float:
    """f less f without these positions, which leave every softmax; the others stay where they are.

    Example:
        >>> from slalom.theory.layer import look, planted_layer
        >>> round(removal_effect(look(planted_layer(), [0, 2, 3]), [1]), 4)
        0.9167
    """
    gone = _positions(seen, positions)
    attention = seen.attention[:, 0]
    mass = attention[:, gone].sum(axis=1)
    without = (seen.told[:, 0] - (attention * seen.values)[:, gone].sum(axis=1)) / (1 - mass)
    return float((seen.told[:, 0] - without).mean())


def removal_effects(seen: Look) -> FloatArray:
    """(T − 1,) the effect of every position behind [CLS], α_t (v_t − f) / (1 − α_t) averaged over heads.

    Example:
        >>> from slalom.theory.layer import look, planted_layer
        >>> removal_effects(look(planted_layer(), [0, 2, 3])).round(4).tolist()
        [0.9167, -1.25]
    """
    _positions(seen, ())
    attention, told = seen.attention[:, 0, 1:], seen.told
    return (attention * (seen.values[:, 1:] - told) / (1 - attention)).mean(axis=0)


def removal_bounds(seen: Look) -> FloatArray:
    """(T − 1,) what attention and the range of values allow at most: α_t times the range, over heads.

    They add up: the effect of taking out a set of positions is at most the sum of their bounds.

    Example:
        >>> from slalom.theory.layer import look, planted_layer
        >>> removal_bounds(look(planted_layer(), [0, 2, 3])).round(4).tolist()
        [1.0, 2.0]
    """
    _positions(seen, ())
    return (seen.attention[:, 0, 1:] * np.ptp(seen.values, axis=1)[:, None]).mean(axis=0)


def certified_removals(seen: Look) -> int:
    """How many positions can be taken out, whichever they are, before the sign of f could change.

    Example:
        >>> from slalom.theory.layer import look, planted_layer
        >>> certified_removals(look(planted_layer(values=[3, 3, 3.5, 3]), [0, 2, 3]))
        2
    """
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
    """Weights (T,) furthest from `attention` whose output Σ α v differs by at most the tolerance.

    Example:
        >>> furthest_attention([0.6, 0.2, 0.2], [0, 1, -1]).attention.tolist()
        [0.0, 0.5, 0.5]
    """
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
    """The Jensen–Shannon divergence of two distributions, in nats.

    Example:
        >>> round(divergence([1, 0], [0, 1]), 4)  # log 2
        0.6931
    """
    return float(_part(np.asarray(one, dtype=float), np.asarray(other, dtype=float)).sum())


def expected_sum(a: FloatArray, b: FloatArray, s: int, kept: int) -> float:
    """E[H_S | |S| = s, kept ∉ S] of H_S = Σ_i a_i 1(i ∉ S) + b_i 1(i ∈ S): the lemma behind the theorem.

    Example:
        >>> expected_sum([1, 2, 3], [0, 0, 0], s=1, kept=0)  # 1 + 2 or 1 + 3
        3.5
    """
    a, b = _pair(a, b, s, kept)
    n = len(a)
    return float(((n - 1 - s) * a.sum() + s * b.sum() + s * (a[kept] - b[kept])) / (n - 1))


def variance_sum(a: FloatArray, b: FloatArray, s: int, kept: int) -> float:
    """Var(H_S | |S| = s, kept ∉ S), by sampling without replacement from the other n − 1.

    Example:
        >>> round(variance_sum([1, 2, 3], [0, 0, 0], s=1, kept=0), 4)
        0.25
    """
    a, b = _pair(a, b, s, kept)
    n = len(a)
    if n == 2:
        return 0.0
    centred = a - b - (a - b).mean()
    spread = (centred**2).mean() - centred[kept] ** 2 / (n - 1)
    return float(n * s * (n - s - 1) / ((n - 1) * (n - 2)) * spread)


def _pair(a: FloatArray, b: FloatArray, s: int, kept: int) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or len(a) < 2 or not 0 <= s < len(a) or not 0 <= kept < len(a):
        raise InputError(
            "two vectors of one length n ≥ 2, 0 ≤ s < n and 0 ≤ kept < n are needed; "
            f"got {a.shape}, {b.shape}, s = {s}, kept = {kept}"
        )
    return a, b


def quotient_bound(
    lower: float, upper: float, n: float, variance: float, *, as_printed: bool = False
) -> float:
    """The lemma's bound on |E[X/Y] − E[X]/E[Y]|, c = lower and C = upper.

    Example:
        >>> round(float(quotient_bound(lower=0.5, upper=1, n=10, variance=4)), 4)
        0.112
    """
    if not 0 < lower <= upper or not n > 0 or variance < 0:
        raise InputError(
            f"0 < lower ≤ upper, n > 0 and a variance of at least 0 are needed; "
            f"got {lower}, {upper}, {n}, {variance}"
        )
    second = upper**2 if as_printed else upper
    return upper * variance / (lower * n) ** 3 + second * np.sqrt(variance) / (lower * n) ** 2


@dataclass(frozen=True, eq=False)
class Quotients:
    """E[f | |S| = s, j ∉ S] taken as a quotient of expectations, and how wrong that may be."""

    approximation: FloatArray
    """(d,)"""
    bound: FloatArray
    """(d,) on the absolute error, from the variance lemma."""


def quotients(document: Masked, s: int) -> Quotients:
    """The step of the proof for one number s of masked words, with a bound that is computed, not assumed.

    |E[N/D] − E[N]/E[D]| = |E[(N/D − E[N]/E[D]) (E[D] − D)]| / E[D] ≤ √(Var D) (range of values) / E[D]

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> quotients(masked(planted_layer(), [0, 2, 3]), s=0).approximation.round(4).tolist()
        [0.25, 0.25]
    """
    d = document.size
    approximation, bound = np.zeros(d), np.zeros(d)
    heads = len(document.fixed_mass)
    for k in range(heads):
        kept, gone = (
            (document.kept_mass[k], document.kept_sum[k]),
            (document.gone_mass[k], document.gone_sum[k]),
        )
        values = [document.fixed_sum[k] / document.fixed_mass[k], *(kept[1] / kept[0]), *(gone[1] / gone[0])]
        spread = float(np.ptp(values))
        for j in range(d):
            mass = document.fixed_mass[k] + expected_sum(kept[0], gone[0], s, j)
            total = document.fixed_sum[k] + expected_sum(kept[1], gone[1], s, j)
            approximation[j] += total / mass / heads
            bound[j] += np.sqrt(max(variance_sum(kept[0], gone[0], s, j), 0.0)) * spread / mass / heads
    return Quotients(approximation + document.offset, bound)
