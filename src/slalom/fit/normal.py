"""The normal equations of SLALOM with the values eliminated (maths 3c).

F is linear in the values for fixed importances. A *point* is a choice of importances with the values solved
for; its *curvature* is the Gauss–Newton system of the importances that remains (the Schur complement); its
*posterior* the covariance that follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from slalom.fit.rows import Rows, gram
from slalom.tokens import FloatArray, IntArray

Factor = tuple[FloatArray, bool]


@dataclass(frozen=True, eq=False)
class Ties:
    """How parameters make units: units = matrix @ θ, with a prior block for every parameter."""

    matrix: sparse.csr_array | FloatArray | None
    """(U, P); None where every unit is its own parameter."""
    blocks: IntArray
    """(P,) parameters of one block share a prior variance for importances and one for values."""
    centred: tuple[bool, ...]
    """For every block: do its values scatter around the mean output (types) or around zero (deviations)?"""

    def up(self, parameters: FloatArray) -> FloatArray:
        """From parameters (P + 1, …) to units (U + 1, …), the background last in both."""
        if self.matrix is None:
            return parameters
        return np.concatenate([self.matrix @ parameters[:-1], parameters[-1:]])

    def down(self, units: FloatArray) -> FloatArray:
        """The transpose of `up`."""
        if self.matrix is None:
            return units
        return np.concatenate([self.matrix.T @ units[:-1], units[-1:]])

    def inside(self, gram: FloatArray) -> FloatArray:
        """upᵀ gram up: a Gram matrix over units as one over parameters."""
        return gram if self.matrix is None else np.ascontiguousarray(self.down(self.down(gram).T).T)

    def outside(self, covariance: FloatArray) -> FloatArray:
        """up covariance upᵀ: a covariance of parameters as one of units."""
        return covariance if self.matrix is None else np.ascontiguousarray(self.up(self.up(covariance).T).T)


@dataclass(frozen=True, eq=False)
class Problem:
    """Queries over units, what was answered, and how the units are tied."""

    rows: Rows
    outputs: FloatArray
    """(N, K)"""
    ties: Ties
    centre: FloatArray
    """(P + 1, K) prior means of the values, the background last."""
    background: bool

    @property
    def n_units(self) -> int:
        return len(self.ties.blocks) if self.ties.matrix is None else int((self.ties.matrix.shape or (0,))[0])


@dataclass(frozen=True, eq=False)
class Variances:
    """Noise of the answers, and prior spread of every block of parameters."""

    noise: float
    s: FloatArray
    v: FloatArray


@dataclass(frozen=True, eq=False)
class Point:
    """Importances, the background's weight, and what follows from them."""

    s: FloatArray
    """(P,)"""
    w0: float
    v: FloatArray
    """(P + 1, K)"""
    shares: FloatArray
    """Of every entry."""
    mass: FloatArray
    """(N,)"""
    residuals: FloatArray
    """(N, K)"""
    factor: Factor
    """Of H_vv."""


def solve_values(problem: Problem, variances: Variances, s: FloatArray, w0: float) -> Point:
    """The point at these importances."""
    ties, rows = problem.ties, problem.rows
    shares, mass = rows.shares(np.append(np.exp(ties.up(np.append(s, 0.0))[:-1]), w0))
    matrix, prior = rows.matrix(shares), value_precision(problem, variances)
    factor = cholesky(ties.inside(gram(matrix, matrix) / variances.noise), prior)
    right = prior[:, None] * problem.centre + ties.down(matrix.T @ problem.outputs / variances.noise)
    v = linalg.cho_solve(factor, right, check_finite=False)
    return Point(s, w0, v, shares, mass, problem.outputs - matrix @ ties.up(v), factor)


def value_precision(problem: Problem, variances: Variances) -> FloatArray:
    """(P + 1,) prior precision of the values."""
    return 1.0 / np.append(variances.v[problem.ties.blocks], variances.v[0])


def cholesky(matrix: FloatArray, diagonal: FloatArray) -> Factor:
    """Factor of matrix + diag(diagonal); rounding that leaves it indefinite is met with a growing jitter."""
    shifted = matrix.copy()
    index = np.diag_indices_from(shifted)
    shifted[index] += diagonal
    jitter = np.finfo(float).eps * max(float(shifted[index].max()), np.finfo(float).tiny)
    for _ in range(40):
        try:
            return linalg.cho_factor(shifted, lower=True, check_finite=False)
        except linalg.LinAlgError:
            shifted[index] += jitter
            jitter *= 4.0
    raise linalg.LinAlgError("the normal equations are not positive definite")


def objective(problem: Problem, variances: Variances, point: Point) -> float:
    """Weighted squares plus priors: what a step must not raise."""
    values = value_precision(problem, variances)[:, None] * (point.v - problem.centre) ** 2
    misfit = float((point.residuals**2).sum()) / variances.noise
    return misfit + float(values.sum()) + float((point.s**2 / variances.s[problem.ties.blocks]).sum())


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Gauss–Newton system of (s, w0), values eliminated."""

    schur: FloatArray
    gradient: FloatArray
    half: list[FloatArray]
    """Per output: L⁻¹ H_vs, where L Lᵀ = H_vv."""


def curvature(problem: Problem, variances: Variances, point: Point) -> Curvature:
    """The system at a point."""
    ties, rows, noise = problem.ties, problem.rows, variances.noise
    units, told, shares = ties.up(point.v), problem.outputs - point.residuals, rows.matrix(point.shares)
    prior = np.append(1.0 / variances.s[ties.blocks], 0.0)
    schur, gradient, half = np.diag(prior), -prior * np.append(point.s, 0.0), []
    for k in range(point.v.shape[1]):
        slopes = rows.matrix(rows.slopes(point.shares, point.mass, units[:, k], told[:, k]))
        half.append(_triangular(point.factor, ties.inside(gram(slopes, shares) / noise).T))
        schur += ties.inside(gram(slopes, slopes) / noise) - half[-1].T @ half[-1]
        gradient += ties.down(slopes.T @ point.residuals[:, k]) / noise
    if not problem.background:
        schur[-1], schur[:, -1] = 0.0, 0.0
        schur[-1, -1], gradient[-1] = 1.0, 0.0
    return Curvature(schur, gradient, half)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Covariances of the parameters (P + 1): importances, and per output values and both together."""

    ss: FloatArray
    sv: list[FloatArray]
    vv: list[FloatArray]


def posterior(problem: Problem, point: Point, system: Curvature) -> Posterior:
    """The covariance that follows from the normal equations."""
    # A common shift of all importances changes nothing: the system is nearly singular, so scale it first.
    scale = 1.0 / np.sqrt(np.maximum(np.diag(system.schur), 1e-300))
    factor = cholesky(system.schur * np.outer(scale, scale), np.full(len(scale), 1e-10))
    ss = _inverse(factor) * np.outer(scale, scale)
    if not problem.background:  # w0 is known to be zero
        ss[-1], ss[:, -1] = 0.0, 0.0
    own = _inverse(point.factor)
    cross = [_triangular(point.factor, half, transposed=True) for half in system.half]
    follow = [c @ ss for c in cross]
    vv = [own + f @ c.T for f, c in zip(follow, cross, strict=True)]
    return Posterior(ss, [-f.T for f in follow], vv)


def _triangular(factor: Factor, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    """L⁻¹ right, or L⁻ᵀ right."""
    return linalg.solve_triangular(factor[0], right, trans=int(transposed), lower=True, check_finite=False)


def _inverse(factor: Factor) -> FloatArray:
    """Of the matrix that was factorised; a third of the work of solving for the unit matrix."""
    (potri,) = linalg.get_lapack_funcs(("potri",), factor[:1])
    inverse, info = potri(factor[0], lower=True)
    if info != 0:
        raise linalg.LinAlgError("the normal equations are singular")
    return np.tril(inverse) + np.tril(inverse, -1).T
