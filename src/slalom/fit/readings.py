"""What a fitted SLALOM says about one text, with standard errors by the delta method (maths 2, 3c)."""

from __future__ import annotations

import numpy as np

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
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    alpha, share = surrogate.shares(np.arange(n))
    alpha = np.append(alpha, share)
    values = np.append(surrogate.values[:, 0], surrogate.background_value[0])
    return {
        "value": spread[n + 1 : 2 * n + 1],
        "importance": spread[:n],
        "linear": _propagate(_linear_slopes(alpha, values), covariance),
    }


def removal_error(surrogate: Slalom, covariance: FloatArray) -> FloatArray:
    """Standard error of the removals where only the values (background last) are uncertain."""
    alpha, share = surrogate.shares(np.arange(len(surrogate.importances)))
    alpha = np.append(alpha, share)
    rest = np.maximum(1.0 - alpha[:-1], np.finfo(float).eps)
    slopes = (alpha[:-1] / rest)[:, None] * (np.eye(len(rest), len(alpha)) - alpha)
    return _propagate(slopes, covariance)


def _propagate(slopes: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(((slopes @ covariance) * slopes).sum(axis=1), 0.0))


def _linear_slopes(alpha: FloatArray, values: FloatArray) -> FloatArray:
    """∂(α_i v_i)/∂(s, v): α_i v_i (δ_ij − α_j) and α_i δ_ij."""
    n = len(alpha) - 1
    unit = np.eye(n, n + 1)
    by_s = (alpha * values)[:n, None] * (unit - alpha)
    return np.hstack([by_s, alpha[:n, None] * unit])
