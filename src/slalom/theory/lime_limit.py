"""What LIME for text converges to on the one-layer classifier, with a large bandwidth (maths 5).

LIME masks s words, s uniform on 1 … d, the set S uniform given s, and regresses f on the presence z of the d
words with an intercept. With π = 1 its limit is ordinary least squares, and by symmetry that is

    β_j = β̄ + 3 (d − 1)/(d + 1) (E_j − Ē),   E_j = E[f | j ∉ S]
    β̄ = Cov(|z|, f) / Var(|z|),   Var(|z|) = (d² − 1)/12

`least_squares` is this, exact for every d. `mardaoui_garreau` is the published large-d form 3 (E_j − Ē),
which loses the mean of the coefficients; `three_halves` the published approximation for this layer;
`mean_field` a better one. The first two start from conditional expectations that `expectations` computes
exactly, in polynomial time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import roots_legendre

from slalom.errors import InputError
from slalom.theory.masking import Masked
from slalom.tokens import FloatArray

# Trapezoidal step in log t: ∫ e^{−tG} dt = 1/G then errs by 2 |Γ(1 + 2πi/step)| / G,
# about exp(−π²/step) = 5e-15.
STEP = 0.3
DIGITS = 36.0
_CHUNK = 1 << 20


def least_squares(document: Masked) -> FloatArray:
    """(d,) LIME's coefficients in the limit of many samples and large bandwidth, exact for every d ≥ 2."""
    given, mean = expectations(document)
    d = len(given)
    # Cov(|z|, f) = Σ_j P(j ∉ S) (E_j − E f) with P(j ∉ S) = (d − 1)/2d.
    slope = 12 / (d**2 - 1) * (d - 1) / (2 * d) * (given - mean).sum()
    return slope + 3 * (d - 1) / (d + 1) * (given - given.mean())


def mardaoui_garreau(document: Masked) -> FloatArray:
    """(d,) 3 E[f | j ∉ S] − (3/d) Σ_k E[f | k ∉ S]: the same for d → ∞, less the mean of the coefficients."""
    given, _ = expectations(document)
    return 3 * (given - given.mean())


def three_halves(document: Masked) -> FloatArray:
    """(d,) the theorem of Lopardo, Precioso and Garreau: (3/2) W_ℓ (α_t v_t − α_h,t v_h,t)."""
    kept = document.kept_sum / (document.fixed_mass + document.kept_mass.sum(axis=1))[:, None]
    gone = document.gone_sum / (document.fixed_mass + document.gone_mass.sum(axis=1))[:, None]
    return 1.5 * (kept - gone).mean(axis=0)


def mean_field(document: Masked) -> FloatArray:
    """(d,) `least_squares` up to an error of the order 1/d.

    Where a share p of the words is masked, numerator and denominator are near their expectations N(p), D(p):

        β_j ≈ 6 ∫_0^1 p (1 − p) {(gv)_j − (g_h v_h)_j − N/D (g_j − g_h,j)} / D dp
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
    """(d,) E[f | j ∉ S] and E[f] under LIME's sampling, exact up to rounding."""
    d = document.size
    if d < 2:
        raise InputError(
            "LIME masks at least one word and needs another one to stand: give two words or more"
        )
    inside, mean = np.zeros(d), 0.0
    for k in range(len(document.fixed_mass)):
        own, all_words = _one_head(document.head(k))
        inside += own / len(document.fixed_mass)
        mean += all_words / len(document.fixed_mass)
    # The quadrature lets s start at 0; LIME starts at 1. |S| = 0 has probability 1/(d + 1).
    full = float(document.outputs(np.ones((1, d)))[0]) - document.offset
    given = (inside - full / (d + 1)) / (0.5 - 1 / (d + 1))
    return given + document.offset, ((d + 1) * mean - full) / d + document.offset


def _one_head(head: Masked) -> tuple[FloatArray, float]:
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
    """Nodes t of ∫ e^{−tG} dt, in chunks (T, 1, 1), for every G that some set of masked words gives."""
    low = head.fixed_mass[0] + np.minimum(head.kept_mass, head.gone_mass).sum()
    high = head.fixed_mass[0] + np.maximum(head.kept_mass, head.gone_mass).sum()
    low = max(float(low), 1e-290 * float(high))  # weights that underflow to 0
    t = np.exp(np.arange(-DIGITS - np.log(high), np.log(DIGITS) - np.log(low) + STEP, STEP))
    chunks = max(1, -(-len(t) * n_p * head.size // _CHUNK))
    yield from (part[:, None, None] for part in np.array_split(t, chunks) if len(part))


def expected_sum(a: FloatArray, b: FloatArray, s: int, kept: int) -> float:
    """E[H_S | |S| = s, kept ∉ S] of H_S = Σ_i a_i 1(i ∉ S) + b_i 1(i ∈ S): the lemma behind the theorem."""
    a, b = _pair(a, b, s, kept)
    n = len(a)
    return float(((n - 1 - s) * a.sum() + s * b.sum() + s * (a[kept] - b[kept])) / (n - 1))


def variance_sum(a: FloatArray, b: FloatArray, s: int, kept: int) -> float:
    """Var(H_S | |S| = s, kept ∉ S), by sampling without replacement from the other n − 1."""
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
