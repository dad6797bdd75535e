"""Noise and prior variances from the data themselves: MacKay's fixed point of the evidence."""

from __future__ import annotations

import numpy as np

from slalom.fit.normal import Point, Posterior, Problem, Variances, value_precision

_NOISE_FLOOR = 1e-14
"""Of the variance of the outputs: what counts as no noise at all."""


def initial(problem: Problem) -> Variances:
    """A tenth of the outputs' variance is noise; deviations are a tenth of what they deviate from."""
    scale = float(problem.outputs.var())
    strength = np.where(problem.ties.centred, 1.0, 0.1)
    return Variances(0.1 * scale, strength, strength * scale)


def reestimate(problem: Problem, variances: Variances, point: Point, spread: Posterior) -> Variances:
    """One step: variances from residuals and parameters, corrected for the posterior spread.

    A parameter is determined by the data as far as its posterior variance is below the prior's.
    """
    new_s, new_v = variances.s.copy(), variances.v.copy()
    known_s = 1.0 - np.diag(spread.ss)[:-1] / variances.s[problem.ties.blocks]
    variance_v = np.sum([np.diag(vv) for vv in spread.vv], axis=0)
    known_v = point.v.shape[1] - variance_v * value_precision(problem, variances)
    for b in range(len(problem.ties.centred)):
        own = np.flatnonzero(problem.ties.blocks == b)
        new_s[b] = np.clip((point.s[own] ** 2).sum() / max(known_s[own].sum(), 1e-3), 1e-4, 1e3)
        around = ((point.v[own] - problem.centre[own]) ** 2).sum()
        new_v[b] = np.clip(
            around / max(known_v[own].sum(), 1e-3), 1e-6 * variances.v[0], 1e6 * variances.v[0]
        )
    size, left = point.residuals.size, float((point.residuals**2).sum())
    free = max(size - known_s.sum() - known_v.sum() - problem.background, 0.1 * size)
    return Variances(max(left / free, _NOISE_FLOOR * float(problem.outputs.var())), new_s, new_v)
