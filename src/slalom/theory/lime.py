"""What LIME for text converges to on the one-layer classifier, at every bandwidth (maths 5).

LIME masks s words, s uniform on 1 … d, the set S uniform given s, and regresses f on the presence z of the d
words with an intercept. With a large bandwidth its limit is ordinary least squares, and by symmetry that is

    β_j = β̄ + 3 (d − 1)/(d + 1) (E_j − Ē),   E_j = E[f | j ∉ S]
    β̄ = Cov(|z|, f) / Var(|z|),   Var(|z|) = (d² − 1)/12

`least_squares` is this, exact for every d. `mardaoui_garreau` is the published large-d form 3 (E_j − Ē),
which loses the mean of the coefficients; `three_halves` the published approximation for this layer;
`mean_field` a better one. The first two start from conditional expectations that `expectations` computes
exactly, in polynomial time.

With any bandwidth (`coefficients`) LIME's weights π = exp(−δ²/2ν²), δ = 1 − √(1 − s/d), depend on how many
words s are masked and on nothing else. So all that its regression needs are the means of f and of f·z_j over
the masks of each size s. With 1/D = ∫ e^{−tD} dt they are coefficients of generating functions in x,

    Σ_S x^{|S|} e^{−tD(S)} = e^{−t g_0} Π_i (e^{−t g_i} + x e^{−t g_h,i})

and of the same product with the numerator N(S) as a factor, which is its derivative in a dual number. All
coefficients are positive sums, so nothing cancels; the products without word j are taken for all j at once
by halves, in O(d² log d) for each node t.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, roots_legendre

from slalom.errors import InputError
from slalom.theory.layer import Masked
from slalom.tokens import FloatArray

# Trapezoidal step in log t: ∫ e^{−tG} dt = 1/G then errs by 2 |Γ(1 + 2πi/step)| / G,
# about exp(−π²/step) = 5e-15.
STEP = 0.3
DIGITS = 36.0
_CHUNK = 1 << 20


def least_squares(document: Masked) -> FloatArray:
    """(d,) LIME's coefficients in the limit of many samples and large bandwidth, exact for every d ≥ 2.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> least_squares(masked(planted_layer(), [0, 2, 3])).round(4).tolist()
        [1.0, -0.5]
    """
    given, mean = expectations(document)
    d = len(given)
    # Cov(|z|, f) = Σ_j P(j ∉ S) (E_j − E f) with P(j ∉ S) = (d − 1)/2d.
    slope = 12 / (d**2 - 1) * (d - 1) / (2 * d) * (given - mean).sum()
    return slope + 3 * (d - 1) / (d + 1) * (given - given.mean())


def mardaoui_garreau(document: Masked) -> FloatArray:
    """(d,) 3 E[f | j ∉ S] − (3/d) Σ_k E[f | k ∉ S]: the same for d → ∞, less the mean of the coefficients.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> mardaoui_garreau(masked(planted_layer(), [0, 2, 3])).round(4).tolist()
        [2.25, -2.25]
    """
    given, _ = expectations(document)
    return 3 * (given - given.mean())


def three_halves(document: Masked) -> FloatArray:
    """(d,) the theorem of Lopardo, Precioso and Garreau: (3/2) W_ℓ (α_t v_t − α_h,t v_h,t).

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> three_halves(masked(planted_layer(), [0, 2, 3])).round(4).tolist()
        [1.125, -0.75]
    """
    kept = document.kept_sum / (document.fixed_mass + document.kept_mass.sum(axis=1))[:, None]
    gone = document.gone_sum / (document.fixed_mass + document.gone_mass.sum(axis=1))[:, None]
    return 1.5 * (kept - gone).mean(axis=0)


def mean_field(document: Masked) -> FloatArray:
    """(d,) `least_squares` up to an error of the order 1/d.

    Where a share p of the words is masked, numerator and denominator are near their expectations N(p), D(p):

        β_j ≈ 6 ∫_0^1 p (1 − p) {(gv)_j − (g_h v_h)_j − N/D (g_j − g_h,j)} / D dp

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> mean_field(masked(planted_layer([0.0] * 4), [0, 2, 3])).round(4).tolist()
        [1.0, -0.3333]
    """
    nodes, weights = roots_legendre(40)
    p, weight = (nodes[:, None] + 1) / 2, weights[:, None] / 2
    total = document.fixed_sum + (1 - p) * document.kept_sum.sum(axis=1) + p * document.gone_sum.sum(axis=1)
    mass = document.fixed_mass + (1 - p) * document.kept_mass.sum(axis=1) + p * document.gone_mass.sum(axis=1)
    pull = 6 * weight * p * (1 - p) / mass
    change = pull.sum(axis=0)[:, None] * (document.kept_sum - document.gone_sum)
    dilution = (pull * total / mass).sum(axis=0)[:, None] * (document.kept_mass - document.gone_mass)
    return (change - dilution).mean(axis=0)


def expectations(document: Masked) -> tuple[FloatArray, float]:
    """(d,) E[f | j ∉ S] and E[f] under LIME's sampling, exact up to rounding.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> given, mean = expectations(masked(planted_layer(), [0, 2, 3]))
        >>> given.round(4).tolist(), round(mean, 4)
        ([1.0, -0.5], 0.125)
    """
    d = document.size
    if d < 2:
        raise InputError(
            "LIME masks at least one word and needs another one to stand: give two words or more"
        )
    inside, mean = np.zeros(d), 0.0
    for k in range(len(document.fixed_mass)):
        own, all_words = _conditional(document.head(k))
        inside += own / len(document.fixed_mass)
        mean += all_words / len(document.fixed_mass)
    # The quadrature lets s start at 0; LIME starts at 1. |S| = 0 has probability 1/(d + 1).
    full = float(document.outputs(np.ones((1, d)))[0]) - document.offset
    given = (inside - full / (d + 1)) / (0.5 - 1 / (d + 1))
    return given + document.offset, ((d + 1) * mean - full) / d + document.offset


def _conditional(head: Masked) -> tuple[FloatArray, float]:
    """(d,) E[f 1(j ∉ S)] and E[f] with |S| uniform on 0 … d: masked with probability p, p uniform."""
    g, gv, g_h, gv_h = head.kept_mass[0], head.kept_sum[0], head.gone_mass[0], head.gone_sum[0]
    inside, mean = np.zeros(head.size), 0.0
    # The integrand is a polynomial of degree d in p: these nodes are exact.
    nodes, weights = roots_legendre(head.size // 2 + 1)
    p, weight = (nodes[:, None] + 1) / 2, weights / 2
    for t in times(head, len(p)):
        stays, goes = (1 - p) * np.exp(-t * g), p * np.exp(-t * g_h)
        q = stays + goes
        mass = STEP * t[:, :, 0] * weight * np.exp(np.log(q).sum(axis=-1) - t[:, :, 0] * head.fixed_mass[0])
        moment = (stays * gv + goes * gv_h) / q
        total = head.fixed_sum[0] + moment.sum(axis=-1)
        mean += float((mass * total).sum())
        alone = stays / q * (total[..., None] - moment + gv)
        inside += np.einsum("tp,tpj->j", mass, alone)
    return inside, mean


def times(head: Masked, n_p: int) -> Iterator[FloatArray]:
    """Nodes t of ∫ e^{−tG} dt, in chunks (T, 1, 1), for every G that some set of masked words gives.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> t = np.concatenate([*times(masked(planted_layer(), [0, 2, 3]), 1)])
        >>> (STEP * t * np.exp(-2 * t)).sum().round(4).item()  # 1/2
        0.5
    """
    low = head.fixed_mass[0] + np.minimum(head.kept_mass, head.gone_mass).sum()
    high = head.fixed_mass[0] + np.maximum(head.kept_mass, head.gone_mass).sum()
    low = max(float(low), 1e-290 * float(high))  # weights that underflow to 0
    t = np.exp(np.arange(-DIGITS - np.log(high), np.log(DIGITS) - np.log(low) + STEP, STEP))
    chunks = max(1, -(-len(t) * n_p * head.size // _CHUNK))
    yield from (part[:, None, None] for part in np.array_split(t, chunks) if len(part))


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
    """The means that every regression on the presence of words starts from, exact up to rounding.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> by_size(masked(planted_layer(), [0, 2, 3])).mean[:2].round(4).tolist()
        [0.25, 0.25]
    """
    d, heads = document.size, len(document.fixed_mass)
    if d > LARGEST:
        raise InputError(f"{d} words are too many for the generating functions; at most {LARGEST}")
    mean, standing = np.zeros(d + 1), np.zeros((d + 1, d))
    for k in range(heads):
        own_mean, own_standing = _head_by_size(document.head(k))
        mean += own_mean / heads
        standing += own_standing / heads
    kept = 1 - np.arange(d + 1)[:, None] / d
    return BySize(mean + document.offset, standing + kept * document.offset)


def coefficients(document: Masked, bandwidth: float = np.inf, ridge: float = 0.0) -> FloatArray:
    """(d,) LIME's coefficients in the limit of many samples.

    bandwidth: ν on the cosine distance itself; the `lime` package takes a hundred times that (25 is 0.25).
    ridge: the penalty divided by the number of samples; it does not touch the intercept.

    Example:
        >>> from slalom.theory.layer import masked, planted_layer
        >>> coefficients(masked(planted_layer(), [0, 2, 3]), bandwidth=0.25).round(4).tolist()
        [1.0, -0.5]
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
    """β_j = {σ_1 E[πf] + σ_2 E[π z_j f] + σ_3 Σ_{k≠j} E[π z_k f]} / c_d.

    Example:
        >>> round(constants(2).c, 4)
        0.125
    """
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


def _head_by_size(head: Masked) -> tuple[FloatArray, FloatArray]:
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
