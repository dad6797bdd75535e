"""The additive surrogate that SLALOM is compared with: ridge regression on token counts."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import linalg, sparse

from slalom.errors import InputError
from slalom.fit import Fit, mean_squared_error, problem
from slalom.surrogate import Additive, Counts
from slalom.tokens import FloatArray

# Candidate ridge strengths, relative to the mean eigenvalue of the centred Gram matrix.
_GRID = np.logspace(-10, 4, 281)
_DENSE_FROM = 0.1


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
    if scaled.nnz > _DENSE_FROM * len(pi) * len(mean):
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
