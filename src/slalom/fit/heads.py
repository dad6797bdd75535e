"""Several SLALOMs added up below a ceiling (maths 3h), fitted to outputs and gradients (maths 3g).

    y = offset + a·tanh(Σ_h F_h / a),   G_i = ∂y/∂log λ_i = (1 − tanh²) Σ_h α_hi (v_hi − F_h)

Importances and values move together by L-BFGS with a Gaussian prior; copies of a token deviate little from
each other. The covariance is that of the linearised model, computed in the space of the queries, which are
fewer than the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import minimize

from slalom.surrogate import Heads, Slalom
from slalom.tokens import FloatArray, IntArray

Shape = tuple[int, int, int]
"""Heads, units and the background, outputs."""

HEADS = 12
"""Fewer predict less well; more take longer and add little (docs/design-study.md)."""
_STEPS, _FOLD_STEPS = 120, 60
_NOISE = 0.3
"""Standard deviation of what is left unexplained, in units of the outputs' …"""
_SLOPE_NOISE = 0.7
"""… and of a gradient's entry, times the root of the copy's size: gradients shrink as copies grow."""
_LEAST_NOISE = 1e-12
_DIGITS = 3
"""Of the outputs in units of their spread. Steps that end early would carry float32 rounding, which depends
on batch and processor, into the scores; so it is rounded away, far below the noise."""
_FIRST, _FURTHER = 1.0, 0.7
"""Prior standard deviation of the values of the first head, and of the others."""
_IMPORTANCE = 1.5
_ROOM = 1.2
"""The ceiling, in units of the largest distance from the middle of the outputs' range, before the fit."""
_DEVIATION = 0.1
"""Variance of a position around its type, as a share of the type's own."""
_BACKGROUND = 3.0
_CEILING = 0.7
"""Prior standard deviations of a background's importance and of the logarithm of the ceiling."""
_FOLDS = 4
LEARNED = 1.0 - 1.0 / _FOLDS
"""The share of the queries that a fit has which is to predict the others."""
_SAMPLED = 8
"""Gradients of a query that stand for all of them where the spread is computed."""
_ROWS = 2000
"""Queries from which the spread is computed; of more than these, as many stand for all."""
_START = 0.5
"""Spread of the places from which all heads but the first set out, in units of the prior."""


@dataclass(frozen=True, eq=False)
class Told:
    """What the heads say of the queries."""

    weights: FloatArray
    """(H, units + 1) of the tokens, in each head relative to the largest."""
    total: FloatArray
    """(N, H) their sums over the tokens of each query."""
    each: FloatArray
    """(N, H, K) F_h"""
    level: FloatArray
    """(N, K) Σ_h F_h"""
    outputs: FloatArray
    """(N, K) a·tanh(Σ_h F_h / a)"""
    slope: FloatArray
    """(N, K) of the outputs by the level …"""
    bend: FloatArray
    """… and the second derivative."""

    @classmethod
    def at(cls, counts: sparse.csr_array, s: FloatArray, v: FloatArray, log_a: FloatArray) -> Told:
        """For counts (N, units + 1), importances (H, units + 1), values (H, units + 1, K)."""
        h, _, k = v.shape
        w, a = np.exp(s - s.max(axis=1, keepdims=True)), np.exp(log_a)
        weighted = np.concatenate([w[:, :, None], w[:, :, None] * v], axis=2)
        sums = (counts @ weighted.swapaxes(0, 1).reshape(-1, h * (1 + k))).reshape(-1, h, 1 + k)
        each = sums[:, :, 1:] / sums[:, :, :1]
        level = each.sum(axis=1)
        t = np.tanh(level / a)
        slope = 1.0 - t**2
        return cls(w, sums[:, :, 0], each, level, a * t, slope, -2.0 * t * slope / a)

    @property
    def by_ceiling(self) -> FloatArray:
        """(N, K) slopes of the outputs by log a."""
        return self.outputs - self.level * self.slope


@dataclass(frozen=True, eq=False)
class Spread:
    """The posterior of the linearised model: the prior less what the queries have told."""

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
        return own @ own.T - told.T @ told


@dataclass(frozen=True, eq=False)
class HeadsFit:
    """The fitted surrogate over the units, all outputs, and what is known of one of them."""

    surrogate: Heads
    spread: Spread
    left_out: FloatArray
    """(N,) the error on each query, of a fit without it where it is one of those to leave out."""


def fit(
    counts: sparse.csr_array,
    outputs: FloatArray,
    inverse: IntArray,
    *,
    slopes: FloatArray | None = None,
    held: IntArray | None = None,
    column: int = 0,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> HeadsFit:
    """Fits all outputs (N, K) of queries (N, units); `inverse` tells which units are copies of one type.

    `slopes` (Q, units) are soft-removal gradients of the last Q queries, added up over the tokens of a unit;
    `held` are the queries to leave out in turn, all unless told. Slopes, spread and errors are those of the
    output `column`.
    """
    # a saturated model has its mean near one end of its range, and needs room towards the other
    offset = (outputs.max(axis=0) + outputs.min(axis=0)) / 2
    scale = float(np.sqrt(outputs.var(axis=0).mean()))
    z = np.round((outputs - offset) / scale, _DIGITS)
    bent = np.zeros((0, len(inverse))) if slopes is None else np.round(slopes / scale, _DIGITS)
    task = _Task(_with_background(counts), z, bent, column)
    shape = (HEADS, len(inverse) + 1, z.shape[1])
    centre, prior = _prior(shape, inverse, z)
    rng = np.random.default_rng(seed)
    start = _start(shape, inverse, rng)

    def solved(task: _Task, steps: int) -> FloatArray:
        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            check()
            loss, gradient = task.misfit(centre + prior @ theta, shape)
            return loss + 0.5 * float(theta @ theta), prior.T @ gradient + theta

        options = {"maxiter": steps, "maxcor": 10, "ftol": 1e-6, "gtol": 1e-9}
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        return centre + prior @ np.asarray(found.x)

    x = solved(task, _STEPS)
    held = np.arange(len(z)) if held is None else held
    left_out = task.errors(x, shape)
    for part in _folds(np.diff(counts.indptr)[held], rng):
        rows = held[part]
        rest = np.delete(np.arange(len(z)), rows)
        left_out[rows] = task.only(rows).errors(solved(task.only(rest), _FOLD_STEPS), shape)
    noise = max(float((left_out[held if len(held) else slice(None)] ** 2).mean()), _LEAST_NOISE)
    known, triangle = task.spread(x, shape, prior, noise, rng)
    own = _own(prior, shape, column, scale)
    return HeadsFit(_surrogate(x, shape, offset, scale), Spread(own, known, triangle), scale * left_out)


def _folds(sizes: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Parts of the queries to leave out, each with copies of all sizes."""
    order = np.lexsort([rng.random(len(sizes)), sizes])
    return [order[at::_FOLDS] for at in range(min(_FOLDS, len(sizes)))]


def _with_background(counts: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(sparse.hstack([counts, np.ones((len(counts.indptr) - 1, 1))], format="csr"))


def _prior(shape: Shape, inverse: IntArray, z: FloatArray) -> tuple[FloatArray, sparse.csr_array]:
    """Centre and factor of the prior of the parameters."""
    h, u, k = shape
    tokens = _tokens(inverse)
    s = sparse.block_diag([_IMPORTANCE * tokens, [[_BACKGROUND]]])
    v = [sparse.block_diag([scale * tokens, [[scale]]]) for scale in [_FIRST] + [_FURTHER] * (h - 1)]
    each = [sparse.kron(one, sparse.eye_array(k)) for one in v]
    factor = sparse.block_diag([*[s] * h, *each, _CEILING * sparse.eye_array(k)], format="csr")
    centre = np.zeros(h * u * (1 + k) + k)
    _, values, ceiling = _parts(centre, shape)
    ceiling[:] = np.log(_ROOM * np.maximum(np.abs(z).max(axis=0), 1e-9))
    values[0] = np.exp(ceiling) * np.arctanh(z.mean(axis=0) / np.exp(ceiling))
    return centre, sparse.csr_array(factor)


def _tokens(inverse: IntArray) -> sparse.csr_array:
    """A unit is its type plus a deviation; what occurs once needs no parameter of its type."""
    copies = np.bincount(inverse)
    alone = copies[inverse] == 1
    types = np.flatnonzero(copies > 1)
    own = sparse.diags_array(np.sqrt(_DEVIATION + alone))
    at = np.flatnonzero(~alone)
    member = (np.ones(len(at)), (at, np.searchsorted(types, inverse[at])))
    return sparse.csr_array(
        sparse.hstack([own, sparse.csr_array(member, shape=(len(inverse), len(types)))], format="csr")
    )


def _start(shape: Shape, inverse: IntArray, rng: np.random.Generator) -> FloatArray:
    """All heads but the first set out from random places, or they would stay copies of one head."""
    h, u, k = shape
    width = u + int((np.bincount(inverse) > 1).sum())
    s = _START * rng.standard_normal((h, width))
    v = _START * rng.standard_normal((h, width, k))
    s[0], v[0] = 0.0, 0.0
    return np.concatenate([s.ravel(), v.ravel(), np.zeros(k)])


def _parts(x: FloatArray, shape: Shape) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Views of the importances (H, units + 1), values (H, units + 1, K) and log ceilings (K,)."""
    h, u, k = shape
    return x[: h * u].reshape(h, u), x[h * u : h * u * (1 + k)].reshape(h, u, k), x[h * u * (1 + k) :]


@dataclass(frozen=True, eq=False)
class _Task:
    """What is fitted: outputs of all queries, and gradients of the last ones in one of the outputs."""

    counts: sparse.csr_array
    """(N, units + 1)"""
    z: FloatArray
    """(N, K)"""
    slopes: FloatArray
    """(Q, units)"""
    column: int

    def misfit(self, x: FloatArray, shape: Shape) -> tuple[float, FloatArray]:
        """Half the weighted squares, and their gradient."""
        s, v, log_a = _parts(x, shape)
        told = Told.at(self.counts, s, v, log_a)
        error = told.outputs - self.z
        pull = error / _NOISE**2
        loss = 0.5 * float((pull * error).sum())
        back = _Back.of(told, pull)
        if len(self.slopes):
            loss += back.add_slopes(told, v, self._sloped, self.slopes, self.column)
        gradient = np.zeros_like(x)
        by_s, by_v, by_a = _parts(gradient, shape)
        by_w, by_weighted = back.collected(told, self.counts)
        by_s += told.weights * (by_w + (by_weighted * v).sum(axis=2))
        by_v += told.weights[:, :, None] * by_weighted
        by_a += back.ceiling
        return loss, gradient

    @cached_property
    def _sloped(self) -> FloatArray:
        """(Q, units) the tokens of the queries with gradients."""
        return self.counts[len(self.z) - len(self.slopes) :, :-1].toarray()

    def only(self, rows: IntArray) -> _Task:
        """The same of some queries, in ascending order."""
        first = len(self.z) - len(self.slopes)
        rows = np.sort(rows)
        slopes = self.slopes[rows[rows >= first] - first]
        return _Task(sparse.csr_array(self.counts[rows]), self.z[rows], slopes, self.column)

    def errors(self, x: FloatArray, shape: Shape) -> FloatArray:
        """(N,) of the output in question."""
        return (self.z - Told.at(self.counts, *_parts(x, shape)).outputs)[:, self.column]

    def spread(
        self, x: FloatArray, shape: Shape, prior: sparse.csr_array, noise: float, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """J L of the model linearised in x, and C."""
        if len(self.z) > _ROWS:
            some = self.only(rng.permutation(len(self.z))[:_ROWS])
            return some.spread(x, shape, prior, noise * _ROWS / len(self.z), rng)
        s, v, log_a = _parts(x, shape)
        told = Told.at(self.counts, s, v, log_a)
        line = _Line.of(self.counts, told, v[:, :, self.column], self.column)
        seen = [line.jacobian(shape)]
        if len(self.slopes):
            seen.append(line.slope_jacobian(len(self.z) - len(self.slopes), shape, rng))
        known = sparse.csr_array(sparse.vstack(seen, format="csr") @ prior, dtype=np.float32).toarray()
        gram = (known @ known.T).astype(float)
        return known, linalg.cholesky(gram + noise * np.eye(len(gram)), lower=True, check_finite=False)


@dataclass(frozen=True, eq=False)
class _Back:
    """The gradient of the misfit by what the heads say, on its way back to the parameters."""

    each: FloatArray
    """(N, H, K) by F_h"""
    total: FloatArray
    """(N, H)"""
    weights: FloatArray
    """(H, units + 1)"""
    weighted: FloatArray
    """(H, units + 1, K) by weight times value"""
    ceiling: FloatArray
    """(K,) by log a"""

    @classmethod
    def of(cls, told: Told, pull: FloatArray) -> _Back:
        n, h, k = told.each.shape
        each = np.repeat((pull * told.slope)[:, None], h, axis=1)
        u = told.weights.shape[1]
        by_ceiling = (pull * told.by_ceiling).sum(axis=0)
        return cls(each, np.zeros((n, h)), np.zeros((h, u)), np.zeros((h, u, k)), by_ceiling)

    def add_slopes(
        self, told: Told, v: FloatArray, tokens: FloatArray, slopes: FloatArray, column: int
    ) -> float:
        """Adds what soft-removal gradients (Q, units) of the last queries pull; returns their loss.

        G_i = slope Σ_h (w_hi v_hi / Z_h − w_hi F_h / Z_h) for each token of unit i.
        """
        last = slice(len(told.total) - len(slopes), None)
        w, weighted = told.weights[:, :-1], told.weights[:, :-1] * v[:, :-1, column]
        one, each = 1.0 / told.total[last], told.each[last, :, column]
        slope = told.slope[last, column, None]
        g = one @ weighted - (each * one) @ w
        error = tokens * (slope * g) - slopes
        pull = error * tokens.sum(axis=1, keepdims=True) / _SLOPE_NOISE**2
        straight = pull * slope
        by_one, by_each = straight @ weighted.T, -(straight @ w.T)
        self.weighted[:, :-1, column] += one.T @ straight
        self.weights[:, :-1] -= (each * one).T @ straight
        self.total[last] -= (by_one + by_each * each) * one**2
        curved = (pull * g).sum(axis=1) * told.bend[last, column]
        self.each[last, :, column] += by_each * one + curved[:, None]
        self.ceiling[column] -= float(curved @ told.level[last, column])
        return 0.5 * float((pull * error / np.maximum(tokens, 1.0)).sum())

    def collected(self, told: Told, counts: sparse.csr_array) -> tuple[FloatArray, FloatArray]:
        """By the weights (H, units + 1), values held apart, and by weights times values."""
        n, h, k = self.each.shape
        by_sum = self.each / told.total[:, :, None]
        by_total = self.total - (by_sum * told.each).sum(axis=2)
        both = np.concatenate([by_total[:, :, None], by_sum], axis=2).reshape(n, -1)
        back = (counts.T @ both).reshape(-1, h, 1 + k).swapaxes(0, 1)
        return self.weights + back[:, :, 0], self.weighted + back[:, :, 1:]


@dataclass(frozen=True, eq=False)
class _Line:
    """The model linearised at its solution, by entry (query, unit) of the counts, for one output."""

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
        slope = self.told.slope[self.row, self.output]
        by_a = self.told.by_ceiling[:, self.output]
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
        slope, bend = self.told.slope[query, self.output], self.told.bend[query, self.output]
        total = moved.sum(axis=0)
        straight = slope * own - bend * total
        here = entry == at[row]
        by_s = (slope * moved)[:, row] * (here - self.shares[:, entry])
        by_s -= straight[:, row] * self.moved[:, entry]
        by_v = (slope * own)[:, row] * here - straight[:, row] * self.shares[:, entry]
        by_a = -bend * self.told.level[query, self.output] * total
        weight = self._weights(at, query)
        by_s, by_v, by_a = weight[row] * by_s, weight[row] * by_v, weight * by_a
        return _rows(row, self.column[entry], by_s, by_v, by_a, shape, self.output)

    def _weights(self, at: IntArray, query: IntArray) -> FloatArray:
        """Of sampled gradients: those of all tokens of the query, shared out."""
        tokens = np.add.reduceat(self.copies, self.start[:-1])[query] - 1.0
        sampled = np.add.reduceat(self.copies[at], np.flatnonzero(np.diff(query, prepend=-1)))
        shared = tokens / np.repeat(sampled, np.bincount(query)[np.unique(query)])
        return _NOISE / _SLOPE_NOISE * np.sqrt(tokens * shared * self.copies[at])


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
    (h, u, k), n = shape, len(by_a)
    places = np.arange(h)[:, None] * u + column
    size = h * u * (1 + k) + k
    columns = [places.ravel(), (h * u + places * k + output).ravel(), np.full(n, size - k + output)]
    rows = np.r_[np.tile(row, 2 * h), np.arange(n)]
    data = np.concatenate([by_s.ravel(), by_v.ravel(), by_a])
    return sparse.csr_array((data, (rows, np.concatenate(columns))), shape=(n, size))


def _own(prior: sparse.csr_array, shape: Shape, column: int, scale: float) -> sparse.csr_array:
    """The prior of one output's parameters, its values in units of the output."""
    h, u, k = shape
    values = h * u + np.arange(h * u) * k + column
    factor = np.r_[np.ones(h * u), np.full(h * u, scale), 1.0]
    rows = np.r_[np.arange(h * u), values, h * u * (1 + k) + column]
    return sparse.csr_array(prior[rows].multiply(factor[:, None]), dtype=np.float32)


def _surrogate(x: FloatArray, shape: Shape, offset: FloatArray, scale: float) -> Heads:
    s, v, log_a = _parts(x, shape)
    parts = tuple(
        Slalom(scale * values[:-1], own[:-1], scale * values[-1], float(own[-1]))
        for own, values in zip(s, v, strict=True)
    )
    return Heads(parts, offset, scale * np.exp(log_a))
