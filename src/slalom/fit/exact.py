"""The exact solver (maths 3c, 3e): Gauss–Newton on SLALOM with the values eliminated, ridge chosen from data.

One solver serves every design. The counts are over *units* (token types, and positions where a design looks
at them one by one); parameters are tied to units by units = B θ, so that a position may deviate from its type.
Every group of queries has its own noise variance and every block of parameters its own prior variance;
all are estimated from the same factorisation (MacKay's evidence fixed point), so there is no knob to turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from slalom.fit.result import Fit
from slalom.fit.rows import Rows, layout
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray

_MAX_ROUNDS = 25
_STEPS_PER_ROUND = 2
_NOISE_RATIO = 100.0
"""No group of queries may count more than this many times as much as another (in variance)."""
_LARGEST_STEP = 3.0
"""In units of importance; keeps the first steps inside what the linearisation can see."""


@dataclass(frozen=True, eq=False)
class Group:
    """Queries of one kind, believed to be equally well described: counts over units and outputs (N × K)."""

    counts: FloatArray | sparse.csr_array
    outputs: FloatArray


@dataclass(frozen=True, eq=False)
class Ties:
    """How parameters make units: units = matrix @ θ, with a prior block for every parameter."""

    matrix: sparse.csr_array
    """(U, P)"""
    blocks: IntArray
    """(P,) parameters of one block share a prior variance for importances and one for values."""
    centred: tuple[bool, ...]
    """For every block, whether its values scatter around the mean output (types) or around zero (deviations)."""


def untied(n_units: int) -> Ties:
    """Every unit is its own parameter: the paper's SLALOM."""
    return Ties(sparse.eye_array(n_units, format="csr"), np.zeros(n_units, np.int64), (True,))


def two_levels(inverse: IntArray) -> Ties:
    """Units are d types followed by n positions; a position is its type plus a deviation (maths 3e)."""
    n, d = len(inverse), int(inverse.max()) + 1
    member = sparse.csr_array((np.ones(n), (np.arange(n), inverse)), shape=(n, d))
    matrix = sparse.block_array([[sparse.eye_array(d), None], [member, sparse.eye_array(n)]], format="csr")
    return Ties(matrix, np.r_[np.zeros(d, np.int64), np.ones(n, np.int64)], (True, False))


@dataclass(frozen=True, eq=False)
class _Problem:
    rows: list[Rows]
    outputs: list[FloatArray]
    ties: Ties
    lift: sparse.csr_array  # ties with one more row and column for the background
    centre: FloatArray  # (P + 1, K) prior means of the values
    background: bool


@dataclass(frozen=True, eq=False)
class _Variances:
    noise: FloatArray  # per group
    s: FloatArray  # per block
    v: FloatArray  # per block


@dataclass(frozen=True, eq=False)
class _Point:
    """A place in the space of importances with the values solved for, and what follows from them."""

    s: FloatArray  # (P,)
    w0: float  # weight of the background
    v: FloatArray  # (P + 1, K), the background last
    shares: list[FloatArray]
    masses: list[FloatArray]
    residuals: list[FloatArray]
    factor: tuple[FloatArray, bool]  # of H_vv
    objective: float


@dataclass(frozen=True, eq=False)
class _Curvature:
    """The normal equations of (s, w0) with the values eliminated."""

    schur: FloatArray
    gradient: FloatArray
    cross: list[FloatArray]  # per output: H_vv⁻¹ H_vs


def fit(
    groups: Sequence[Group],
    ties: Ties | None = None,
    *,
    background: bool = True,
    column: int = 0,
    gamma: float = 0.0,
) -> Fit[Slalom]:
    """The SLALOM over units that fits all groups of queries best, with the covariance for output `column`.

    The covariance is over (importances of the U units, of the background, values of the U units, of the
    background) of that output.
    """
    problem = _problem(groups, ties or untied(groups[0].counts.shape[1]), background)
    if np.ptp(np.concatenate(problem.outputs), axis=0).max() == 0.0:
        return _constant(problem)
    variances = _initial_variances(problem)
    point = _solve_values(problem, variances, np.zeros(len(problem.ties.blocks)), 0.1 if background else 0.0)
    damping, iterations, status = 1e-2, 0, "max_iterations"
    for _ in range(_MAX_ROUNDS):
        before = point
        point, damping, steps = _descend(problem, variances, point, damping)
        iterations += steps
        variances = _reestimate(problem, variances, point)
        point = _solve_values(problem, variances, point.s, point.w0)
        if _settled(before, point):
            status = "converged"
            break
    units = problem.lift @ point.v
    s0 = float(np.log(point.w0)) if point.w0 > 0 else -np.inf
    surrogate = Slalom(units[:-1], problem.ties.matrix @ point.s, units[-1], s0).normalised(gamma)
    loss = sum(float((r**2).sum()) for r in point.residuals) / sum(r.size for r in point.residuals)
    return Fit(surrogate, _covariance(problem, variances, point, column), loss, iterations, status)


def _problem(groups: Sequence[Group], ties: Ties, background: bool) -> _Problem:
    lift = sparse.block_array([[ties.matrix, None], [None, sparse.eye_array(1)]], format="csr")
    outputs = [np.asarray(g.outputs, dtype=float) for g in groups]
    centred = np.append(np.asarray(ties.centred)[ties.blocks], True)
    centre = np.where(centred[:, None], np.concatenate(outputs).mean(axis=0), 0.0)
    return _Problem([layout(g.counts) for g in groups], outputs, ties, lift, centre, background)


def _constant(problem: _Problem) -> Fit[Slalom]:
    """All outputs are the same: every value is that output, and importances have nothing to weigh."""
    n_units = problem.ties.matrix.shape[0]
    values = np.tile(problem.outputs[0][0], (n_units, 1))
    covariance = np.zeros((2 * n_units + 2, 2 * n_units + 2))
    return Fit(Slalom(values, np.zeros(n_units)), covariance, 0.0, 0, "constant")


def _initial_variances(problem: _Problem) -> _Variances:
    scale = max(float(np.concatenate(problem.outputs).var()), np.finfo(float).tiny)
    strength = np.where(problem.ties.centred, 1.0, 0.1)
    return _Variances(np.full(len(problem.rows), 0.1 * scale), strength, strength * scale)


def _solve_values(problem: _Problem, variances: _Variances, s: FloatArray, w0: float) -> _Point:
    """The values are linear: solve for them at these importances."""
    weights = np.append(np.exp(problem.ties.matrix @ s), w0)
    prior = 1.0 / np.append(variances.v[problem.ties.blocks], variances.v[0])
    gram = np.zeros((len(weights), len(weights)))
    pull = np.zeros((len(weights), problem.centre.shape[1]))
    shares, masses = [], []
    for rows, outputs, noise in zip(problem.rows, problem.outputs, variances.noise, strict=True):
        share, mass = rows.shares(weights)
        gram += rows.gram(share, share) / noise
        pull += rows.pull(share, outputs) / noise
        shares.append(share)
        masses.append(mass)
    h_vv = _sandwich(problem.lift, gram)
    h_vv[np.diag_indices_from(h_vv)] += prior
    factor = linalg.cho_factor(h_vv, lower=True, check_finite=False, overwrite_a=True)
    right = prior[:, None] * problem.centre + problem.lift.T @ pull
    v = linalg.cho_solve(factor, right, check_finite=False)
    units = problem.lift @ v
    residuals = [
        y - rows.times(share, units)
        for rows, y, share in zip(problem.rows, problem.outputs, shares, strict=True)
    ]
    objective = (
        sum(float((r**2).sum()) / noise for r, noise in zip(residuals, variances.noise, strict=True))
        + float((prior[:, None] * (v - problem.centre) ** 2).sum())
        + float((s**2 / variances.s[problem.ties.blocks]).sum())
    )
    return _Point(s, w0, v, shares, masses, residuals, factor, objective)


def _sandwich(lift: sparse.csr_array, gram: FloatArray) -> FloatArray:
    """liftᵀ gram lift."""
    return np.ascontiguousarray(lift.T @ (lift.T @ gram.T).T)


def _slopes(problem: _Problem, point: _Point, units: FloatArray, g: int, k: int) -> FloatArray:
    predicted = problem.outputs[g][:, k] - point.residuals[g][:, k]
    return problem.rows[g].slopes(point.shares[g], point.masses[g], units[:, k], predicted)


def _curvature(problem: _Problem, variances: _Variances, point: _Point) -> _Curvature:
    lift, n_outputs = problem.lift, point.v.shape[1]
    units = lift @ point.v
    h_ss, gradient = np.zeros((len(units), len(units))), np.zeros(len(units))
    h_sv = [np.zeros_like(h_ss) for _ in range(n_outputs)]
    for g, (rows, noise) in enumerate(zip(problem.rows, variances.noise, strict=True)):
        for k in range(n_outputs):
            slopes = _slopes(problem, point, units, g, k)
            h_ss += rows.gram(slopes, slopes) / noise
            h_sv[k] += rows.gram(slopes, point.shares[g]) / noise
            gradient += rows.pull(slopes, point.residuals[g][:, [k]])[:, 0] / noise
    prior = np.append(1.0 / variances.s[problem.ties.blocks], 0.0)
    schur = _sandwich(lift, h_ss) + np.diag(prior)
    gradient = lift.T @ gradient - prior * np.append(point.s, 0.0)
    cross = []
    for mixed_units in h_sv:
        mixed = _sandwich(lift, mixed_units)
        cross.append(linalg.cho_solve(point.factor, mixed.T, check_finite=False))
        schur -= mixed @ cross[-1]
    if not problem.background:
        schur[-1], schur[:, -1] = 0.0, 0.0
        schur[-1, -1], gradient[-1] = 1.0, 0.0
    return _Curvature(schur, gradient, cross)


def _descend(
    problem: _Problem, variances: _Variances, point: _Point, damping: float
) -> tuple[_Point, float, int]:
    """A few damped Gauss–Newton steps on the importances."""
    evaluations = 0
    for _ in range(_STEPS_PER_ROUND):
        curvature = _curvature(problem, variances, point)
        while True:
            step = _step(curvature, damping)
            w0 = max(point.w0 + step[-1], 0.0)
            trial = _solve_values(problem, variances, point.s + step[:-1], w0)
            evaluations += 1
            gain = point.objective - trial.objective
            if gain >= 0 or damping > 1e6:
                break
            damping *= 10.0
        if gain < 0:
            return point, 1e-2, evaluations
        point, damping = trial, max(damping / 10.0, 1e-9)
    return point, damping, evaluations


def _settled(before: _Point, after: _Point) -> bool:
    """Whether what is predicted moved less than a hundredth of what is left unexplained."""
    moved = sum(float(((a - b) ** 2).sum()) for a, b in zip(before.residuals, after.residuals, strict=True))
    left = sum(float((r**2).sum()) for r in after.residuals)
    return moved <= 1e-4 * left


def _step(curvature: _Curvature, damping: float) -> FloatArray:
    diagonal = np.maximum(np.diag(curvature.schur), 1e-12)
    damped = curvature.schur + np.diag(damping * diagonal)
    step = linalg.cho_solve(
        linalg.cho_factor(damped, check_finite=False), curvature.gradient, check_finite=False
    )
    return step * min(1.0, _LARGEST_STEP / max(np.abs(step[:-1]).max(initial=0.0), 1e-300))


@dataclass(frozen=True, eq=False)
class _Spread:
    """The posterior: inverses of the Schur complement and of H_vv."""

    s: FloatArray
    v: FloatArray
    cross: list[FloatArray]


def _spread(problem: _Problem, variances: _Variances, point: _Point) -> _Spread:
    curvature = _curvature(problem, variances, point)
    # A common shift of all importances changes nothing; the jitter keeps that direction invertible.
    scale = 1.0 / np.sqrt(np.maximum(np.diag(curvature.schur), 1e-300))
    scaled = curvature.schur * np.outer(scale, scale) + 1e-10 * np.eye(len(scale))
    factor = linalg.cho_factor(scaled, check_finite=False)
    inverse_s = linalg.cho_solve(factor, np.eye(len(scale)), check_finite=False) * np.outer(scale, scale)
    inverse_v = linalg.cho_solve(point.factor, np.eye(len(scale)), check_finite=False)
    return _Spread(inverse_s, inverse_v, curvature.cross)


def _reestimate(problem: _Problem, variances: _Variances, point: _Point) -> _Variances:
    """One step of the evidence fixed point: variances from residuals, parameters and their posterior spread."""
    spread = _spread(problem, variances, point)
    n_outputs = point.v.shape[1]
    spread_v = n_outputs * np.diag(spread.v)
    for cross in spread.cross:
        spread_v = spread_v + ((cross @ spread.s) * cross).sum(axis=1)
    new_s, new_v = variances.s.copy(), variances.v.copy()
    for b in range(len(problem.ties.centred)):
        own = np.flatnonzero(problem.ties.blocks == b)
        free = len(own) - np.diag(spread.s)[own].sum() / variances.s[b]
        new_s[b] = np.clip((point.s[own] ** 2).sum() / max(free, 1e-3), 1e-4, 1e3)
        free = n_outputs * len(own) - spread_v[own].sum() / variances.v[b]
        around = ((point.v[own] - problem.centre[own]) ** 2).sum()
        new_v[b] = np.clip(around / max(free, 1e-3), 1e-6 * variances.v[0], 1e6 * variances.v[0])
    return _Variances(_noise(problem, variances, point, spread), new_s, new_v)


def _noise(problem: _Problem, variances: _Variances, point: _Point, spread: _Spread) -> FloatArray:
    """Residual variance of every group, corrected for the degrees of freedom its queries have used."""
    lift, n_outputs = problem.lift, point.v.shape[1]
    units = lift @ point.v
    unit_spread = lift @ (lift @ spread.v).T
    noise = np.empty(len(problem.rows))
    for g, (rows, shares) in enumerate(zip(problem.rows, point.shares, strict=True)):
        used = n_outputs * float((rows.gram(shares, shares) * unit_spread).sum())
        for k, cross in enumerate(spread.cross):
            slopes = _slopes(problem, point, units, g, k)
            # dF/ds along the valley where the values follow: slopes − shares H_vv⁻¹ H_vs
            ss, sv, vv = (
                _sandwich(lift, rows.gram(a, b))
                for a, b in ((slopes, slopes), (slopes, shares), (shares, shares))
            )
            inner = ss - sv @ cross - (sv @ cross).T + cross.T @ vv @ cross
            used += float((inner * spread.s).sum())
        size = point.residuals[g].size
        free = max(size - used / variances.noise[g], 0.1 * size)
        noise[g] = (point.residuals[g] ** 2).sum() / free
    floor = 1e-26 * max(float(np.concatenate(problem.outputs).var()), 1e-30)
    return np.maximum(np.maximum(noise, noise.max() / _NOISE_RATIO), floor)


def _covariance(problem: _Problem, variances: _Variances, point: _Point, column: int) -> FloatArray:
    spread = _spread(problem, variances, point)
    cross = spread.cross[column]
    scale = np.ones(len(spread.s))
    scale[-1] = 1.0 / point.w0 if point.w0 > 0 else 0.0  # from w0 to log w0
    top = spread.s * np.outer(scale, scale)
    mixed = -(scale[:, None] * spread.s) @ cross.T
    values = spread.v + cross @ spread.s @ cross.T
    lift = problem.lift.toarray()
    return np.block(
        [[lift @ top @ lift.T, lift @ mixed @ lift.T], [lift @ mixed.T @ lift.T, lift @ values @ lift.T]]
    )
