"""The algebra of one group of queries: softmax shares, predictions and Gram matrices over units.

Short queries have a handful of entries each and are kept as a list of entries and pairs of entries; queries
that hold much of the text are kept as a dense matrix. Both offer the same few operations on their *data*:
one number for every entry, the background being the last unit and an entry of every query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from slalom.tokens import FloatArray, IntArray

_DENSE_FROM = 0.1


class Rows(Protocol):
    """N queries over U units and the background."""

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The softmax share of every entry, and the mass of every query."""
        ...

    def slopes(
        self, shares: FloatArray, mass: FloatArray, units: FloatArray, predicted: FloatArray
    ) -> FloatArray:
        """∂F/∂s = share (v − F) for the units, ∂F/∂w0 = (v0 − F) / mass for the background."""
        ...

    def times(self, data: FloatArray, columns: FloatArray) -> FloatArray:
        """data @ columns, (N, m)."""
        ...

    def pull(self, data: FloatArray, outputs: FloatArray) -> FloatArray:
        """dataᵀ @ outputs, (U + 1, m)."""
        ...

    def gram(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """leftᵀ @ right, (U + 1, U + 1)."""
        ...


def layout(counts: FloatArray | sparse.csr_array) -> Rows:
    """The faster of the two forms for these counts (N × U)."""
    filled = counts.nnz if sparse.issparse(counts) else np.count_nonzero(counts)
    if filled > _DENSE_FROM * counts.shape[0] * counts.shape[1]:
        dense = counts.toarray() if sparse.issparse(counts) else np.asarray(counts, dtype=float)
        return Dense(np.column_stack([dense, np.ones(len(dense))]))
    return _sparse(sparse.csr_array(counts))


@dataclass(frozen=True, eq=False)
class Dense:
    """Queries as a matrix of counts, the background last."""

    counts: FloatArray

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        data = self.counts * weights
        mass = data.sum(axis=1)
        return data / mass[:, None], mass

    def slopes(
        self, shares: FloatArray, mass: FloatArray, units: FloatArray, predicted: FloatArray
    ) -> FloatArray:
        data = shares * (units[None, :] - predicted[:, None])
        data[:, -1] = (units[-1] - predicted) / mass
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

    rows: IntArray
    columns: IntArray
    counts: FloatArray
    starts: IntArray
    ends: IntArray
    first: IntArray
    """Left entry of every pair of entries of a row …"""
    second: IntArray
    """… and its right entry."""
    cells: IntArray
    """Where the pair lands in a (U + 1)² matrix."""
    width: int

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        data = self.counts * weights[self.columns]
        mass = np.add.reduceat(data, self.starts)
        return data / mass[self.rows], mass

    def slopes(
        self, shares: FloatArray, mass: FloatArray, units: FloatArray, predicted: FloatArray
    ) -> FloatArray:
        data = shares * (units[self.columns] - predicted[self.rows])
        data[self.ends] = (units[-1] - predicted) / mass
        return data

    def times(self, data: FloatArray, columns: FloatArray) -> FloatArray:
        return np.add.reduceat(data[:, None] * columns[self.columns], self.starts, axis=0)

    def pull(self, data: FloatArray, outputs: FloatArray) -> FloatArray:
        parts = [
            np.bincount(self.columns, data * outputs[self.rows, k], self.width)
            for k in range(outputs.shape[1])
        ]
        return np.stack(parts, axis=1)

    def gram(self, left: FloatArray, right: FloatArray) -> FloatArray:
        flat = np.bincount(self.cells, left[self.first] * right[self.second], self.width**2)
        return flat.reshape(self.width, self.width)


def _sparse(counts: sparse.csr_array) -> Sparse:
    n, units = counts.shape
    background = sparse.csr_array(np.ones((n, 1)))
    entries = sparse.csr_array(sparse.hstack([counts, background], format="csr"))
    entries.sort_indices()
    lengths = np.diff(entries.indptr).astype(np.int64)
    rows = np.repeat(np.arange(n), lengths)
    first = np.repeat(np.arange(len(rows)), lengths[rows])
    block = lengths**2
    within = np.arange(block.sum()) - np.repeat(np.cumsum(block) - block, block)
    second = np.repeat(entries.indptr[:-1].astype(np.int64), block) + within % np.repeat(lengths, block)
    columns = entries.indices.astype(np.int64)
    cells = columns[first] * (units + 1) + columns[second]
    starts = entries.indptr[:-1].astype(np.int64)
    ends = entries.indptr[1:].astype(np.int64) - 1
    return Sparse(rows, columns, entries.data, starts, ends, first, second, cells, units + 1)
