"""The additive surrogate that SLALOM is compared with: ridge regression on token counts."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import linalg, sparse

from slalom.errors import InputError
from slalom.fit.data import mean_squared_error, problem
from slalom.fit.result import Fit
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
    rows, y, pi = problem(counts, outputs, weights)
    if ridge != "auto" and not (isinstance(ridge, int | float) and 0 <= ridge < np.inf):
        raise InputError(f"ridge must be 'auto' or a finite number of at least 0, not {ridge!r}")
    n = len(y)
    mean_x, mean_y = rows.T @ pi / n, pi @ y / n
    eigenvalues, vectors = _spectrum(rows, pi, mean_x)
    live = eigenvalues > 0
    centred = y - mean_y
    pull = vectors.T @ (rows.T @ (pi[:, None] * centred))
    if ridge == "auto":
        ridge = _choose(eigenvalues[live], pull[live], float(pi @ (centred**2).sum(axis=1)), n)
    beta = vectors[:, live] @ (pull[live] / (eigenvalues[live] + ridge)[:, None])
    surrogate = Additive(beta, mean_y - mean_x @ beta)
    return Fit(surrogate, None, mean_squared_error(surrogate, rows, y, pi), 1, "exact")


def left_out(counts: Counts, outputs: FloatArray) -> FloatArray:
    """(N,) the error on each query when it is left out of the fit, one output, ridge by cross-validation."""
    rows, y, pi = problem(counts, outputs)
    n = len(y)
    mean_x, mean_y = rows.T @ pi / n, pi @ y / n
    eigenvalues, vectors = _spectrum(rows, pi, mean_x)
    live = eigenvalues > 0
    pull = vectors.T @ (rows.T @ (y - mean_y))
    ridge = _choose(eigenvalues[live], pull[live], float(((y - mean_y) ** 2).sum()), n)
    turned = np.asarray(rows @ vectors[:, live]) - mean_x @ vectors[:, live]
    shrunk = turned / (eigenvalues[live] + ridge)
    leverage = 1.0 / n + (turned * shrunk).sum(axis=1)
    error = (y - mean_y)[:, 0] - shrunk @ pull[live, 0]
    return error / np.maximum(1.0 - leverage, 1e-3)


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
