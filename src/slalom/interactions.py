"""Which two tokens work together: pairwise interactions of a SLALOM in closed form (maths 3k).

What i and j do together beyond what each does alone is Δ_ij(S) = F(S ∪ ij) − F(S ∪ i) − F(S ∪ j) + F(S):
positive where they strengthen each other, negative where one makes the other redundant. `pairs_in_text`
reads it at the whole text, `interaction_index` as its mean over all coalitions S with Shapley's weights.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import factorial

import numpy as np

from slalom.errors import InputError
from slalom.shapley import EXACT, legendre, quadrature, step_of
from slalom.surrogate import Additive, Heads, Slalom, Surrogate
from slalom.tokens import FloatArray, IntArray

_ROWS = 4096
"""Copies that are predicted at once."""
_MOST_ENUMERATED = 12
_MOST_PAIRED = 100
"""Positions of a long text among which pairs are looked for."""


def interactions(surrogate: Heads | Slalom | Additive) -> FloatArray:
    """(n, n) Shapley interaction index of every pair of positions of a text, in units of the output.

    Heads below a ceiling are read as their Shapley values are: their sum, scaled to the output. Nothing works
    together in an additive model.
    """
    if isinstance(surrogate, Additive):
        return np.zeros((len(surrogate.weights),) * 2)
    parts = surrogate.parts if isinstance(surrogate, Heads) else (surrogate,)
    scale = surrogate.scale() if isinstance(surrogate, Heads) else np.ones(1)
    found = [
        interaction_index(part.importances, part.values, part.background_importance, part.background_value)
        for part in parts
    ]
    return (scale * np.sum(found, axis=0))[:, :, 0]


def interaction_index(
    importances: FloatArray,
    values: FloatArray,
    background_importance: float = -np.inf,
    background_value: FloatArray | float = 0.0,
) -> FloatArray:
    """(n, n, K) Σ_S |S|! (n−2−|S|)! / (n−1)! Δ_ij(S) over S without i and j; f(∅) as for Shapley values.

    In the notation of `shapley_values`, with r = x/q and b = v u e^{−u} / q²:

        I_ij = ∫ dlog t ∫ dp e^{−u_0} P { p r_i r_j Σ_k v_k u_k e^{−u_k} / q_k − b_i r_j − r_i b_j }
    """
    s, v = np.asarray(importances, dtype=float), np.asarray(values, dtype=float)
    v = v[:, None] if v.ndim == 1 else v
    n, outputs = v.shape
    s0, v0 = float(background_importance), np.broadcast_to(np.asarray(background_value, float), (outputs,))
    if not (np.isfinite(s).all() and np.isfinite(v).all() and s0 < np.inf):
        raise InputError("interactions need finite importances and values")
    result = np.zeros((n, n, outputs))
    if n < 2:
        return result
    # Without background a constant c added to all values takes c from every Δ_ij(∅), and changes no other.
    offset = v0 if s0 > -np.inf else v.mean(axis=0)
    levels, inverse, copies = np.unique(s, return_inverse=True, return_counts=True)
    for u, u0, m in quadrature(levels, copies, s0):
        result += _integrate(u, u0, m, copies, inverse, v - offset)
    result *= step_of(EXACT)
    if s0 == -np.inf:
        result -= offset / (n - 1)
    result[np.arange(n), np.arange(n)] = 0.0
    return result


def _integrate(
    u: FloatArray, u0: FloatArray, m: int, copies: IntArray, inverse: IntArray, v: FloatArray
) -> FloatArray:
    """One chunk's part of the integral: (n, n, K)."""
    p, weight = legendre(m)
    q = 1 + p[:, None] * np.expm1(-u)[:, None, :]
    mass = (weight * np.exp(np.log(q) @ copies.astype(float) - u0[:, None])).ravel()
    q = q.reshape(len(mass), -1)
    fall = np.repeat(u * np.exp(-u), m, axis=0)
    ratio = (np.repeat(-np.expm1(-u), m, axis=0) / q)[:, inverse]
    own, own2 = (fall / q)[:, inverse], (fall / q**2)[:, inverse]
    load = mass * np.tile(p, len(u))
    found = np.empty((v.shape[0], *v.shape))
    for k in range(v.shape[1]):
        shared = ratio.T @ (ratio * (load * (own @ v[:, k]))[:, None])
        crossed = (own2 * v[:, k]).T @ (ratio * mass[:, None])
        found[:, :, k] = shared - crossed - crossed.T
    return found


def pairs_in_text(surrogate: Surrogate, n: int, among: IntArray | None = None) -> FloatArray:
    """(m, m) F(t) − F(t without i) − F(t without j) + F(t without both), as the surrogate predicts them.

    i and j are the m positions in `among`, by default all of the n.
    """
    places = np.arange(n) if among is None else np.asarray(among)
    whole = surrogate.predict(np.ones((1, n)))[0, 0]
    single = _predicted(surrogate, n, places[:, None])
    rows, columns = np.triu_indices(len(places), 1)
    result = np.zeros((len(places),) * 2)
    if len(rows):
        both = _predicted(surrogate, n, np.column_stack([places[rows], places[columns]]))
        result[rows, columns] = whole - single[rows] - single[columns] + both
    return result + result.T


def strongest_pairs(matrix: FloatArray, count: int) -> list[tuple[int, int, float]]:
    """The `count` pairs (i < j) with the largest absolute interaction."""
    rows, columns = np.triu_indices(len(matrix), 1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:count]
    return [(int(rows[k]), int(columns[k]), float(matrix[rows[k], columns[k]])) for k in order]


def strongest_in_text(surrogate: Surrogate, sizes: FloatArray, count: int) -> list[tuple[int, int, float]]:
    """The `count` strongest pairs at the whole text, among the positions of the largest `sizes` (n,).

    None where two tokens are all there is, and none in an additive surrogate: what its predictions leave of a
    pair is rounding.
    """
    if len(sizes) < 3 or isinstance(surrogate, Additive):  # without both of two nothing is left
        return []
    among = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_PAIRED])
    pairs = strongest_pairs(pairs_in_text(surrogate, len(sizes), among), count)
    return [(int(among[i]), int(among[j]), together) for i, j, together in pairs]


def by_enumeration(worth: Callable[[FloatArray], FloatArray], n: int) -> FloatArray:
    """(n, n) the interaction index of any game by its defining sum over all coalitions.

    `worth` gives the (2ⁿ,) worth of the coalitions in the rows of a (2ⁿ, n) boolean matrix.
    """
    if not 0 < n <= _MOST_ENUMERATED:
        raise InputError(f"all coalitions can be enumerated for up to {_MOST_ENUMERATED} tokens; got {n}")
    masks = np.array(list(product([False, True], repeat=n)))
    values = np.asarray(worth(masks), dtype=float)
    bits = 2 ** np.arange(n)[::-1]
    weights = np.array([factorial(k) * factorial(n - 2 - k) / factorial(n - 1) for k in range(n - 1)])
    result = np.zeros((n, n))
    for i, j in zip(*np.triu_indices(n, 1), strict=True):
        free = np.flatnonzero(~masks[:, i] & ~masks[:, j])
        change = values[free + bits[i] + bits[j]] - values[free + bits[i]] - values[free + bits[j]]
        result[i, j] = result[j, i] = weights[masks[free].sum(axis=1)] @ (change + values[free])
    return result


def _predicted(surrogate: Surrogate, n: int, gone: IntArray) -> FloatArray:
    """(N,) the surrogate's answers without the positions in each row of `gone`."""
    found: list[FloatArray] = []
    for start in range(0, len(gone), _ROWS):
        part = gone[start : start + _ROWS]
        counts = np.ones((len(part), n))
        counts[np.arange(len(part))[:, None], part] = 0.0
        found.append(surrogate.predict(counts)[:, 0])
    return np.concatenate(found)
