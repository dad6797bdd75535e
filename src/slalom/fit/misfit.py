"""How far groups of heads are from a model's outputs and gradients, which way to go, and what is expected of
them before (maths 3g, 3h).

    y = a·tanh(Σ_h F_h / a),   G_i = ∂y/∂log λ_i = (1 − tanh²) Σ_h α_hi (v_hi − F_h)

Every group of heads is a surrogate of its own, with queries of its own to learn from; they share the ceiling
a. All of them move at once, so that the work is done by few large matrix products.

How well one group is known is the posterior of the model linearised at its solution, computed in the space of
the queries, which are fewer than the parameters. The outputs of the queries count; what gradients tell beyond
them is left out, so that the spread is rather too wide.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from slalom.tokens import FloatArray, IntArray

NOISE = 0.25
"""Standard deviation of what is left unexplained, in units of the outputs' …"""
SLOPE_NOISE = 0.7
"""… and of a gradient's entry, times the root of the copy's size: gradients shrink as copies grow."""
STEEP = 25.0
"""A gradient as long as this, in the same units, has twice that variance: where the model is on the brink of
another answer, its slope holds for the smallest changes only."""


class Shape(NamedTuple):
    """Of the parameters. Heads stand group after group; the background is the last unit."""

    groups: int
    heads: int
    """In a group."""
    units: int
    """With the background."""
    outputs: int

    @property
    def all_heads(self) -> int:
        return self.groups * self.heads

    @property
    def size(self) -> int:
        return self.all_heads * self.units * (1 + self.outputs) + self.outputs

    def parts(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of importances (heads, units), values (heads, units, outputs), log ceilings (outputs,)."""
        t, u, k = self.all_heads, self.units, self.outputs
        return (x[: t * u].reshape(t, u), x[t * u : t * u * (1 + k)].reshape(t, u, k), x[t * u * (1 + k) :])


@dataclass(frozen=True, eq=False)
class Told:
    """What T heads in G groups say of N queries, K outputs."""

    weights: FloatArray
    """(T, units) of the tokens, in each head relative to the largest."""
    total: FloatArray
    """(N, T) their sums over the tokens of each query."""
    each: FloatArray
    """(N, T, K) F_h"""
    level: FloatArray
    """(N, G, K) Σ_h F_h"""
    outputs: FloatArray
    """(N, G, K) a·tanh(Σ_h F_h / a)"""
    slope: FloatArray
    """(N, G, K) of the outputs by the level …"""
    bend: FloatArray
    """… and the second derivative."""

    @classmethod
    def at(cls, counts: sparse.csr_array, x: FloatArray, shape: Shape) -> Told:
        """For counts (N, units)."""
        s, v, log_a = shape.parts(x)
        t, _, k = v.shape
        w, a = np.exp(s - s.max(axis=1, keepdims=True)), np.exp(log_a)
        weighted = np.concatenate([w[:, :, None], w[:, :, None] * v], axis=2)
        sums = (counts @ weighted.swapaxes(0, 1).reshape(-1, t * (1 + k))).reshape(-1, t, 1 + k)
        each = sums[:, :, 1:] / sums[:, :, :1]
        level = each.reshape(-1, shape.groups, shape.heads, k).sum(axis=2)
        bent = np.tanh(level / a)
        slope = 1.0 - bent**2
        return cls(w, sums[:, :, 0], each, level, a * bent, slope, -2.0 * bent * slope / a)

    @property
    def by_ceiling(self) -> FloatArray:
        """(N, G, K) slopes of the outputs by log a."""
        return self.outputs - self.level * self.slope


@dataclass(frozen=True, eq=False)
class Task:
    """What is fitted: outputs of all queries, and gradients of the last ones in one of the outputs."""

    counts: sparse.csr_array
    """(N, units), the background among them"""
    z: FloatArray
    """(N, K)"""
    slopes: FloatArray
    """(Q, units without the background)"""
    column: int
    seen: FloatArray
    """(N, G) one where a group learns from a query, zero where it is not to see it."""

    def misfit(self, x: FloatArray, shape: Shape) -> tuple[float, FloatArray]:
        """Half the weighted squares, and their gradient."""
        _, v, _ = shape.parts(x)
        told = Told.at(self.counts, x, shape)
        error = told.outputs - self.z[:, None]
        pull = error * self.seen[:, :, None] / NOISE**2
        loss = 0.5 * float((pull * error).sum())
        back = _Back.of(told, pull, shape)
        if len(self.slopes):
            loss += back.add_slopes(told, v, self, shape)
        gradient = np.zeros_like(x)
        by_s, by_v, by_a = shape.parts(gradient)
        by_w, by_weighted = back.collected(told, self._transposed)
        by_s += told.weights * (by_w + (by_weighted * v).sum(axis=2))
        by_v += told.weights[:, :, None] * by_weighted
        by_a += back.ceiling
        return loss, gradient

    @cached_property
    def _transposed(self) -> sparse.csr_array:
        return sparse.csr_array(self.counts.T)

    @cached_property
    def sloped(self) -> FloatArray:
        """(Q, units without the background) the tokens of the queries with gradients."""
        return self.counts[len(self.z) - len(self.slopes) :, :-1].toarray()

    @cached_property
    def slope_weights(self) -> FloatArray:
        """(Q,) one over the variance of a gradient's entries."""
        sizes = self.sloped.sum(axis=1)
        lengths = sizes * (self.slopes**2).sum(axis=1)
        return sizes / SLOPE_NOISE**2 / (1.0 + lengths / STEEP**2)

    def errors(self, x: FloatArray, shape: Shape) -> FloatArray:
        """(N, G) of the output in question."""
        told = Told.at(self.counts, x, shape).outputs[:, :, self.column]
        return self.z[:, [self.column]] - told


@dataclass(frozen=True, eq=False)
class _Back:
    """The gradient of the misfit by what the heads say, on its way back to the parameters."""

    each: FloatArray
    """(N, T, K) by F_h"""
    total: FloatArray
    """(N, T)"""
    weights: FloatArray
    """(T, units)"""
    weighted: FloatArray
    """(T, units, K) by weight times value"""
    ceiling: FloatArray
    """(K,) by log a"""

    @classmethod
    def of(cls, told: Told, pull: FloatArray, shape: Shape) -> _Back:
        each = np.repeat(pull * told.slope, shape.heads, axis=1)
        t, u = told.weights.shape
        by_ceiling = (pull * told.by_ceiling).sum(axis=(0, 1))
        return cls(
            each, np.zeros_like(told.total), np.zeros((t, u)), np.zeros((t, u, pull.shape[2])), by_ceiling
        )

    def add_slopes(self, told: Told, v: FloatArray, task: Task, shape: Shape) -> float:
        """Adds what soft-removal gradients of the last queries pull; returns their loss.

        G_i = slope Σ_h (w_hi v_hi / Z_h − w_hi F_h / Z_h) for each token of unit i. Groups come first.
        """
        last, k, tokens = slice(len(told.total) - len(task.slopes), None), task.column, task.sloped
        grouped = (shape.groups, shape.heads, -1)
        w = told.weights[:, :-1].reshape(grouped)
        weighted = (told.weights[:, :-1] * v[:, :-1, k]).reshape(grouped)
        one, each = (
            part.T.reshape(grouped).swapaxes(1, 2) for part in (1.0 / told.total[last], told.each[last, :, k])
        )
        slope = told.slope[last, :, k].T[:, :, None]
        g = one @ weighted - (each * one) @ w
        error = tokens * (slope * g) - task.slopes
        pull = error * task.slope_weights[:, None] * task.seen[last].T[:, :, None]
        straight = pull * slope
        by_one, by_each = straight @ weighted.swapaxes(1, 2), -(straight @ w.swapaxes(1, 2))
        flat = (shape.all_heads, -1)
        self.weighted[:, :-1, k] += (one.swapaxes(1, 2) @ straight).reshape(flat)
        self.weights[:, :-1] -= ((each * one).swapaxes(1, 2) @ straight).reshape(flat)
        self.total[last] -= ((by_one + by_each * each) * one**2).swapaxes(1, 2).reshape(flat).T
        curved = (pull * g).sum(axis=2) * told.bend[last, :, k].T
        self.each[last, :, k] += (by_each * one + curved[:, :, None]).swapaxes(1, 2).reshape(flat).T
        self.ceiling[k] -= float((curved * told.level[last, :, k].T).sum())
        return 0.5 * float((pull * error / np.maximum(tokens, 1.0)).sum())

    def collected(self, told: Told, transposed: sparse.csr_array) -> tuple[FloatArray, FloatArray]:
        """By the weights (T, units), values held apart, and by weights times values."""
        n, t, k = self.each.shape
        by_sum = self.each / told.total[:, :, None]
        by_total = self.total - (by_sum * told.each).sum(axis=2)
        both = np.concatenate([by_total[:, :, None], by_sum], axis=2).reshape(n, -1)
        back = (transposed @ both).reshape(-1, t, 1 + k).swapaxes(0, 1)
        return self.weights + back[:, :, 0], self.weighted + back[:, :, 1:]


_FIRST, _FURTHER = 1.0, 0.8
"""Prior standard deviation of the values of the first head of a group, and of the others."""
_IMPORTANCE = 2.0
_ROOM = 1.2
"""The ceiling, in units of the largest distance from the middle of the outputs' range, before the fit."""
_DEVIATION = 0.1
"""Variance of a position around its type, as a share of the type's own."""
_LIKENESS, _DIRECTIONS = 0.6, 8
"""The share of the prior variance that follows the embeddings, along their largest principal directions."""
_BACKGROUND = 1.5
_CEILING = 0.7
"""Prior standard deviations of a background's importance and of the logarithm of the ceiling."""


def prior(shape: Shape, tokens: sparse.csr_array, z: FloatArray) -> tuple[FloatArray, sparse.csr_array]:
    """Centre and factor of the prior of the parameters; `tokens` is that of the tokens' own."""
    outputs = sparse.eye_array(shape.outputs)
    s = sparse.block_diag([_IMPORTANCE * tokens, [[_BACKGROUND]]])
    v = sparse.kron(sparse.block_diag([tokens, [[1.0]]]), outputs)
    wide = [_FIRST] + [_FURTHER] * (shape.heads - 1)
    each = [wide[at % shape.heads] * v for at in range(shape.all_heads)]
    factor = sparse.block_diag([*[s] * shape.all_heads, *each, _CEILING * outputs], format="csr")
    centre = np.zeros(shape.size)
    _, values, ceiling = shape.parts(centre)
    ceiling[:] = np.log(_ROOM * np.maximum(np.abs(z).max(axis=0), 1e-9))
    values[:: shape.heads] = np.exp(ceiling) * np.arctanh(z.mean(axis=0) / np.exp(ceiling))
    return centre, sparse.csr_array(factor)


def token_prior(inverse: IntArray, embeddings: FloatArray | None) -> sparse.csr_array:
    """(units, …) a unit is its type plus a deviation; what occurs once needs no parameter of its type."""
    copies = np.bincount(inverse)
    alone = copies[inverse] == 1
    types = np.flatnonzero(copies > 1)
    own = sparse.diags_array(np.sqrt(_DEVIATION + alone))
    at = np.flatnonzero(~alone)
    member = (np.ones(len(at)), (at, np.searchsorted(types, inverse[at])))
    apart = sparse.hstack([own, sparse.csr_array(member, shape=(len(inverse), len(types)))])
    if embeddings is None or len(copies) < 2:
        return sparse.csr_array(apart)
    alike = sparse.csr_array(np.sqrt(_LIKENESS) * directions(embeddings, inverse))
    return sparse.csr_array(sparse.hstack([np.sqrt(1.0 - _LIKENESS) * apart, alike]))


def directions(embeddings: FloatArray, inverse: IntArray) -> FloatArray:
    """(units, at most _DIRECTIONS) where embeddings point from their mean, over types of unit mean square."""
    first = np.unique(inverse, return_index=True)[1]
    apart = embeddings - embeddings[first].mean(axis=0)
    apart = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-12)
    axes = np.linalg.svd(apart[first], full_matrices=False)[2][:_DIRECTIONS]
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    along = apart @ axes.T
    return along / max(float(np.sqrt((along[first] ** 2).sum(axis=1).mean())), 1e-12)


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
