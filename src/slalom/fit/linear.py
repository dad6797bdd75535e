"""Linear algebra of fits: the additive surrogate beside SLALOM, and the normal equations of one SLALOM.

The additive one is ridge regression on token counts. In the equations of a SLALOM there is one number for
every *entry*, a unit that stands in a query; the last entry of every query is the background. Short queries
over many units are multiplied as sparse matrices, others as dense ones.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg, sparse

from slalom.errors import InputError
from slalom.fit import Fit, mean_squared_error, problem
from slalom.surrogate import Additive, Counts
from slalom.tokens import FloatArray, IntArray

Matrix = FloatArray | sparse.csr_array
_DENSE_FROM = 0.05
"""Share of non-zero counts from which a dense matrix is faster."""
Factor = tuple[FloatArray, bool]
_NOISE_FLOOR = 1e-14
"""Of the variance of the outputs: what counts as no noise at all."""

# Candidate ridge strengths, relative to the mean eigenvalue of the centred Gram matrix.
_GRID = np.logspace(-10, 4, 281)
_DENSE_GRAM_FROM = 0.1


def fit(
    counts: Counts,
    outputs: FloatArray,
    weights: FloatArray | None = None,
    ridge: float | Literal["auto"] = "auto",
) -> Fit[Additive]:
    """Minimises Σ_n π_n |b + c_n·β − y_n|² + ridge |β|² over β and the unpenalised intercept b.

    The weights π are scaled to mean one. "auto" takes the ridge of least generalised cross-validation error,
    one for all outputs, from the same eigendecomposition. There is no covariance.
    """
    if ridge != "auto" and not (isinstance(ridge, int | float) and 0 <= ridge < np.inf):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"ridge must be 'auto' or a finite number of at least 0, not {ridge!r}")
    rows, y, pi = problem(counts, outputs, weights)
    mean_x, mean_y = rows.T @ pi / len(y), pi @ y / len(y)
    vectors, eigenvalues, pull = _ridge(rows, y, pi, ridge)
    beta = vectors @ (pull / eigenvalues[:, None])
    surrogate = Additive(beta, mean_y - mean_x @ beta)
    return Fit(surrogate, None, mean_squared_error(surrogate, rows, y, pi), 1, "exact")


def left_out(counts: Counts, outputs: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """(N,) the error on each query when left out, with the ridge of the least such errors; one output."""
    rows, y, pi = problem(counts, outputs, weights)
    vectors, eigenvalues, pull = _ridge(rows, y, pi, 0.0)
    turned = np.asarray(rows @ vectors)
    turned -= pi @ turned / len(y)
    shrunk = 1.0 / (eigenvalues[:, None] + _GRID[::10] * eigenvalues.mean())
    leverage = pi[:, None] * (1.0 / len(y) + turned**2 @ shrunk)
    misfit = (y[:, 0] - pi @ y[:, 0] / len(y))[:, None] - turned @ (pull * shrunk)
    errors = misfit / np.maximum(1.0 - leverage, 1e-3)
    return errors[:, np.argmin(pi @ errors**2)]


def _ridge(
    rows: sparse.csr_array, y: FloatArray, pi: FloatArray, ridge: float | Literal["auto"]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Directions that queries vary, their eigenvalues with the ridge, and the outputs' pull along them."""
    n = len(y)
    eigenvalues, vectors = _spectrum(rows, pi, rows.T @ pi / n)
    vectors, eigenvalues = vectors[:, eigenvalues > 0], eigenvalues[eigenvalues > 0]
    centred = y - pi @ y / n
    pull = vectors.T @ (rows.T @ (pi[:, None] * centred))
    if ridge == "auto":
        ridge = _choose(eigenvalues, pull, float(pi @ (centred**2).sum(axis=1)), n)
    return vectors, eigenvalues + ridge, pull


def _spectrum(rows: sparse.csr_array, pi: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of the weighted and centred Gram matrix; directions that no query varies have eigenvalue 0."""
    scaled = sparse.csr_array(rows.multiply(np.sqrt(pi)[:, None]))
    if scaled.nnz > _DENSE_GRAM_FROM * len(pi) * len(mean):
        dense = scaled.toarray()
        raw = dense.T @ dense
    else:
        raw = (scaled.T @ scaled).toarray()
    eigenvalues, vectors = linalg.eigh(raw - len(pi) * np.outer(mean, mean), check_finite=False)
    return np.where(eigenvalues > 1e-12 * np.trace(raw), eigenvalues, 0.0), vectors


def _choose(eigenvalues: FloatArray, pull: FloatArray, total: float, n: int) -> float:
    """The ridge of least GCV error RSS(λ) / (n − 1 − tr H(λ))²; the intercept takes one degree of freedom."""
    if len(eigenvalues) == 0:
        return 0.0
    power = (pull**2).sum(axis=1) / eigenvalues
    grid = _GRID * eigenvalues.mean()
    shrunk = grid[:, None] / (eigenvalues + grid[:, None])
    # What the ridge takes from the fitted part, and what no additive model can fit.
    rss = shrunk**2 @ power + max(total - power.sum(), 1e-14 * total)
    free = n - 1 - len(eigenvalues) + shrunk.sum(axis=1)
    return float(grid[np.argmin(rss / np.maximum(free, 1e-9) ** 2)])


@dataclass(frozen=True, eq=False)
class Rows:
    """N queries over U units and the background."""

    counts: sparse.csr_array
    """(N, U + 1)"""
    row: IntArray
    """The query of every entry."""
    dense: bool

    @classmethod
    def of(cls, counts: Matrix) -> Rows:
        """From counts (N × U)."""
        given = sparse.csr_array(counts, copy=True)
        given.sum_duplicates()
        given.eliminate_zeros()
        n, units = given.shape or (0, 0)
        whole = sparse.csr_array(sparse.hstack([given, sparse.csr_array(np.ones((n, 1)))], format="csr"))
        whole.sort_indices()
        row = np.repeat(np.arange(n), np.diff(whole.indptr))
        return cls(whole, row, given.nnz > _DENSE_FROM * n * units)

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The softmax share of every entry, and the mass of every query."""
        data = self.counts.data * weights[self.counts.indices]
        mass = np.add.reduceat(data, self.counts.indptr[:-1])
        return data / mass[self.row], mass

    def slopes(self, shares: FloatArray, mass: FloatArray, units: FloatArray, told: FloatArray) -> FloatArray:
        """∂F/∂s = share (v − F) for the units, ∂F/∂w0 = (v0 − F) / mass for the background; F is `told`."""
        data = shares * (units[self.counts.indices] - told[self.row])
        data[self.counts.indptr[1:] - 1] = (units[-1] - told) / mass
        return data

    def matrix(self, data: FloatArray) -> Matrix:
        """(N, U + 1)"""
        made = sparse.csr_array((data, self.counts.indices, self.counts.indptr), shape=self.counts.shape)
        return made.toarray() if self.dense else made


def gram(left: Matrix, right: Matrix) -> FloatArray:
    """leftᵀ right"""
    product = left.T @ right
    return product if isinstance(product, np.ndarray) else product.toarray()


@dataclass(frozen=True, eq=False)
class Problem:
    """Queries over units, and what was answered."""

    rows: Rows
    outputs: FloatArray
    """(N, K)"""
    background: bool

    @property
    def n_units(self) -> int:
        return int((self.rows.counts.shape or (0, 1))[1]) - 1

    @property
    def centre(self) -> FloatArray:
        """(K,) prior mean of the values."""
        return self.outputs.mean(axis=0)


@dataclass(frozen=True, eq=False)
class Variances:
    """Noise of the answers, and prior spread of importances and values."""

    noise: float
    s: float
    v: float


@dataclass(frozen=True, eq=False)
class Point:
    """Importances, the background's weight, and what follows from them."""

    s: FloatArray
    """(U,)"""
    w0: float
    v: FloatArray
    """(U + 1, K)"""
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
    rows = problem.rows
    shares, mass = rows.shares(np.append(np.exp(s), w0))
    matrix, precision = rows.matrix(shares), 1.0 / variances.v
    factor = cholesky(gram(matrix, matrix) / variances.noise, np.full(len(s) + 1, precision))
    right = precision * problem.centre + matrix.T @ problem.outputs / variances.noise
    v = linalg.cho_solve(factor, right, check_finite=False)
    return Point(s, w0, v, shares, mass, problem.outputs - matrix @ v, factor)


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
    values = float(((point.v - problem.centre) ** 2).sum()) / variances.v
    return (
        float((point.residuals**2).sum()) / variances.noise + values + float(point.s @ point.s) / variances.s
    )


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Gauss–Newton system of (s, w0), values eliminated."""

    schur: FloatArray
    gradient: FloatArray
    half: list[FloatArray]
    """Per output: L⁻¹ H_vs, where L Lᵀ = H_vv."""


def curvature(problem: Problem, variances: Variances, point: Point) -> Curvature:
    """The system at a point."""
    rows, noise = problem.rows, variances.noise
    told, shares = problem.outputs - point.residuals, rows.matrix(point.shares)
    prior = np.append(np.full(len(point.s), 1.0 / variances.s), 0.0)
    schur, gradient, half = np.diag(prior), -prior * np.append(point.s, 0.0), []
    for k in range(point.v.shape[1]):
        slopes = rows.matrix(rows.slopes(point.shares, point.mass, point.v[:, k], told[:, k]))
        half.append(_triangular(point.factor, (gram(slopes, shares) / noise).T))
        schur += gram(slopes, slopes) / noise - half[-1].T @ half[-1]
        gradient += slopes.T @ point.residuals[:, k] / noise
    if not problem.background:
        schur[-1], schur[:, -1] = 0.0, 0.0
        schur[-1, -1], gradient[-1] = 1.0, 0.0
    return Curvature(schur, gradient, half)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Covariances of the parameters (U + 1): importances, and per output values and both together."""

    ss: FloatArray
    sv: list[FloatArray]
    vv: list[FloatArray]


def posterior(point: Point, system: Curvature) -> Posterior:
    """The covariance that follows from the normal equations; a background of weight zero stays that."""
    free = len(system.schur) - (point.w0 == 0.0)
    schur = system.schur[:free, :free]
    # A common shift of all importances changes nothing: the system is nearly singular, so scale it first.
    scale = 1.0 / np.sqrt(np.maximum(np.diag(schur), 1e-300))
    factor = cholesky(schur * np.outer(scale, scale), np.full(free, 1e-10))
    ss = np.zeros_like(system.schur)
    ss[:free, :free] = _inverse(factor) * np.outer(scale, scale)
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
