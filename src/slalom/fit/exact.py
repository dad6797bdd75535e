"""The exact solver (maths 3c, 3e): Gauss–Newton on SLALOM with the values eliminated, ridge chosen from data.

One solver serves every design; the counts are over *units*, mostly token types. The noise variance and the
prior variances of importances and values are estimated from the same factorisation, so there is no knob to
turn.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from slalom.errors import FitError, InputError
from slalom.fit import Covariance, Fit, one_thread, outputs_matrix
from slalom.fit.linear import (
    Curvature,
    Point,
    Problem,
    Rows,
    Variances,
    cholesky,
    curvature,
    initial,
    objective,
    posterior,
    reestimate,
    solve_values,
)
from slalom.surrogate import Counts, Slalom
from slalom.tokens import FloatArray

_MAX_ITERATIONS = 60
_WARM_UP = 1
"""Steps before the variances are first estimated: from all-zero importances there is nothing to see."""
_AT_LEAST = 5
"""Steps, so that the variances have come to rest."""
_EXACT = 1e-24
"""Of the outputs' squares: what is left when a SLALOM is described to the last digits."""
_FLAT = 1e-12
"""Of the largest output: what differs by less differs by rounding."""
_WIDEST = 1e120
"""Squares of what is wider than this overflow."""
_HEAVIEST = 1e4
"""Of a background, in weights of an average token: an additive model would have it grow for ever."""
_FAINTEST = 6e-6
"""Of a background, in weights of an average token: below that it is none."""
_FELT = 0.1
"""Of the curvature: damping below this leaves a step nearly as it is, so there is no use in trying it."""
_LARGEST_STEP = 3.0
"""In units of importance; keeps the first steps inside what the linearisation can see."""


def fit(
    counts: Counts,
    outputs: FloatArray,
    *,
    background: bool = True,
    column: int = 0,
    gamma: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Fit[Slalom]:
    """The SLALOM that fits queries best (counts N × U, outputs N × K); the covariance is for output `column`.

    `check` is called at every step and may raise to end the work.
    """
    problem = _problem(counts, outputs, background)
    size, spread = np.abs(problem.outputs).max(), np.ptp(problem.outputs, axis=0).max()
    if size > _WIDEST:
        raise FitError(
            f"the model's answers go up to {size:.3g}, too far for a surrogate to be fitted to them"
        )
    if spread <= max(_FLAT * size, 1.0 / _WIDEST):
        return _constant(problem)
    try:
        with one_thread():
            point, variances, iterations, status = _iterate(problem, check)
            if point.w0 < _FAINTEST * float(np.exp(point.s.mean())):
                point = solve_values(problem, variances, point.s, 0.0)
            covariance = _covariance(problem, variances, point, column)
    except linalg.LinAlgError as error:
        raise FitError(f"the surrogate cannot be fitted to these answers: {error}") from error
    s0 = float(np.log(point.w0)) if point.w0 > 0 else -np.inf
    surrogate = Slalom(point.v[:-1], point.s, point.v[-1], s0).normalised(gamma)
    return Fit(surrogate, covariance, float((point.residuals**2).mean()), iterations, status)


def _problem(counts: Counts, outputs: FloatArray, background: bool) -> Problem:
    n, units = counts.shape or (0, 0)
    if n == 0 or not np.all(counts.sum(axis=1) > 0):
        raise InputError(f"a fit needs queries with tokens in them; got {n} queries over {units} units")
    return Problem(Rows.of(counts), outputs_matrix(outputs, n, "queries"), background)


def _constant(problem: Problem) -> Fit[Slalom]:
    """All outputs are the same: every value is that output, and importances have nothing to weigh."""
    values = np.tile(problem.outputs.mean(axis=0), (problem.n_units, 1))
    zero = np.zeros((problem.n_units + 1, problem.n_units + 1))
    covariance = Covariance(zero, zero, zero, 0.0)
    return Fit(Slalom(values, np.zeros(problem.n_units)), covariance, 0.0, 0, "constant")


def _iterate(problem: Problem, check: Callable[[], None]) -> tuple[Point, Variances, int, str]:
    variances = initial(problem)
    start = 0.1 if problem.background else 0.0
    point = solve_values(problem, variances, np.zeros(problem.n_units), start)
    damping = 1e-2
    for iteration in range(1, _MAX_ITERATIONS + 1):
        check()
        system = curvature(problem, variances, point)
        if iteration > _WARM_UP:
            variances = reestimate(problem, variances, point, posterior(point, system))
        before = point
        point, damping = _step(problem, variances, point, system, damping)
        if iteration >= _AT_LEAST and _settled(problem, before, point):
            return point, variances, iteration, "converged"
    return point, variances, _MAX_ITERATIONS, "max_iterations"


def _step(
    problem: Problem, variances: Variances, point: Point, system: Curvature, damping: float
) -> tuple[Point, float]:
    """A damped Gauss–Newton step on the importances; one that would not help is not made."""
    now = objective(problem, variances, point)
    schur, gradient = _free(point, system)
    while damping < 1e8:
        diagonal = np.maximum(np.diag(schur), 1e-12)
        factor = cholesky(schur, damping * diagonal)
        step = linalg.cho_solve(factor, gradient, check_finite=False)
        step *= min(1.0, _LARGEST_STEP / max(np.abs(step[:-1]).max(initial=0.0), 1e-300))
        s = point.s + step[:-1]
        heaviest = _HEAVIEST * float(np.exp(s.mean()))
        trial = solve_values(problem, variances, s, float(np.clip(point.w0 + step[-1], 0.0, heaviest)))
        if objective(problem, variances, trial) <= now:
            return trial, max(damping / 10.0, 1e-9)
        damping = max(10.0 * damping, _FELT)
    return solve_values(problem, variances, point.s, point.w0), 1e-2


def _free(point: Point, system: Curvature) -> tuple[FloatArray, FloatArray]:
    """The system of what may move: a background of weight zero that would go below it stays where it is."""
    if point.w0 > 0.0 or system.gradient[-1] >= 0.0:
        return system.schur, system.gradient
    schur, gradient = system.schur.copy(), system.gradient.copy()
    schur[-1, :-1], schur[:-1, -1], gradient[-1] = 0.0, 0.0, 0.0
    return schur, gradient


def _settled(problem: Problem, before: Point, after: Point) -> bool:
    """Whether what is predicted moved by less than a twentieth of what is left unexplained, or nothing is.

    A SLALOM may be the exact description, if there are answers enough to tell: where less than a tenth is
    left, the steps go on until that shows.
    """
    moved = float(((before.residuals - after.residuals) ** 2).sum())
    left, outputs, strictness = float((after.residuals**2).sum()), problem.outputs, 1.0
    if len(outputs) >= 2 * problem.n_units:
        strictness = min(1.0, 10.0 * left / float(((outputs - outputs.mean(axis=0)) ** 2).sum())) ** 2
    return left <= _EXACT * float((outputs**2).sum()) or moved <= 3e-3 * left * strictness


def _covariance(problem: Problem, variances: Variances, point: Point, column: int) -> Covariance:
    spread = posterior(point, curvature(problem, variances, point))
    scale = np.ones(len(spread.ss))
    scale[-1] = 1.0 / point.w0 if point.w0 > 0 else 0.0  # from w0 to log w0
    ss, sv = spread.ss * np.outer(scale, scale), scale[:, None] * spread.sv[column]
    return Covariance(ss, sv, spread.vv[column], variances.noise)
