"""LIME for text on the one-layer classifier at every bandwidth, exactly and in polynomial time (maths 5).

LIME's weights π = exp(−δ²/2ν²), δ = 1 − √(1 − s/d), depend on how many words s are masked and on nothing
else. So all that its regression needs are the means of f and of f·z_j over the masks of each size s. With
1/D = ∫ e^{−tD} dt they are coefficients of generating functions in x,

    Σ_S x^{|S|} e^{−tD(S)} = e^{−t g_0} Π_i (e^{−t g_i} + x e^{−t g_h,i})

and of the same product with the numerator N(S) as a factor, which is its derivative in a dual number. All
coefficients are positive sums, so nothing cancels; the products without word j are taken for all j at once
by halves, in O(d² log d) for each node t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from slalom.errors import InputError
from slalom.theory.lime_limit import STEP, times
from slalom.theory.masking import Masked
from slalom.tokens import FloatArray

Dual = tuple[FloatArray, FloatArray]
"""A generating function and the same with the numerator as a factor, each (T, degree + 1)."""

LARGEST = 900
"""Words up to which the generating functions' coefficients are floats."""


@dataclass(frozen=True, eq=False)
class BySize:
    """The one-layer classifier averaged over all masks of s = 0 … d words."""

    mean: FloatArray
    """(d + 1,) E[f | |S| = s]"""
    standing: FloatArray
    """(d + 1, d) E[f z_j | |S| = s]"""


def by_size(document: Masked) -> BySize:
    """The means that every regression on the presence of words starts from, exact up to rounding."""
    d, heads = document.size, len(document.fixed_mass)
    if d > LARGEST:
        raise InputError(f"{d} words are too many for the generating functions; at most {LARGEST}")
    mean, standing = np.zeros(d + 1), np.zeros((d + 1, d))
    for k in range(heads):
        own_mean, own_standing = _one_head(document.head(k))
        mean += own_mean / heads
        standing += own_standing / heads
    kept = 1 - np.arange(d + 1)[:, None] / d
    return BySize(mean + document.offset, standing + kept * document.offset)


def coefficients(document: Masked, bandwidth: float = np.inf, ridge: float = 0.0) -> FloatArray:
    """(d,) LIME's coefficients in the limit of many samples.

    bandwidth: ν on the cosine distance itself; the `lime` package takes a hundred times that (25 is 0.25).
    ridge: the penalty divided by the number of samples; it does not touch the intercept.
    """
    d = document.size
    if d < 2 or not bandwidth > 0 or ridge < 0:
        raise InputError(
            f"two words or more, a positive bandwidth and a ridge of at least 0 are needed; "
            f"got {d} words, bandwidth {bandwidth}, ridge {ridge}"
        )
    sizes = by_size(document)
    share = _weights(d, bandwidth) / d
    joint = share @ sizes.standing[1:]
    one, first, second = _moments(d, share)
    # Words are exchangeable: deviations from the mean coefficient, and the mean itself, come apart.
    apart = (joint - joint.mean()) / (first - second + ridge)
    left = d - np.arange(1, d + 1) - d * first / one
    return apart + share @ (left * sizes.mean[1:]) / (share @ left**2 + d * ridge)


@dataclass(frozen=True)
class Constants:
    """c_d and σ_1 … σ_3 of Mardaoui and Garreau (2021): what turns expectations into coefficients."""

    c: float
    sigma: tuple[float, float, float]


def constants(d: int, bandwidth: float = np.inf) -> Constants:
    """β_j = {σ_1 E[πf] + σ_2 E[π z_j f] + σ_3 Σ_{k≠j} E[π z_k f]} / c_d."""
    one, first, second = _moments(d, _weights(d, bandwidth) / d)
    c = (d - 1) * one * second - d * first**2 + one * first
    apart = first - second
    sigma_2 = ((d - 2) * one * second - (d - 1) * first**2 + one * first) / apart
    return Constants(c, (-first, sigma_2, (first**2 - one * second) / apart))


def _weights(d: int, bandwidth: float) -> FloatArray:
    """(d,) π where s = 1 … d words are masked."""
    distance = 1 - np.sqrt(1 - np.arange(1, d + 1) / d)
    return np.exp(-(distance**2) / (2 * bandwidth**2))


def _moments(d: int, share: FloatArray) -> tuple[float, float, float]:
    """E[π], E[π z_1], E[π z_1 z_2]"""
    left = d - np.arange(1, d + 1)
    return float(share.sum()), float(share @ left / d), float(share @ (left * (left - 1)) / (d * (d - 1)))


def _one_head(head: Masked) -> tuple[FloatArray, FloatArray]:
    """E[f | s] and E[f z_j | s] of one head, s = 0 … d."""
    d = head.size
    mean, standing = np.zeros(d + 1), np.zeros((d + 1, d))
    subsets = np.exp(gammaln(d + 1) - gammaln(np.arange(d + 1) + 1) - gammaln(d - np.arange(d + 1) + 1))
    for chunk in times(head, d + 1):
        t = chunk[:, 0]
        stays, goes = np.exp(-t * head.kept_mass[0]), np.exp(-t * head.gone_mass[0])
        words = [
            (np.c_[a, b], np.c_[a * head.kept_sum[0, i], b * head.gone_sum[0, i]])
            for i, (a, b) in enumerate(zip(stays.T, goes.T, strict=True))
        ]
        weight = STEP * t * np.exp(-t * head.fixed_mass[0])
        fixed = (weight, weight * head.fixed_sum[0])
        mean += _times(fixed, _product(words))[1].sum(axis=0) / subsets
        for j, (mass, total) in enumerate(_without_each(words, fixed)):
            found = stays[:, j] @ (total + head.kept_sum[0, j] * mass)
            standing[:d, j] += found / subsets[:d]
    return mean, standing


def _product(words: list[Dual]) -> Dual:
    if len(words) == 1:
        return words[0]
    half = len(words) // 2
    return _times(_product(words[:half]), _product(words[half:]))


def _times(one: Dual, other: Dual) -> Dual:
    (a, da), (b, db) = one, other
    return _convolve(a, b), _convolve(da, b) + _convolve(a, db)


def _convolve(a: FloatArray, b: FloatArray) -> FloatArray:
    """Products of polynomials, row by row, the shorter one's terms in turn."""
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    result = np.zeros((len(a), a.shape[1] + b.shape[1] - 1))
    for i in range(b.shape[1]):
        result[:, i : i + a.shape[1]] += a * b[:, i : i + 1]
    return result


def _without_each(words: list[Dual], outside: Dual) -> list[Dual]:
    """The product of all but each one in turn, times `outside`."""
    if len(words) == 1:
        return [outside]
    half = len(words) // 2
    left, right = words[:half], words[half:]
    return [
        *_without_each(left, _times(outside, _product(right))),
        *_without_each(right, _times(outside, _product(left))),
    ]
