"""The algebra of one group of queries: softmax shares, predictions and Gram matrices over its units.

Short queries have a handful of entries each and are kept as a list of entries and pairs of entries; queries
that hold much of the text are kept as a dense matrix. Both offer the same few operations on their *data*:
one number for every entry. Only the units that occur in the group take part (`active`); the last of them is
the background, which is an entry of every query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from slalom.tokens import FloatArray, IntArray

_DENSE_FROM = 0.05
"""Share of non-zero counts from which a dense matrix is faster."""


class Rows(Protocol):
    """N queries over the active units, the background last."""

    @property
    def active(self) -> IntArray:
        """The units that occur here, as columns of the counts; the background has the number U."""
        ...

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The softmax share of every entry, and the mass of every query."""
        ...

    def slopes(self, shares: FloatArray, mass: FloatArray, units: FloatArray, told: FloatArray) -> FloatArray:
        """∂F/∂s = share (v − F) for the units, ∂F/∂w0 = (v0 − F) / mass for the background; F is `told`."""
        ...

    def times(self, data: FloatArray, columns: FloatArray) -> FloatArray:
        """data @ columns, (N, m)."""
        ...

    def pull(self, data: FloatArray, outputs: FloatArray) -> FloatArray:
        """dataᵀ @ outputs, (active, m)."""
        ...

    def gram(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """leftᵀ @ right, (active, active)."""
        ...


def layout(counts: FloatArray | sparse.csr_array) -> Rows:
    """The faster of the two forms for these counts (N × U)."""
    entries = sparse.csr_array(counts)
    n, units = entries.shape or (0, 0)
    used = np.unique(entries.indices[entries.data != 0]).astype(np.int64)
    active = np.append(used, units)
    compact = sparse.csr_array(entries[:, used])
    compact.eliminate_zeros()
    if compact.nnz > _DENSE_FROM * n * len(used):
        return Dense(active, np.column_stack([compact.toarray(), np.ones(n)]))
    return _sparse(active, compact)


@dataclass(frozen=True, eq=False)
class Dense:
    """Queries as a matrix of counts."""

    active: IntArray
    counts: FloatArray

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        data = self.counts * weights
        mass = data.sum(axis=1)
        return data / mass[:, None], mass

    def slopes(self, shares: FloatArray, mass: FloatArray, units: FloatArray, told: FloatArray) -> FloatArray:
        data = shares * (units[None, :] - told[:, None])
        data[:, -1] = (units[-1] - told) / mass
        return data

    def times(self, data: FloatArray, columns: FloatArray) -> FloatArray:
        return data @ columns

    def pull(self, data: FloatArray, outputs: FloatArray) -> FloatArray:
        return data.T @ outputs

    def gram(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return left.T @ right


@dataclass(frozen=True, eq=False)
class Sparse:
    """Queries as entries sorted by row; the last entry of every row is the background."""

    active: IntArray
    rows: IntArray
    columns: IntArray
    counts: FloatArray
    starts: IntArray
    ends: IntArray
    first: IntArray
    """The left entry of every pair of entries of a row …"""
    second: IntArray
    """… and the right one."""
    cells: IntArray
    """Where the pair lands in the Gram matrix."""

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        data = self.counts * weights[self.columns]
        mass = np.add.reduceat(data, self.starts)
        return data / mass[self.rows], mass

    def slopes(self, shares: FloatArray, mass: FloatArray, units: FloatArray, told: FloatArray) -> FloatArray:
        data = shares * (units[self.columns] - told[self.rows])
        data[self.ends] = (units[-1] - told) / mass
        return data

    def times(self, data: FloatArray, columns: FloatArray) -> FloatArray:
        return np.add.reduceat(data[:, None] * columns[self.columns], self.starts, axis=0)

    def pull(self, data: FloatArray, outputs: FloatArray) -> FloatArray:
        width = len(self.active)
        parts = [
            np.bincount(self.columns, weights=data * outputs[self.rows, k], minlength=width)
            for k in range(outputs.shape[1])
        ]
        return np.stack(parts, axis=1).astype(float)

    def gram(self, left: FloatArray, right: FloatArray) -> FloatArray:
        width = len(self.active)
        products = left[self.first] * right[self.second]
        flat = np.bincount(self.cells, weights=products, minlength=width**2)
        return flat.astype(float, copy=False).reshape(width, width)


def _sparse(active: IntArray, counts: sparse.csr_array) -> Sparse:
    n, width = len(counts.indptr) - 1, len(active)
    entries = sparse.csr_array(sparse.hstack([counts, sparse.csr_array(np.ones((n, 1)))], format="csr"))
    entries.sort_indices()
    pointers = entries.indptr.astype(np.int64)
    lengths = np.diff(pointers)
    rows = np.repeat(np.arange(n), lengths)
    first = np.repeat(np.arange(len(rows)), lengths[rows])
    pairs = lengths**2
    within = np.arange(pairs.sum()) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    second = np.repeat(pointers[:-1], pairs) + within % np.repeat(lengths, pairs)
    columns = entries.indices.astype(np.int64)
    cells = columns[first] * width + columns[second]
    data = np.asarray(entries.data, dtype=float)
    return Sparse(active, rows, columns, data, pointers[:-1], pointers[1:] - 1, first, second, cells)
