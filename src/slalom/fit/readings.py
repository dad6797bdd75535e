"""What a fitted SLALOM says about one text, with standard errors by the delta method (maths 2, 3c)."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from slalom.surrogate import Slalom
from slalom.tokens import FloatArray


def scores(surrogate: Slalom) -> dict[str, FloatArray]:
    """The readings of a one-output SLALOM whose units are the positions of the text."""
    positions = np.arange(len(surrogate.importances))
    return {
        "value": surrogate.values[:, 0],
        "importance": surrogate.importances,
        "linear": surrogate.linear(positions)[:, 0],
        "removal": surrogate.removal(positions)[:, 0],
        "shapley": surrogate.shapley(positions)[:, 0],
    }


def standard_errors(surrogate: Slalom, covariance: FloatArray) -> dict[str, FloatArray]:
    """Standard errors of value, importance and linear.

    `covariance` is over (importances, background's, values, background's) of the positions, with
    importances measured from where they are normalised.
    """
    n = len(surrogate.importances)
    spread = _root(np.diag(covariance))
    return {
        "value": spread[n + 1 : 2 * n + 1],
        "importance": spread[:n],
        "linear": _root(np.diag(linear_covariance(surrogate, covariance))),
    }


def linear_covariance(surrogate: Slalom, covariance: FloatArray) -> FloatArray:
    """(n, n) of the linear scores: ∂(α_i v_i)/∂s_j = α_i v_i (δ_ij − α_j) and ∂(α_i v_i)/∂v_j = α_i δ_ij."""
    n = len(surrogate.importances)
    shares, share = surrogate.shares(np.arange(n))
    alpha = np.append(shares, share)
    unit = np.eye(n, n + 1)
    by_s = (shares * surrogate.values[:, 0])[:, None] * (unit - alpha)
    slopes = np.hstack([by_s, shares[:, None] * unit])
    return slopes @ covariance @ slopes.T


def order_certainty(scores: FloatArray, covariance: FloatArray) -> float:
    """The probability that the order of two scores is right, on average over pairs (1 where none differ)."""
    i, j = np.triu_indices(len(scores), 1)
    gap = np.abs(scores[i] - scores[j])
    i, j, gap = i[gap > 0], j[gap > 0], gap[gap > 0]
    if len(gap) == 0:
        return 1.0
    spread = _root(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j])
    return float(ndtr(gap / np.maximum(spread, np.finfo(float).tiny)).mean())


def removal_error(surrogate: Slalom, covariance: FloatArray) -> FloatArray:
    """Standard error of the removals where only the values (background last) are uncertain."""
    alpha, share = surrogate.shares(np.arange(len(surrogate.importances)))
    alpha = np.append(alpha, share)
    rest = np.maximum(1.0 - alpha[:-1], np.finfo(float).eps)
    slopes = (alpha[:-1] / rest)[:, None] * (np.eye(len(rest), len(alpha)) - alpha)
    return _root(((slopes @ covariance) * slopes).sum(axis=1))


def _root(variance: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(variance, 0.0))
