"""Exact Shapley values of a SLALOM in polynomial time (maths 2)."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.special import roots_legendre

from slalom.errors import InputError
from slalom.tokens import FloatArray, IntArray

# −log of the relative error allowed: to the last digits, to what a fitted surrogate can tell (1e-9), and to
# what a standard error needs (1e-6).
EXACT, FITTED, ROUGH = 36.0, 24.0, 14.0
# Floats in the largest array of one chunk (2 MB, to stay in cache).
_CHUNK = 1 << 18


def shapley_values(
    importances: FloatArray,
    values: FloatArray,
    background_importance: float,
    background_value: FloatArray,
    digits: float = EXACT,
) -> FloatArray:
    """(n, K) Shapley values of the n positions; f(∅) is the background's value, 0 without one.

    With u = t·w, x = 1 − e^{−u}, q = 1 − p·x and P = Π q the integral of maths 2 collects to

        φ_i = ∫ dlog t ∫ dp e^{−u_0} P { v_i u_i e^{−u_i} / q_i² − p (x_i / q_i) Σ_k v_k u_k e^{−u_k} / q_k }

    for values counted from the background's. Copies of a token share their u and are summed over once.
    """
    s, v = np.asarray(importances, dtype=float), np.asarray(values, dtype=float)
    s0, v0 = float(background_importance), np.asarray(background_value, dtype=float)
    if len(s) == 0:
        return np.zeros(v.shape)
    if not (np.isfinite(s).all() and np.isfinite(v).all() and s0 < np.inf):
        raise InputError("Shapley values need finite importances and values")
    # Without background a constant c added to all values adds c to every coalition but the empty one.
    offset = v0 if s0 > -np.inf else v.mean(axis=0)
    v = v - offset
    levels, inverse, copies = np.unique(s, return_inverse=True, return_counts=True)
    sums = np.zeros((len(levels), v.shape[1]))
    np.add.at(sums, inverse, v)
    own, shared = np.zeros(len(levels)), np.zeros(sums.shape)
    for u, u0, m in quadrature(levels, copies, s0, digits):
        first, second = _integrate(u, u0, m, copies, sums)
        own += first
        shared += second
    result = step_of(digits) * (v * own[inverse, None] - shared[inverse])
    return result if s0 > -np.inf else result + offset / len(s)


def shapley_slopes(
    importances: FloatArray,
    values: FloatArray,
    background_importance: float,
    background_value: float,
    digits: float = ROUGH,
) -> tuple[FloatArray, FloatArray]:
    """(n, n + 1) slopes of the Shapley values by importances and by values, the background's last.

    For one output and a background. With a = u e^{−u}, b = a (1 − u), r = x / q, S = Σ_k v_k a_k / q_k and
    c = e^{−u_0} P, summed over the nodes:

        ∂φ_i/∂v_j = Σ c (δ_ij a_i / q_i² − p r_i a_j / q_j)
        ∂φ_i/∂s_j = Σ c { −p (a_j / q_j) (v_i a_i / q_i² − p r_i S) − p r_i v_j (b_j / q_j + p a_j² / q_j²)
                          + δ_ij (v_i (b_i / q_i² + 2 p a_i² / q_i³) − p S a_i / q_i²) }
    """
    order = np.argsort(importances)
    levels, v = importances[order], values[order] - background_value
    n = len(levels)
    by_s, by_v, by_background = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
    for u, u0, m in quadrature(levels, np.ones(n, np.int64), background_importance, digits):
        nodes, weight = legendre(m)
        p, gauss = np.tile(nodes, len(u))[:, None], np.tile(weight, len(u))
        u, u0 = np.repeat(u, m, axis=0), np.repeat(u0, m)
        a, x = u * np.exp(-u), -np.expm1(-u)
        q = 1 - p * x
        c = (gauss * np.exp(np.log(q).sum(axis=1) - u0))[:, None]
        r, t, own = x / q, a / q, a / q**2
        total = (t @ v)[:, None]
        effect = c * (v * own - p * r * total)
        by_v -= (c * p * r).T @ t
        by_v[np.diag_indices(n)] += (c * own).sum(axis=0)
        by_s -= effect.T @ (p * t) + (c * p * r).T @ (v * (a * (1 - u) / q + p * t**2))
        diagonal = v * (own * (1 - u) + 2 * p * own * t) - p * total * own
        by_s[np.diag_indices(n)] += (c * diagonal).sum(axis=0)
        by_background -= u0 @ effect
    back = np.argsort(order)
    by_s, by_v = (np.column_stack(part) for part in ((by_s, by_background), (by_v, -by_v.sum(axis=1))))
    columns = np.append(back, n)
    step = step_of(digits)
    return step * by_s[np.ix_(back, columns)], step * by_v[np.ix_(back, columns)]


def step_of(digits: float) -> float:
    """Of the trapezoidal rule in log t, which errs by exp(−π²/step): analytic for |Im log t| < π/2."""
    return 1.1 * np.pi**2 / digits


def quadrature(
    levels: FloatArray, copies: IntArray, s0: float, digits: float = EXACT
) -> Iterator[tuple[FloatArray, FloatArray, int]]:
    """Chunks of nodes in log t: u = t·w of the tokens (T, d) and of the background (T,), and nodes in p."""
    step = step_of(digits)
    total = np.logaddexp.reduce(np.r_[levels + np.log(copies), s0])
    log_t = np.arange(-digits - total, np.log(digits) - max(s0, levels[0]) + step, step)
    # e^{−exp(7)} is 0 in floats already; the bound keeps t·w finite.
    u = np.exp(np.minimum(log_t[:, None] + levels, 7.0))
    u0 = np.exp(np.minimum(log_t + s0, 7.0))
    # Where importances are far apart, most of the axis carries nothing.
    live = (u * np.exp(-u - u0[:, None])).max(axis=1) > np.exp(-digits)
    u, u0 = u[live], u0[live]
    orders = _orders(-np.expm1(-u) @ copies.astype(float), int(copies.sum()), digits)
    for m in np.unique(orders):
        chosen = np.flatnonzero(orders == m)
        for part in np.array_split(chosen, -(-len(chosen) * int(m) * len(levels) // _CHUNK)):
            yield u[part], u0[part], int(m)


def _orders(load: FloatArray, n: int, digits: float) -> IntArray:
    """Gauss–Legendre orders in p that suffice for Π (1 − p x_j) with Σ x_j = load.

    n // 2 + 1 nodes are exact for the polynomial of degree n − 1. On the Bernstein ellipse of radius e^r
    around [0, 1] it is at most exp(load (cosh r − 1) / 2), so m nodes err by about that times e^{−2mr}; the
    best r has sinh r = 4m / load.
    """
    exact = n // 2 + 1
    m = np.arange(1, exact + 1)
    load = np.maximum(load, 1e-12)[:, None]
    r = np.arcsinh(4 * m / load)
    gain = 2 * m * r - load * (np.cosh(r) - 1) / 2
    enough = 1 + np.sum(gain < digits, axis=1)
    return np.minimum(4 * -(-enough // 4), exact)


@lru_cache(maxsize=128)
def legendre(m: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = roots_legendre(m)
    return (nodes + 1) / 2, weights / 2


def _integrate(
    u: FloatArray, u0: FloatArray, m: int, copies: IntArray, sums: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """One chunk's part of the integrals: (d,) the factor of a token's own value, (d, K) what is taken off."""
    p, weight = legendre(m)
    e, x = np.exp(-u), -np.expm1(-u)
    q = 1 - p[:, None] * x[:, None, :]
    mass = weight * np.exp(np.log(q) @ copies.astype(float) - u0[:, None])
    inverse = 1 / q
    moment = inverse @ ((u * e)[:, :, None] * sums)
    own = (mass[:, None, :] @ np.square(inverse))[:, 0] * u * e
    shared = np.swapaxes(inverse, 1, 2) @ ((mass * p)[:, :, None] * moment) * x[:, :, None]
    return own.sum(axis=0), shared.sum(axis=0)
