"""What a fitted SLALOM says about one text, with standard errors by the delta method (maths 2, 3c, 3h).

Slopes are by (importances, values, log of the ceiling) of one output: heads one after the other, units and
the background last in each; without a ceiling the last column is missing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from slalom.surrogate import Heads, Slalom
from slalom.tokens import FloatArray


def scores(surrogate: Slalom) -> dict[str, FloatArray]:
    """The readings of a one-output SLALOM whose units are the positions of the text."""
    positions = np.arange(len(surrogate.importances))
    return {
        "value": surrogate.values[:, 0],
        "importance": surrogate.importances,
        "share": surrogate.linear(positions)[:, 0],
        "removal": surrogate.removal(positions)[:, 0],
        "shapley": surrogate.shapley(positions)[:, 0],
    }


def output_slopes(surrogate: Heads, counts: FloatArray) -> FloatArray:
    """(N, P) of the outputs for bags of tokens (N × n)."""
    by_s, by_v = [], []
    level = np.zeros(len(counts))
    for part in surrogate.parts:
        s, v = _with_background(part)
        mass = np.column_stack([counts, np.ones(len(counts))]) * np.exp(s - s.max())
        share = mass / mass.sum(axis=1, keepdims=True)
        told = share @ v
        by_s.append(share * (v - told[:, None]))
        by_v.append(share)
        level += told
    slopes = np.hstack(by_s + by_v)
    if surrogate.ceiling is None:
        return slopes
    t = np.tanh(level / surrogate.ceiling[0])
    bend = surrogate.ceiling[0] * t - level * (1.0 - t**2)
    return np.column_stack([slopes * (1.0 - t**2)[:, None], bend])


def importance_slopes(surrogate: Heads, centre: FloatArray) -> FloatArray:
    """(n, P) of the importances; `centre` (n,) are the weights of their mean, which is fixed."""
    n, unit = len(surrogate), np.eye(len(surrogate), len(surrogate) + 1)
    alphas = np.stack([np.append(*part.shares(np.arange(n))) for part in surrogate.parts])
    if len(alphas) == 1:  # then they are parameters themselves
        by_s = unit
    else:
        own = alphas[:, :n] / alphas[:, :n].sum(axis=0)
        by_s = np.hstack([part[:, None] * (unit - alpha) for part, alpha in zip(own, alphas, strict=True)])
    rest = np.zeros((n, alphas.size + (surrogate.ceiling is not None)))
    return np.hstack([by_s - centre @ by_s, rest])


def share_slopes(surrogate: Heads) -> FloatArray:
    """(n, P) of the shares: ∂(α_i v_i)/∂s_j = α_i v_i (δ_ij − α_j) and ∂(α_i v_i)/∂v_j = α_i δ_ij."""
    n = len(surrogate)
    unit, by_s, by_v = np.eye(n, n + 1), [], []
    for part in surrogate.parts:
        shares, rest = part.shares(np.arange(n))
        by_s.append((shares * part.values[:, 0])[:, None] * (unit - np.append(shares, rest)))
        by_v.append(shares[:, None] * unit)
    slopes = np.hstack(by_s + by_v)
    if surrogate.ceiling is None:
        return slopes
    # below a ceiling they are scaled by y / Σ_h F_h, which moves, too
    text, linear, scale = np.ones((1, n)), replace(surrogate, ceiling=None, near=None), surrogate.scale()
    level = float((linear.predict(text) - linear.offset)[0, 0])
    moved = output_slopes(surrogate, text) - scale * np.append(output_slopes(linear, text), 0.0)
    return scale * np.column_stack([slopes, np.zeros(n)]) + linear.shares() * moved / (level or 1.0)


def order_certainty(scores: FloatArray, covariance: FloatArray) -> float:
    """The probability that the order of two scores is right, on average over pairs (1 where none differ)."""
    i, j = np.triu_indices(len(scores), 1)
    gap = np.abs(scores[i] - scores[j])
    i, j, gap = i[gap > 0], j[gap > 0], gap[gap > 0]
    if len(gap) == 0:
        return 1.0
    spread = root(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j])
    return float(ndtr(gap / np.maximum(spread, np.finfo(float).tiny)).mean())


def root(variance: FloatArray) -> FloatArray:
    """Standard errors; rounding below zero is zero."""
    return np.sqrt(np.maximum(variance, 0.0))


def _with_background(part: Slalom) -> tuple[FloatArray, FloatArray]:
    s0 = max(part.background_importance, part.importances.max() - 700.0)
    return np.append(part.importances, s0), np.append(part.values[:, 0], part.background_value[0])
