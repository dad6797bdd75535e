"""How well one group of heads is known: the posterior of the model linearised at its solution.

It is computed in the space of the queries, which are fewer than the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from slalom.fit.misfit import NOISE, SLOPE_NOISE, Shape, Told
from slalom.tokens import FloatArray, IntArray

_SAMPLED = 8
"""Gradients of a query that stand for all of them."""
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
        own = slopes.astype(np.float32) @ self.prior
        told = linalg.solve_triangular(self.triangle, self.known @ own.T, lower=True, check_finite=False)
        return (own @ own.T - told.T @ told).astype(float)


def seen(
    counts: sparse.csr_array,
    sloped: int,
    x: FloatArray,
    shape: Shape,
    column: int,
    prior: sparse.csr_array,
    noise: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """J L of a single group in x and C, for counts (N, units); of the last `sloped` gradients are known."""
    n = len(counts.indptr) - 1
    if n > _ROWS:
        rows = np.sort(rng.permutation(n)[:_ROWS])
        sloped = int((rows >= n - sloped).sum())
        counts, noise = sparse.csr_array(counts[rows]), noise * _ROWS / n
    line = _Line.of(counts, Told.at(counts, x, shape), shape.parts(x)[1][:, :, column], column)
    rows_seen = [line.jacobian(shape)]
    if sloped:
        rows_seen.append(line.slope_jacobian(len(line.start) - 1 - sloped, shape, rng))
    known = sparse.csr_array(sparse.vstack(rows_seen, format="csr") @ prior, dtype=np.float32).toarray()
    gram = known @ known.T
    gram[np.diag_indices(len(gram))] += max(noise, 1e-6 * float(gram.diagonal().max()))
    return known, linalg.cholesky(gram, lower=True, check_finite=False)


@dataclass(frozen=True, eq=False)
class _Line:
    """The linearised model, by entry (query, unit) of the counts, for one output."""

    told: Told
    row: IntArray
    column: IntArray
    start: IntArray
    copies: FloatArray
    """(E,)"""
    shares: FloatArray
    """(H, E)"""
    moved: FloatArray
    """(H, E) share (v − F_h)"""
    output: int

    @classmethod
    def of(cls, counts: sparse.csr_array, told: Told, v: FloatArray, output: int) -> _Line:
        counts.sort_indices()  # the background is the last entry of its query
        column, start = counts.indices.astype(np.int64), counts.indptr.astype(np.int64)
        copies = counts.data.astype(float)
        row = np.repeat(np.arange(len(start) - 1), np.diff(start))
        shares = copies * told.weights[:, column] / told.total[row].T
        moved = shares * (v[:, column] - told.each[row, :, output].T)
        return cls(told, row, column, start, copies, shares, moved, output)

    def jacobian(self, shape: Shape) -> sparse.csr_array:
        """(N, P) of the outputs."""
        slope = self.told.slope[self.row, 0, self.output]
        by_a = self.told.by_ceiling[:, 0, self.output]
        by_s, by_v = slope * self.moved, slope * self.shares
        return _rows(self.row, self.column, by_s, by_v, by_a, shape, self.output)

    def slope_jacobian(self, first: int, shape: Shape, rng: np.random.Generator) -> sparse.csr_array:
        """Of some gradients of each query from `first` on, which stand for all, with an output's noise."""
        sizes = np.diff(self.start)[first:] - 1
        drawn = zip(self.start[first:], sizes, strict=False)
        at = np.concatenate([rng.permutation(size)[:_SAMPLED] + start for start, size in drawn])
        query = self.row[at]
        # every gradient hangs on all entries of its query
        lengths = np.diff(self.start)[query]
        begin, row = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(at)), lengths)
        entry = np.arange(len(row)) + (self.start[query] - begin)[row]
        own, moved = self.shares[:, at] / self.copies[at], self.moved[:, at] / self.copies[at]
        slope, bend = self.told.slope[query, 0, self.output], self.told.bend[query, 0, self.output]
        total = moved.sum(axis=0)
        straight = slope * own - bend * total
        here = entry == at[row]
        by_s = (slope * moved)[:, row] * (here - self.shares[:, entry])
        by_s -= straight[:, row] * self.moved[:, entry]
        by_v = (slope * own)[:, row] * here - straight[:, row] * self.shares[:, entry]
        by_a = -bend * self.told.level[query, 0, self.output] * total
        weight = self._weights(at, query)
        by_s, by_v, by_a = weight[row] * by_s, weight[row] * by_v, weight * by_a
        return _rows(row, self.column[entry], by_s, by_v, by_a, shape, self.output)

    def _weights(self, at: IntArray, query: IntArray) -> FloatArray:
        """Of sampled gradients: those of all tokens of the query, shared out."""
        tokens = np.add.reduceat(self.copies, self.start[:-1])[query] - 1.0
        sampled = np.add.reduceat(self.copies[at], np.flatnonzero(np.diff(query, prepend=-1)))
        shared = tokens / np.repeat(sampled, np.bincount(query)[np.unique(query)])
        return NOISE / SLOPE_NOISE * np.sqrt(tokens * shared * self.copies[at])


def _rows(
    row: IntArray,
    column: IntArray,
    by_s: FloatArray,
    by_v: FloatArray,
    by_a: FloatArray,
    shape: Shape,
    output: int,
) -> sparse.csr_array:
    """(N, P) from slopes by entry (H, E) and by row (N,)."""
    h, u, k, n = shape.all_heads, shape.units, shape.outputs, len(by_a)
    places = np.arange(h)[:, None] * u + column
    columns = [places.ravel(), (h * u + places * k + output).ravel(), np.full(n, shape.size - k + output)]
    rows = np.r_[np.tile(row, 2 * h), np.arange(n)]
    data = np.concatenate([by_s.ravel(), by_v.ravel(), by_a])
    return sparse.csr_array((data, (rows, np.concatenate(columns))), shape=(n, shape.size))
