"""How well one group of heads is known: the posterior of the model linearised at its solution.

It is computed in the space of the queries, which are fewer than the parameters. The outputs of the queries
count; what gradients tell beyond them is left out, so that the spread is rather too wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from slalom.fit.misfit import Shape, Told
from slalom.tokens import FloatArray

_ROWS = 2000
"""Queries that are looked at; of more than these, as many stand for all."""


@dataclass(frozen=True, eq=False)
class Spread:
    """The prior less what the queries have told."""

    prior: sparse.csr_array
    """L, where L Lᵀ is the prior covariance of the parameters."""
    known: FloatArray
    """(N, …) J L: how the answers hang on the parameters, in units of the prior."""
    triangle: FloatArray
    """C, where C Cᵀ = J L Lᵀ Jᵀ + noise."""

    def covariance(self, slopes: FloatArray) -> FloatArray:
        """(m, m) of m readings with these slopes (m, P)."""
        own, told = self._parts(slopes)
        return (own @ own.T - told.T @ told).astype(float)

    def variances(self, slopes: FloatArray) -> FloatArray:
        """(m,) its diagonal."""
        own, told = self._parts(slopes)
        return ((own**2).sum(axis=1) - (told**2).sum(axis=0)).astype(float)

    def _parts(self, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What the prior leaves open, and what the answers have told of it."""
        own = slopes.astype(np.float32) @ self.prior
        told = linalg.solve_triangular(self.triangle, self.known @ own.T, lower=True, check_finite=False)
        return own, told


def seen(
    counts: sparse.csr_array,
    x: FloatArray,
    shape: Shape,
    column: int,
    prior: sparse.csr_array,
    noise: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """J L of a single group in x and C, for counts (N, units)."""
    n = len(counts.indptr) - 1
    if n > _ROWS:
        counts, noise = sparse.csr_array(counts[np.sort(rng.permutation(n)[:_ROWS])]), noise * _ROWS / n
    known = sparse.csr_array(jacobian(counts, x, shape, column) @ prior, dtype=np.float32).toarray()
    gram = known @ known.T
    gram[np.diag_indices(len(gram))] += max(noise, 1e-6 * float(gram.diagonal().max()))
    return known, linalg.cholesky(gram, lower=True, check_finite=False)


def jacobian(counts: sparse.csr_array, x: FloatArray, shape: Shape, column: int) -> sparse.csr_array:
    """(N, P) of an output by the parameters of a single group: by s share (v − F_h), by v the share."""
    told, values = Told.at(counts, x, shape), shape.parts(x)[1][:, :, column]
    units, n = counts.indices, len(told.total)
    row = np.repeat(np.arange(n), np.diff(counts.indptr))
    slope = told.slope[row, 0, column]
    by_v = slope * counts.data * told.weights[:, units] / told.total[row].T
    by_s = by_v * (values[:, units] - told.each[row, :, column].T)
    h, u, k = shape.all_heads, shape.units, shape.outputs
    places = np.arange(h)[:, None] * u + units
    columns = [places.ravel(), (h * u + places * k + column).ravel(), np.full(n, shape.size - k + column)]
    data = np.concatenate([by_s.ravel(), by_v.ravel(), told.by_ceiling[:, 0, column]])
    rows = np.r_[np.tile(row, 2 * h), np.arange(n)]
    return sparse.csr_array((data, (rows, np.concatenate(columns))), shape=(n, shape.size))
