"""What a solver is given, checked once."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from slalom.errors import InputError
from slalom.surrogate import Counts, Surrogate
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
