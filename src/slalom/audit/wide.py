"""SLALOM over very many token types (maths 3c): Gauss–Newton by conjugate gradients, ridge from data.

The exact solver's matrix over all types ends at a few thousand. Here importances and values move together by
damped Gauss–Newton steps, each a sparse system; then the values are solved for once more.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from slalom.audit.wide_system import (
    MOST,
    TOLERANCE,
    Data,
    PosteriorSpread,
    Prior,
    WidePoint,
    best_values,
    blocks,
    gradient,
    objective,
    point,
    reestimate,
    solve,
    spread,
    system,
)
from slalom.errors import FitError, InputError
from slalom.fit import problem
from slalom.surrogate import Counts, Slalom
from slalom.tokens import FloatArray

_MAX_ITERATIONS = 60
_WARM_UP = 2
"""Steps before the variances are first estimated."""
_EXACT = 1e-24
"""Of the outputs' squares: what is left when a SLALOM is described to the last digits."""
_LARGEST_STEP = 3.0
_HEAVIEST = 1e4
"""Of a background, in weights of an average token."""
_PROBES = 4
"""Random probes behind an estimate of the degrees of freedom while the fit goes on …"""
_SAMPLES = 32
"""… and behind the standard errors at its end."""


@dataclass(frozen=True, eq=False)
class WideFit:
    """A SLALOM over d types and K outputs, and how the fit went."""

    surrogate: Slalom
    importance_stderr: FloatArray
    """(d,)"""
    value_stderr: FloatArray
    """(d, K)"""
    covariance: FloatArray
    """(d, K) of a type's importance with its values."""
    noise: float
    """Standard deviation of what the SLALOM leaves unexplained."""
    freedom: float
    """Effective number of parameters."""
    iterations: int
    status: str


def fit(counts: Counts, outputs: FloatArray, *, background: bool = True, seed: int = 0) -> WideFit:
    """The SLALOM that fits the queries best; counts are (N × d), outputs (N,) or (N × K).

    Standard errors come from samples of the Gauss–Newton posterior (`wide_system.spread`); `seed` is theirs.
    """
    rows, matrix, _ = problem(counts, outputs)
    rows = sparse.csr_array(rows, dtype=float)
    rows.eliminate_zeros()
    lengths = np.diff(rows.indptr)
    if lengths.min() == 0:
        raise InputError("every query needs tokens; a query without any has no value under SLALOM")
    data = Data(rows, matrix, np.repeat(np.arange(len(matrix)), lengths))
    if np.ptp(matrix, axis=0).max() <= 1e-12 * np.abs(matrix).max():
        return _constant(data)
    try:
        at, prior, iterations, status = _iterate(data, background, seed)
        found = spread(data, at, prior, _free(at, background), _SAMPLES, np.random.default_rng(seed))
    except FloatingPointError as error:
        raise FitError(f"the surrogate cannot be fitted to these answers: {error}") from error
    return _result(at, prior, found, iterations, status)


def _result(at: WidePoint, prior: Prior, found: PosteriorSpread, iterations: int, status: str) -> WideFit:
    w0 = float(at.parameters[-1, 0])
    s0 = float(np.log(w0)) if w0 > 0 else -np.inf
    surrogate = Slalom(at.values[:-1], at.parameters[:-1, 0], at.values[-1], s0).normalised()
    k = at.values.shape[1]
    return WideFit(
        surrogate,
        np.sqrt(found.variance[:-1, 0]),
        np.sqrt(found.variance[:-1, 1 : 1 + k]),
        found.variance[:-1, 1 + k :],
        float(np.sqrt(prior.noise)),
        found.freedom,
        iterations,
        status,
    )


def _constant(data: Data) -> WideFit:
    d, k = (data.counts.shape or (0, 0))[1], data.outputs.shape[1]
    surrogate = Slalom(np.tile(data.outputs.mean(axis=0), (d, 1)), np.zeros(d))
    zero = np.zeros((d, k))
    return WideFit(surrogate, np.zeros(d), zero, zero, 0.0, 0.0, 0, "constant")


def _iterate(data: Data, background: bool, seed: int) -> tuple[WidePoint, Prior, int, str]:
    variance = float(data.outputs.var())
    prior = Prior(0.1 * variance, 1.0, variance, data.outputs.mean(axis=0))
    start = np.zeros(((data.counts.shape or (0, 0))[1] + 1, 1 + data.outputs.shape[1]))
    start[:, 1:] = prior.centre
    start[-1, 0] = 0.1 if background else 0.0
    at = best_values(data, prior, point(data, start))
    damping, rng = 1e-2, np.random.default_rng(seed)
    for iteration in range(1, _MAX_ITERATIONS + 1):
        if iteration > _WARM_UP:
            found = spread(data, at, prior, _free(at, background), _PROBES, rng, tolerance=0.05)
            prior = reestimate(data, at, prior, found)
        before = at
        at, damping = _step(data, prior, at, background, damping)
        if iteration > _WARM_UP + 2 and _settled(data, before, at):
            return at, prior, iteration, "converged"
    return at, prior, _MAX_ITERATIONS, "max_iterations"


def _free(at: WidePoint, background: bool, slope: FloatArray | None = None) -> FloatArray:
    """Which parameters may move: no background, or one of weight zero that would go below it, stays."""
    free = np.ones((*at.parameters.shape, 1))
    if not background:
        free[-1] = 0.0
    elif at.parameters[-1, 0] <= 0.0 and (slope is None or slope[-1, 0, 0] <= 0.0):
        free[-1, 0] = 0.0
    return free


def _step(
    data: Data, prior: Prior, at: WidePoint, background: bool, damping: float
) -> tuple[WidePoint, float]:
    """A damped step that lowers the objective; where none does, the values alone."""
    now, slope = objective(data, prior, at), gradient(data, prior, at)
    free = _free(at, background, slope)
    while damping < 1e8:
        own = blocks(at, prior, damping)
        step = solve(system(at, prior, damping, own), slope, own, free, TOLERANCE, MOST)[:, :, 0]
        trial = best_values(data, prior, point(data, _moved(at.parameters, step)))
        if objective(data, prior, trial) <= now:
            return trial, max(damping / 10.0, 1e-9)
        damping *= 10.0
    return best_values(data, prior, at), 1e-2


def _moved(parameters: FloatArray, step: FloatArray) -> FloatArray:
    longest = np.abs(step[:-1, 0]).max(initial=0.0)
    moved = parameters + step * min(1.0, _LARGEST_STEP / max(longest, 1e-300))
    moved[-1, 0] = np.clip(moved[-1, 0], 0.0, _HEAVIEST * np.exp(moved[:-1, 0].mean()))
    return moved


def _settled(data: Data, before: WidePoint, after: WidePoint) -> bool:
    left = float(((data.outputs - after.told) ** 2).sum())
    moved = float(((before.told - after.told) ** 2).sum())
    return moved <= 1e-4 * left or left <= _EXACT * float((data.outputs**2).sum())
