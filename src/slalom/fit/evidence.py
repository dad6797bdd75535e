"""Noise and prior variances from the data themselves: MacKay's fixed point of the evidence."""

from __future__ import annotations

import numpy as np

from slalom.fit.normal import Point, Posterior, Problem, Variances

_NOISE_FLOOR = 1e-14
"""Of the variance of the outputs: what counts as no noise at all."""


def initial(problem: Problem) -> Variances:
    """A tenth of the outputs' variance is noise."""
    scale = float(problem.outputs.var())
    return Variances(0.1 * scale, 1.0, scale)


def reestimate(problem: Problem, variances: Variances, point: Point, spread: Posterior) -> Variances:
    """One step: variances from residuals and parameters, corrected for the posterior spread.

    A parameter is determined by the data as far as its posterior variance is below the prior's.
    """
    known_s = len(point.s) - float(np.diag(spread.ss)[:-1].sum()) / variances.s
    variance_v = np.sum([np.diag(vv) for vv in spread.vv], axis=0)
    known_v = point.v.shape[1] - variance_v / variances.v
    around = float(((point.v - problem.centre)[:-1] ** 2).sum())
    new_s = np.clip(float(point.s @ point.s) / max(known_s, 1e-3), 1e-4, 1e3)
    new_v = np.clip(around / max(known_v[:-1].sum(), 1e-3), 1e-6 * variances.v, 1e6 * variances.v)
    size, left = point.residuals.size, float((point.residuals**2).sum())
    free = max(size - known_s - known_v.sum() - problem.background, 0.1 * size)
    noise = max(left / free, _NOISE_FLOOR * float(problem.outputs.var()))
    return Variances(noise, float(new_s), float(new_v))
