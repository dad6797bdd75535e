"""The second look (maths 3e): what the tokens do in the whole text, given how they weigh in excerpts of it.

The importances are those of the excerpts, drawn together to their mean unless the copies clearly speak for
them as they are: no token rules a whole text as it rules five words, and with a share close to one every
prediction without it would be a leap. The values are read again from copies with a few tokens left out:
v' = κ + ρ v + δ, where κ and ρ are the text's own shift and gain (a confident model answers a whole text
with less movement than its excerpts) and δ a deviation of every token, as large as the queries demand.
With the importances fixed all of this is linear, and the ridge on δ follows from restricted likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from slalom.surrogate import Slalom
from slalom.tokens import FloatArray

_SHARE_POWER = 0.5
"""δ has prior variance ∝ share^(−2 · power): 0 is equal values, 1 equal effects; one half did best (docs)."""
_DRAWN_TOGETHER = 0.6
"""What is left of the importances' differences. Without it, single documents were predicted worse than by no
change at all (docs/design-study.md)."""
_CLEARLY = 0.8
"""As they are, importances must have this share of the left-out squared error, or less."""
_LOWEST = -30.0
"""A background that weighs nothing, in units of importance below the mean."""
_RIDGES = np.geomspace(1e-6, 1e3, 73)
"""Of the largest squared singular value."""


@dataclass(frozen=True, eq=False)
class InContext:
    """A SLALOM for the neighbourhood of the whole text."""

    surrogate: Slalom
    covariance: FloatArray
    """(K, units + 1, units + 1) of the values, the background last; importances are taken as given."""
    left_out: FloatArray
    """(N, K) the error on each query when it is left out of the fit."""


def look(surrogate: Slalom, counts: FloatArray, outputs: FloatArray) -> InContext:
    """The second look, with the importances as they are or drawn together."""
    as_they_are = fit(surrogate, counts, outputs)
    together = fit(_drawn_together(surrogate), counts, outputs)
    errors = [float((found.left_out**2).sum()) for found in (as_they_are, together)]
    return as_they_are if errors[0] <= _CLEARLY * errors[1] else together


def _drawn_together(surrogate: Slalom) -> Slalom:
    mean = float(surrogate.importances.mean())
    background = max(surrogate.background_importance - mean, _LOWEST)
    nearer = mean + _DRAWN_TOGETHER * (surrogate.importances - mean)
    if background > _LOWEST:  # no background stays no background
        background *= _DRAWN_TOGETHER
    return Slalom(surrogate.values, nearer, surrogate.background_value, mean + background)


def fit(surrogate: Slalom, counts: FloatArray, outputs: FloatArray) -> InContext:
    """Reads the values of `surrogate` again from queries near the whole text (counts over its units)."""
    shares, excerpt = _shares(surrogate, counts), surrogate.predict(counts)
    scale = _prior_scale(surrogate)
    values, covariances, errors = [], [], []
    for k in range(outputs.shape[1]):
        fixed = np.column_stack([np.ones(len(counts)), excerpt[:, k]])
        mean, covariance, left_out = _ridge(fixed, shares[:, :-1] * scale, outputs[:, k])
        errors.append(left_out)
        # values' = lift @ (κ, ρ, δ): the background takes part in shift and gain only
        own = np.append(surrogate.values[:, k], surrogate.background_value[k])
        lift = np.column_stack([np.ones(len(own)), own, np.vstack([np.diag(scale), np.zeros(len(scale))])])
        values.append(lift @ mean)
        covariances.append(lift @ covariance @ lift.T)
    stacked, left_out = np.stack(values, axis=1), np.stack(errors, axis=1)
    if np.allclose(outputs.sum(axis=1), 0.0, atol=1e-9 * np.abs(outputs).max()):
        # exclusive classes (maths 1a): their values sum to zero, which a ridge for each of them does not see
        stacked -= stacked.mean(axis=1, keepdims=True)
        left_out -= left_out.mean(axis=1, keepdims=True)
    result = Slalom(stacked[:-1], surrogate.importances, stacked[-1], surrogate.background_importance)
    return InContext(result, np.stack(covariances), left_out)


def _shares(surrogate: Slalom, counts: FloatArray) -> FloatArray:
    """(N, units + 1) softmax shares, the background last."""
    top = max(surrogate.importances.max(), surrogate.background_importance)
    weights = np.exp(np.append(surrogate.importances, surrogate.background_importance) - top)
    mass = np.column_stack([counts, np.ones(len(counts))]) * weights
    return mass / mass.sum(axis=1, keepdims=True)


def _prior_scale(surrogate: Slalom) -> FloatArray:
    centred = surrogate.importances - surrogate.importances.mean()
    return np.exp(-_SHARE_POWER * np.clip(centred, -10.0, 10.0))


def _ridge(
    fixed: FloatArray, penalised: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and covariance of the coefficients, and the leave-one-out errors; the ridge maximises the
    restricted likelihood."""
    basis, gauge = _orthonormal(fixed)
    inner = penalised - basis @ (basis.T @ penalised)
    rest = y - basis @ (basis.T @ y)
    left, singular, right = linalg.svd(inner, full_matrices=False, check_finite=False)
    target = left.T @ rest
    outside = max(float(rest @ rest - target @ target), 0.0)
    free = max(len(y) - basis.shape[1], 1)
    # where the fixed part leaves nothing to see, only rounding is left of the singular values
    top = max(float(singular.max(initial=0.0)) ** 2, np.finfo(float).eps * float((penalised**2).sum()))
    ridge, noise = _restricted_likelihood(singular, target, outside, free, _RIDGES * top)
    delta = right.T @ (singular / (singular**2 + ridge) * target)
    head = gauge @ (basis.T @ (y - penalised @ delta))
    # posterior covariance of δ, and of the fixed part given δ
    shrink = 1.0 / (singular**2 + ridge) - 1.0 / ridge
    cov_delta = noise * (np.eye(len(delta)) / ridge + (right.T * shrink) @ right)
    follow = -gauge @ (basis.T @ penalised)
    cov_head = noise * gauge @ gauge.T + follow @ cov_delta @ follow.T
    cross = follow @ cov_delta
    kept = singular**2 / (singular**2 + ridge)
    leverage = (basis**2).sum(axis=1) + (left**2) @ kept
    left_out = (rest - left @ (kept * target)) / np.maximum(1.0 - leverage, 1e-6)
    return np.r_[head, delta], np.block([[cov_head, cross], [cross.T, cov_delta]]), left_out


def _orthonormal(fixed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """An orthonormal basis of the columns and the map back to coefficients; a flat gain column drops."""
    left, singular, right = linalg.svd(fixed, full_matrices=False, check_finite=False)
    keep = singular > 1e-9 * singular[0]
    return left[:, keep], (right[keep].T / singular[keep])


def _restricted_likelihood(
    singular: FloatArray, target: FloatArray, outside: float, free: int, ridges: FloatArray
) -> tuple[float, float]:
    """The best of the ridges, and the noise variance that goes with it."""
    growth = 1.0 + singular[None, :] ** 2 / ridges[:, None]
    quadratic = (target**2 / growth).sum(axis=1) + outside
    floor = np.finfo(float).tiny
    deviance = free * np.log(np.maximum(quadratic, floor)) + np.log(growth).sum(axis=1)
    best = int(np.argmin(deviance))
    return float(ridges[best]), float(quadratic[best]) / free
