"""Noise and prior variances from the data themselves: MacKay's fixed point of the evidence."""

from __future__ import annotations

import numpy as np

from slalom.fit.normal import Curvature, Point, Posterior, Problem, Variances
from slalom.tokens import FloatArray

_NOISE_RATIO = 10.0
"""No group of queries may count more than this many times as much as another (in variance)."""
_NOISE_FLOOR = 1e-14
"""Of the variance of the outputs: what counts as no noise at all."""


def initial(problem: Problem) -> Variances:
    """A tenth of the outputs' variance is noise; deviations are a tenth of what they deviate from."""
    scale = float(np.concatenate(problem.outputs).var())
    strength = np.where(problem.ties.centred, 1.0, 0.1)
    return Variances(np.full(len(problem.rows), 0.1 * scale), strength, strength * scale)


def reestimate(
    problem: Problem, variances: Variances, point: Point, system: Curvature, spread: Posterior
) -> Variances:
    """One step: variances from residuals and parameters, corrected for the posterior spread."""
    new_s, new_v = variances.s.copy(), variances.v.copy()
    variance_v = np.sum([np.diag(vv) for vv in spread.vv], axis=0)
    for b in range(len(problem.ties.centred)):
        own = np.flatnonzero(problem.ties.blocks == b)
        free = len(own) - np.diag(spread.ss)[own].sum() / variances.s[b]
        new_s[b] = np.clip((point.s[own] ** 2).sum() / max(free, 1e-3), 1e-4, 1e3)
        free = point.v.shape[1] * len(own) - variance_v[own].sum() / variances.v[b]
        around = ((point.v[own] - problem.centre[own]) ** 2).sum()
        new_v[b] = np.clip(around / max(free, 1e-3), 1e-6 * variances.v[0], 1e6 * variances.v[0])
    return Variances(_noise(problem, variances, point, system, spread), new_s, new_v)


def _noise(
    problem: Problem, variances: Variances, point: Point, system: Curvature, spread: Posterior
) -> FloatArray:
    """Residual variance of every group, corrected for the degrees of freedom that it has used."""
    ties = problem.ties
    ss = ties.outside(spread.ss)
    sv = [ties.outside(m) for m in spread.sv]
    vv = [ties.outside(m) for m in spread.vv]
    noise = np.empty(len(problem.rows))
    for g, (rows, grams) in enumerate(zip(problem.rows, system.grams, strict=True)):
        block = np.ix_(rows.active, rows.active)
        used = 0.0
        for k in range(len(vv)):
            used += float((grams.ss[k] * ss[block]).sum() + (grams.vv * vv[k][block]).sum())
            used += 2.0 * float((grams.sv[k] * sv[k][block]).sum())
        size = point.residuals[g].size
        free = max(size - used / variances.noise[g], 0.1 * size)
        noise[g] = (point.residuals[g] ** 2).sum() / free
    floor = _NOISE_FLOOR * float(np.concatenate(problem.outputs).var())
    return np.maximum(np.maximum(noise, noise.max() / _NOISE_RATIO), floor)
