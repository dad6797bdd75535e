"""What a solver is given, checked once, and what every solver returns."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController

from slalom.errors import InputError
from slalom.surrogate import Additive, Counts, Slalom, Surrogate
from slalom.tokens import FloatArray


def outputs_matrix(outputs: FloatArray, n: int, what: str) -> FloatArray:
    """The model's outputs as (n, K); a vector is K = 1."""
    matrix = np.asarray(outputs, dtype=float)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or len(matrix) != n:
        raise InputError(f"{n} {what} need outputs of shape ({n}, K), not {np.shape(outputs)}")
    if not np.isfinite(matrix).all():
        raise InputError(
            f"the outputs of the {what} hold NaN or infinite numbers; a surrogate needs finite ones"
        )
    return matrix


def problem(
    counts: Counts, outputs: FloatArray, weights: FloatArray | None = None
) -> tuple[sparse.csr_array, FloatArray, FloatArray]:
    """Counts as a sparse matrix (N × d), outputs (N, K), and weights (N,) with mean one."""
    rows = sparse.csr_array(counts)
    n, d = rows.shape or (0, 0)
    if n == 0 or d == 0:
        raise InputError(f"nothing to fit: {n} queries over {d} tokens")
    matrix = outputs_matrix(outputs, n, "queries")
    if weights is None:
        return rows, matrix, np.ones(n)
    given = np.asarray(weights, dtype=float)
    if given.shape != (n,) or not np.isfinite(given).all() or given.min() < 0 or given.sum() == 0:
        raise InputError(f"weights must be {n} finite non-negative numbers, not all zero; got {given.shape}")
    return rows, matrix, given / given.mean()


def mean_squared_error(
    surrogate: Surrogate, counts: Counts, outputs: FloatArray, weights: FloatArray | None = None
) -> float:
    """Over queries (weighted) and outputs."""
    squares = ((surrogate.predict(counts) - outputs) ** 2).mean(axis=1)
    return float(np.average(squares, weights=weights))


@dataclass(frozen=True, eq=False)
class Covariance:
    """Of the parameters of one output: importances and values of the U units, the background last."""

    importances: FloatArray
    """(U + 1, U + 1)"""
    mixed: FloatArray
    """(U + 1, U + 1) of importances (rows) with values (columns)."""
    values: FloatArray
    """(U + 1, U + 1)"""
    noise: float
    """Variance of what the SLALOM leaves unexplained."""

    def covariance(self, slopes: FloatArray) -> FloatArray:
        """(m, m) of m readings with these slopes by importances and values (m, 2 (U + 1))."""
        by_s, by_v = np.hsplit(slopes, 2)
        mixed = by_s @ self.mixed @ by_v.T
        return by_s @ self.importances @ by_s.T + mixed + mixed.T + by_v @ self.values @ by_v.T

    def variances(self, slopes: FloatArray) -> FloatArray:
        """(m,) its diagonal."""
        by_s, by_v = np.hsplit(slopes, 2)
        squares = (
            by_s @ self.importances * by_s + 2.0 * (by_s @ self.mixed) * by_v + by_v @ self.values * by_v
        )
        return squares.sum(axis=1)


S = TypeVar("S", bound=Slalom | Additive, covariant=True)


@dataclass(frozen=True, eq=False)
class Fit(Generic[S]):
    """A surrogate fitted to a model's answers, and how the fit went."""

    surrogate: S
    """Over the units of the counts (d units), K outputs."""
    covariance: Covariance | None
    """None where a solver has none."""
    loss: float
    """Weighted mean squared error on the queries."""
    iterations: int
    status: str
    """Why the solver stopped: "converged", "exact", "max_iterations", …"""


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra inside runs on one thread; the caller's setting comes back afterwards."""
    return _controller().limit(limits=1, user_api="blas")
