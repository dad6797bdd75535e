"""The algebra of queries over units: softmax shares, their slopes, Gram matrices.

There is one number for every *entry*, a unit that stands in a query; the last entry of every query is the
background. Short queries over many units are multiplied as sparse matrices, others as dense ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from slalom.tokens import FloatArray, IntArray

Matrix = FloatArray | sparse.csr_array

_DENSE_FROM = 0.05
"""Share of non-zero counts from which a dense matrix is faster."""


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
