"""Several SLALOMs added up below a ceiling (maths 3h), fitted to outputs and gradients (maths 3g).

    y = offset + a·tanh(Σ_h F_h / a),   G_i = ∂y/∂log λ_i = (1 − tanh²) Σ_h α_hi (v_hi − F_h)

Importances and values move together by L-BFGS with a Gaussian prior; copies of a token deviate little from
each other. The covariance is that of the linearised model, computed in the space of the queries, which are
fewer than the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import minimize

from slalom.perturb import Perturbations
from slalom.surrogate import Heads, Slalom
from slalom.tokens import FloatArray, IntArray

Shape = tuple[int, int, int]
"""Heads, units and the background, outputs."""

HEADS = 6
"""Fewer predict less well, more take longer (docs/design-study.md)."""
_STEPS = 120
_NOISE = 0.3
"""Standard deviation of what is left unexplained, in units of the outputs'; of a gradient's entry, 1."""
_LEAST_NOISE = 1e-12
_DIGITS = 3
"""Of the outputs in units of their spread. Steps that end early would carry float32 rounding, which depends
on batch and processor, into the scores; so it is rounded away, far below the noise."""
_FIRST, _FURTHER = 2.0, 0.7
"""Prior standard deviation of the values of the first head, and of the others."""
_ROOM = 1.2
"""The ceiling, in units of the largest distance from the middle of the outputs' range, before the fit."""
_DEVIATION = 0.3
"""Variance of a position around its type, as a share of the type's own."""
_BACKGROUND = 2.0
_CEILING = 0.7
"""Prior standard deviations of a background's importance and of the logarithm of the ceiling."""
_LEAST_FREE = 0.2
"""Of an error that is left when its query is fitted, at least: the steps end before the last digits."""
_SAMPLED = 8
"""Gradients of a query that stand for all of them where the spread is computed."""
_START = 0.5
"""Spread of the places from which all heads but the first set out, in units of the prior."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Queries as a list of entries (query, unit), the background at the end of each query."""

    row: IntArray
    column: IntArray
    start: IntArray
    units: int

    @classmethod
    def of(cls, queries: Perturbations, units: IntArray, n_units: int) -> Entries:
        """`units` maps positions to units."""
        ends = queries.offsets[1:]
        return cls(
            np.insert(queries.rows, ends, np.arange(len(queries))),
            np.insert(units[queries.positions], ends, n_units),
            queries.offsets[:-1] + np.arange(len(queries)),
            n_units,
        )

    def __len__(self) -> int:
        return len(self.start)

    def tail(self, count: int) -> Entries:
        """The last queries, which have `count` entries."""
        at = len(self.column) - count
        first = int(self.row[at])
        return Entries(self.row[at:] - first, self.column[at:], self.start[first:] - at, self.units)

    def sums(self, entries: FloatArray) -> FloatArray:
        """(…, N) sums over the entries of each query."""
        return np.add.reduceat(entries, self.start, axis=-1)

    def collected(self, entries: FloatArray) -> FloatArray:
        """(H, units + 1) sums of (H, E) over the entries of each unit."""
        found = [np.bincount(self.column, one, self.units + 1) for one in entries]
        return np.stack(found).astype(float, copy=False)

    def shares(self, s: FloatArray) -> FloatArray:
        """(H, E) softmax shares for (H, units + 1) importances."""
        w = np.exp(s - s.max(axis=1, keepdims=True))[:, self.column]
        return w / self.sums(w)[:, self.row]


@dataclass(frozen=True, eq=False)
class Told:
    """What the heads say of the queries, for one output."""

    entries: Entries
    shares: FloatArray
    """(H, E)"""
    moved: FloatArray
    """(H, E) share (v − F_h)"""
    level: FloatArray
    """(N,) Σ_h F_h"""
    outputs: FloatArray
    """(N,) a·tanh(Σ_h F_h / a)"""
    slope: FloatArray
    """(N,) of the outputs by the level …"""
    bend: FloatArray
    """… and the second derivative."""

    @classmethod
    def at(cls, entries: Entries, shares: FloatArray, v: FloatArray, log_a: float) -> Told:
        """For values (H, units + 1)."""
        values, a = v[:, entries.column], np.exp(log_a)
        each = entries.sums(shares * values)
        level = each.sum(axis=0)
        t = np.tanh(level / a)
        slope = 1.0 - t**2
        moved = shares * (values - each[:, entries.row])
        return cls(entries, shares, moved, level, a * t, slope, -2.0 * t * slope / a)

    def tail(self, count: int) -> Told:
        """The same of the last queries, which have `count` entries."""
        entries = self.entries.tail(count)
        parts = (part[-len(entries) :] for part in (self.level, self.outputs, self.slope, self.bend))
        return Told(entries, self.shares[:, -count:], self.moved[:, -count:], *parts)

    @property
    def by_ceiling(self) -> FloatArray:
        """(N,) slopes of the outputs by log a."""
        return self.outputs - self.level * self.slope


@dataclass(frozen=True, eq=False)
class Spread:
    """The posterior of the linearised model: the prior less what the queries have told."""

    prior: sparse.csr_array
    """L, where L Lᵀ is the prior covariance of the parameters."""
    told: FloatArray
    """C⁻¹ J L, where C Cᵀ = J L Lᵀ Jᵀ + noise."""

    def covariance(self, slopes: FloatArray) -> FloatArray:
        """(m, m) of m readings with these slopes (m, P)."""
        own = slopes @ self.prior
        told = self.told @ own.T
        return own @ own.T - told.T @ told


@dataclass(frozen=True, eq=False)
class HeadsFit:
    """The fitted surrogate over the units, all outputs, and what is known of one of them."""

    surrogate: Heads
    spread: Spread
    left_out: FloatArray
    """(N,) the error on each query when it is left out of the fit."""


def fit(
    entries: Entries,
    outputs: FloatArray,
    inverse: IntArray,
    *,
    slopes: FloatArray | None = None,
    column: int = 0,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> HeadsFit:
    """Fits all outputs (N, K); `inverse` tells which units are copies of one type.

    `slopes` are soft-removal gradients of the last queries: a number for each of their entries, zero at the
    background's. They, spread and left-out errors are those of the output `column`.
    """
    # a saturated model has its mean near one end of its range, and needs room towards the other
    offset = (outputs.max(axis=0) + outputs.min(axis=0)) / 2
    scale = float(np.sqrt(outputs.var(axis=0).mean()))
    z = np.round((outputs - offset) / scale, _DIGITS)
    shape = (HEADS, entries.units + 1, z.shape[1])
    centre, prior = _prior(shape, inverse, z)
    bent = np.zeros(0) if slopes is None else np.round(slopes / scale, _DIGITS)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        check()
        loss, gradient = _misfit(centre + prior @ theta, shape, entries, z, bent, column)
        return loss + 0.5 * float(theta @ theta), prior.T @ gradient + theta

    options = {"maxiter": _STEPS, "maxcor": 10, "ftol": 1e-6, "gtol": 1e-9}
    rng = np.random.default_rng(seed)
    start = _start(shape, inverse, rng)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    x = centre + prior @ np.asarray(found.x)
    told, left_out = _spread(x, shape, entries, z[:, column], bent, prior, column, rng)
    own = _own(prior, shape, column, scale)
    return HeadsFit(_surrogate(x, shape, offset, scale), Spread(own, told), scale * left_out)


def _prior(shape: Shape, inverse: IntArray, z: FloatArray) -> tuple[FloatArray, sparse.csr_array]:
    """Centre and factor of the prior: a unit is its type plus a deviation; the background is alone."""
    h, u, k = shape
    member = sparse.csr_array((np.ones(u - 1), (np.arange(u - 1), inverse)))
    tokens = sparse.hstack([np.sqrt(_DEVIATION) * sparse.eye_array(u - 1), member])
    s = sparse.block_diag([tokens, [[_BACKGROUND]]])
    v = [sparse.block_diag([scale * tokens, [[scale]]]) for scale in [_FIRST] + [_FURTHER] * (h - 1)]
    each = [sparse.kron(one, sparse.eye_array(k)) for one in v]
    factor = sparse.block_diag([*[s] * h, *each, _CEILING * sparse.eye_array(k)], format="csr")
    centre = np.zeros(h * u * (1 + k) + k)
    _, values, ceiling = _parts(centre, shape)
    ceiling[:] = np.log(_ROOM * np.maximum(np.abs(z).max(axis=0), 1e-9))
    values[0] = np.exp(ceiling) * np.arctanh(z.mean(axis=0) / np.exp(ceiling))
    return centre, sparse.csr_array(factor)


def _start(shape: Shape, inverse: IntArray, rng: np.random.Generator) -> FloatArray:
    """All heads but the first set out from random places, or they would stay copies of one head."""
    h, u, k = shape
    width = u + int(inverse.max()) + 1
    s = _START * rng.standard_normal((h, width))
    v = _START * rng.standard_normal((h, width, k))
    s[0], v[0] = 0.0, 0.0
    return np.concatenate([s.ravel(), v.ravel(), np.zeros(k)])


def _parts(x: FloatArray, shape: Shape) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Views of the importances (H, units + 1), values (H, units + 1, K) and log ceilings (K,)."""
    h, u, k = shape
    return x[: h * u].reshape(h, u), x[h * u : h * u * (1 + k)].reshape(h, u, k), x[h * u * (1 + k) :]


def _misfit(
    x: FloatArray, shape: Shape, entries: Entries, z: FloatArray, slopes: FloatArray, column: int
) -> tuple[float, FloatArray]:
    """Half the weighted squares, and their gradient."""
    s, v, log_a = _parts(x, shape)
    gradient = np.zeros_like(x)
    by_s, by_v, by_a = _parts(gradient, shape)
    shares, loss = entries.shares(s), 0.0
    for k in range(shape[2]):
        told = Told.at(entries, shares, v[:, :, k], log_a[k])
        error = told.outputs - z[:, k]
        pull = error / _NOISE**2
        each = (pull * told.slope)[entries.row]
        to_s, to_v = each * told.moved, each * shares
        by_a[k] += pull @ told.by_ceiling
        loss += 0.5 * float(pull @ error)
        if k == column and len(slopes):
            lost, more_s, more_v, more_a = _slope_misfit(told.tail(len(slopes)), slopes)
            to_s[:, -len(slopes) :] += more_s
            to_v[:, -len(slopes) :] += more_v
            by_a[k] += more_a
            loss += lost
        by_s += entries.collected(to_s)
        by_v[:, :, k] += entries.collected(to_v)
    return loss, gradient


def _slope_misfit(told: Told, slopes: FloatArray) -> tuple[float, FloatArray, FloatArray, float]:
    """The same for soft-removal gradients: loss, and what it adds by entry to the gradients."""
    entries, row = told.entries, told.entries.row
    # gradients shrink as copies grow, and so do their errors
    tokens = (entries.column < entries.units).astype(float)
    total = told.moved.sum(axis=0)
    error = told.slope[row] * total - slopes
    pull = entries.sums(tokens)[row] * tokens * error
    straight = pull * told.slope[row]
    curved = entries.sums(pull * total) * told.bend
    along = (entries.sums(straight * told.shares) - curved)[:, row]
    across = entries.sums(straight * told.moved)[:, row]
    to_s = straight * told.moved - across * told.shares - along * told.moved
    return 0.5 * float(pull @ error), to_s, (straight - along) * told.shares, -float(curved @ told.level)


def _spread(
    x: FloatArray,
    shape: Shape,
    entries: Entries,
    z: FloatArray,
    slopes: FloatArray,
    prior: sparse.csr_array,
    column: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """C⁻¹ J L of the model linearised in x, and the errors on left-out outputs, in units of z."""
    s, v, log_a = _parts(x, shape)
    told = Told.at(entries, entries.shares(s), v[:, :, column], log_a[column])
    each, n = told.slope[entries.row], len(z)
    seen = [_jacobian(entries, each * told.moved, each * told.shares, told.by_ceiling, shape, column)]
    if len(slopes):
        seen.append(_slope_jacobian(told.tail(len(slopes)), shape, column, rng))
    known = sparse.csr_array(sparse.vstack(seen, format="csr") @ prior)
    gram = (known @ known.T).toarray()
    inverse = linalg.inv(gram + _NOISE**2 * np.eye(len(gram)), check_finite=False)
    left_out = (z - told.outputs) / np.maximum(_NOISE**2 * np.diag(inverse)[:n], _LEAST_FREE)
    noise = max(float((left_out**2).mean()), _LEAST_NOISE)
    triangle = linalg.cholesky(gram + noise * np.eye(len(gram)), lower=True, check_finite=False)
    return linalg.solve_triangular(triangle, known.toarray(), lower=True, check_finite=False), left_out


def _jacobian(
    entries: Entries, by_s: FloatArray, by_v: FloatArray, by_a: FloatArray, shape: Shape, column: int
) -> sparse.csr_array:
    """(N, P) from slopes by entry (H, E) and by query (N,)."""
    (h, u, k), n = shape, len(by_a)
    places = np.arange(h)[:, None] * u + entries.column
    size = h * u * (1 + k) + k
    columns = [places.ravel(), (h * u + places * k + column).ravel(), np.full(n, size - k + column)]
    rows = np.r_[np.tile(entries.row, 2 * h), np.arange(n)]
    data = np.concatenate([by_s.ravel(), by_v.ravel(), by_a])
    return sparse.csr_array((data, (rows, np.concatenate(columns))), shape=(n, size))


def _slope_jacobian(told: Told, shape: Shape, column: int, rng: np.random.Generator) -> sparse.csr_array:
    """Of a few gradients of each query, which stand for all of them, scaled to the noise of an output."""
    entries, total = told.entries, told.moved.sum(axis=0)
    sizes = np.diff(entries.start, append=len(entries.column)) - 1
    drawn = [rng.permutation(size)[:_SAMPLED] + at for at, size in zip(entries.start, sizes, strict=True)]
    at = np.concatenate(drawn)
    query = entries.row[at]
    # every gradient hangs on all entries of its query
    lengths = sizes[query] + 1
    first, row = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(at)), lengths)
    own = np.arange(len(row)) + (entries.start[query] - first)[row]
    slope, bend, size = told.slope[query], told.bend[query], sizes[query]
    straight = slope * told.shares[:, at] - bend * total[at]
    here = own == at[row]
    by_s = (slope * told.moved[:, at])[:, row] * (here - told.shares[:, own])
    by_s -= straight[:, row] * told.moved[:, own]
    by_v = (slope * told.shares[:, at])[:, row] * here - straight[:, row] * told.shares[:, own]
    weight = _NOISE * size / np.sqrt(np.minimum(size, _SAMPLED))
    rows = Entries(row, entries.column[own], first, entries.units)
    by_a = -bend * told.level[query] * total[at]
    return _jacobian(rows, weight[row] * by_s, weight[row] * by_v, weight * by_a, shape, column)


def _own(prior: sparse.csr_array, shape: Shape, column: int, scale: float) -> sparse.csr_array:
    """The prior of one output's parameters, its values in units of the output."""
    h, u, k = shape
    values = h * u + np.arange(h * u) * k + column
    factor = np.r_[np.ones(h * u), np.full(h * u, scale), 1.0]
    rows = np.r_[np.arange(h * u), values, h * u * (1 + k) + column]
    return sparse.csr_array(prior[rows].multiply(factor[:, None]))


def _surrogate(x: FloatArray, shape: Shape, offset: FloatArray, scale: float) -> Heads:
    s, v, log_a = _parts(x, shape)
    parts = tuple(
        Slalom(scale * values[:-1], own[:-1], scale * values[-1], float(own[-1]))
        for own, values in zip(s, v, strict=True)
    )
    return Heads(parts, offset, scale * np.exp(log_a))
