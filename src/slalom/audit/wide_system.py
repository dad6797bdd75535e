"""The Gauss–Newton system of a SLALOM over very many token types, never written down as a matrix.

With shares A (N × d, sparse), a0 the background's share, m the mass of a query and F = A v + a0 v0, the
Jacobian of maths 3c acts on a change (x_s, x_w0, x_v, x_v0) as

    (J x)_k = A (v_k x_s + x_vk) − F_k (A x_s) + (v0_k − F_k) x_w0 / m + a0 x_v0k

so that one product with A serves all outputs k. Parameters are arrays (d + 1, 1 + K, m): types and, last, the
background; importance (the background: its weight w0) and K values; m changes at a time.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from slalom.tokens import FloatArray, IntArray

_NOISE_FLOOR = 1e-14
_ENTRIES = 8_000_000
"""Numbers that one round of samples may hold over the queries."""

TOLERANCE = 1e-3
MOST = 400
"""Conjugate gradient steps of one system."""


@dataclass(frozen=True, eq=False)
class Data:
    """Counts (N × d) and outputs (N × K)."""

    counts: sparse.csr_array
    outputs: FloatArray
    rows: IntArray
    """The row of every entry of the counts."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Noise variance of the outputs, prior variances of importances and of values around their centre."""

    noise: float
    s: float
    v: float
    centre: FloatArray
    """(K,)"""

    def precision(self, n_types: int) -> FloatArray:
        """(d + 1, 1 + K, 1); the background's weight has none."""
        result = np.full((n_types + 1, 1 + len(self.centre), 1), 1.0 / self.v)
        result[:, 0] = 1.0 / self.s
        result[-1, 0] = 0.0
        return result


@dataclass(frozen=True, eq=False)
class WidePoint:
    """Parameters (d + 1, 1 + K) and what they predict."""

    parameters: FloatArray
    shares: sparse.csr_array
    background: FloatArray
    """(N,) its share."""
    mass: FloatArray
    told: FloatArray
    """(N, K) predictions."""

    @property
    def values(self) -> FloatArray:
        return self.parameters[:, 1:]


def point(data: Data, parameters: FloatArray) -> WidePoint:
    """The predictions at these parameters."""
    weights, w0 = np.exp(parameters[:-1, 0]), parameters[-1, 0]
    entries = data.counts.data * weights[data.counts.indices]
    mass = np.bincount(data.rows, weights=entries, minlength=len(data.outputs)) + w0
    entries /= mass[data.rows]
    shares = sparse.csr_array((entries, data.counts.indices, data.counts.indptr), shape=data.counts.shape)
    background = w0 / mass
    told = shares @ parameters[:-1, 1:] + background[:, None] * parameters[-1, 1:]
    return WidePoint(parameters, shares, background, mass, told)


def forward(at: WidePoint, change: FloatArray) -> FloatArray:
    """J x: (N, K, m) from (d + 1, 1 + K, m)."""
    n_types, m = len(change) - 1, change.shape[2]
    stack = change[:-1].copy()
    stack[:, 1:] += at.values[:-1, :, None] * change[:-1, :1]
    product = (at.shares @ stack.reshape(n_types, -1)).reshape(len(at.mass), -1, m)
    result = product[:, 1:] - at.told[:, :, None] * product[:, :1]
    result += ((at.values[-1] - at.told) / at.mass[:, None])[:, :, None] * change[-1, 0]
    result += at.background[:, None, None] * change[-1, 1:]
    return result


def backward(at: WidePoint, residual: FloatArray) -> FloatArray:
    """Jᵀ r: (d + 1, 1 + K, m) from (N, K, m)."""
    n, k, m = residual.shape
    stack = np.concatenate([(at.told[:, :, None] * residual).sum(axis=1, keepdims=True), residual], axis=1)
    product = (at.shares.T @ stack.reshape(n, -1)).reshape(-1, 1 + k, m)
    result = np.empty((len(product) + 1, 1 + k, m))
    result[:-1, 1:] = product[:, 1:]
    result[:-1, 0] = (at.values[:-1, :, None] * product[:, 1:]).sum(axis=1) - product[:, 0]
    slope = (at.values[-1] - at.told) / at.mass[:, None]
    result[-1, 0] = np.einsum("nk,nkm->m", slope, residual)
    result[-1, 1:] = np.einsum("n,nkm->km", at.background, residual)
    return result


@dataclass(frozen=True, eq=False)
class Blocks:
    """The system's own block of every type: [[a, bᵀ], [b, c I]] over its importance and its K values."""

    a: FloatArray
    """(d + 1,)"""
    b: FloatArray
    """(d + 1, K)"""
    c: FloatArray
    """(d + 1,)"""

    @property
    def schur(self) -> FloatArray:
        """a − bᵀb / c; rounding leaves a little of a."""
        return np.maximum(self.a - (self.b**2).sum(axis=1) / self.c, 1e-14 * self.a)

    def inverse(self) -> FloatArray:
        """(d + 1, 1 + 2 K): variance of the importance, of the values, and of both together."""
        schur, slope = self.schur[:, None], self.b / self.c[:, None]
        return np.concatenate([1.0 / schur, 1.0 / self.c[:, None] + slope**2 / schur, -slope / schur], axis=1)

    def solve(self, right: FloatArray) -> FloatArray:
        """The blocks' inverse times (d + 1, 1 + K, m)."""
        slope = self.b / self.c[:, None]
        result = np.empty_like(right)
        result[:, 0] = (right[:, 0] - (slope[:, :, None] * right[:, 1:]).sum(axis=1)) / self.schur[:, None]
        result[:, 1:] = right[:, 1:] / self.c[:, None, None] - slope[:, :, None] * result[:, :1]
        return result


def blocks(at: WidePoint, prior: Prior, damping: float = 0.0) -> Blocks:
    """The diagonal blocks of the system."""
    squares = sparse.csr_array((at.shares.data**2, at.shares.indices, at.shares.indptr), at.shares.shape).T
    n = len(at.told)
    sums = squares @ np.concatenate(
        [np.ones((n, 1)), at.told, (at.told**2).sum(axis=1, keepdims=True)], axis=1
    )
    values = at.values[:-1]
    a = (values**2).sum(axis=1) * sums[:, 0] - 2.0 * (values * sums[:, 1:-1]).sum(axis=1) + sums[:, -1]
    slope = (at.values[-1] - at.told) / at.mass[:, None]
    c = np.append(sums[:, 0], (at.background**2).sum())
    b = np.concatenate([values * sums[:, :1] - sums[:, 1:-1], (at.background @ slope)[None]])
    own = prior.precision(len(values))[:, :, 0]
    scale = (1.0 + damping) / prior.noise
    a = np.maximum(np.append(a, (slope**2).sum()), 0.0) * scale + (1.0 + damping) * own[:, 0]
    tiny = np.finfo(float).tiny
    return Blocks(np.maximum(a, tiny), b / prior.noise, c * scale + (1.0 + damping) * own[:, 1])


def system(at: WidePoint, prior: Prior, damping: float, own: Blocks) -> Callable[[FloatArray], FloatArray]:
    """x ↦ (JᵀJ / noise + Λ + damping · diagonal) x; `own` are the damped blocks."""
    precision = prior.precision(len(at.parameters) - 1)
    share = damping / (1.0 + damping)
    diagonal = np.repeat(own.c[:, None], precision.shape[1], axis=1)
    diagonal[:, 0] = own.a
    shift = precision + share * diagonal[:, :, None]

    def apply(change: FloatArray) -> FloatArray:
        return backward(at, forward(at, change)) / prior.noise + shift * change

    return apply


def solve(
    apply: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    own: Blocks,
    free: FloatArray,
    tolerance: float,
    most: int,
) -> FloatArray:
    """Conjugate gradients on m systems at once, preconditioned by the blocks; only `free` parameters move.

    Stops when every residual has fallen to `tolerance` of its start in the preconditioner's norm.
    """
    solution = np.zeros_like(right)
    residual = right * free
    scaled = own.solve(residual) * free
    direction = scaled
    size = (residual * scaled).sum(axis=(0, 1))
    goal = tolerance**2 * size
    for _ in range(most):
        if np.all(size <= goal):
            break
        image = apply(direction) * free
        curvature = (direction * image).sum(axis=(0, 1))
        step = np.divide(size, curvature, out=np.zeros_like(size), where=(curvature > 0) & (size > goal))
        solution = solution + step * direction
        residual = residual - step * image
        scaled = own.solve(residual) * free
        new = (residual * scaled).sum(axis=(0, 1))
        ratio = np.divide(new, size, out=np.zeros_like(size), where=size > 0)
        direction, size = scaled + ratio * direction, new
    return solution


def best_values(data: Data, prior: Prior, at: WidePoint) -> WidePoint:
    """The point with the best values at these importances: a linear problem."""
    free = np.ones((*at.parameters.shape, 1))
    free[:, 0] = 0.0
    own = blocks(at, prior)
    slope = gradient(data, prior, at)
    step = solve(system(at, prior, 0.0, own), slope, own, free, TOLERANCE, MOST)[:, :, 0]
    return point(data, at.parameters + step)


@dataclass(frozen=True, eq=False)
class PosteriorSpread:
    """Variances of the parameters, and how many parameters the data have determined."""

    variance: FloatArray
    """(d + 1, 1 + 2 K): of the importance, of the values, and of the importance with the values."""
    freedom: float


def spread(
    data: Data,
    at: WidePoint,
    prior: Prior,
    free: FloatArray,
    samples: int,
    rng: np.random.Generator,
    tolerance: float = 1e-2,
    most: int = 400,
) -> PosteriorSpread:
    """The posterior at a point, from random samples: a Gaussian with precision Q = JᵀJ / noise + Λ.

    A sample x is the solution of Q x = b with b = Jᵀ ε / √noise + Λ^½ η, ε and η standard normal. Given all
    other parameters, those of one type have the covariance Q_bb⁻¹ (a block that is known) around
    x_b − Q_bb⁻¹ b_b; so Var(x_b) = Q_bb⁻¹ + Var(x_b − Q_bb⁻¹ b_b), and only the second part is estimated (its
    relative error is at most √(2 / samples), and far less where the first part is the larger one).
    """
    n, k = data.outputs.shape
    own, precision = blocks(at, prior), prior.precision(len(at.parameters) - 1)
    apply = system(at, prior, 0.0, own)
    total = np.zeros((len(at.parameters), 1 + 2 * k))
    step = max(1, min(samples, _ENTRIES // (n * (1 + k))))
    for start in range(0, samples, step):
        m = min(step, samples - start)
        noise = rng.standard_normal((n, k, m)) / np.sqrt(prior.noise)
        right = backward(at, noise) + np.sqrt(precision) * rng.standard_normal((*at.parameters.shape, m))
        right *= free
        sample = solve(apply, right, own, free, tolerance, most)
        # Only differences of importances mean anything: a common shift is no uncertainty.
        sample[:-1, 0] -= sample[:-1, 0].mean(axis=0)
        total += _products(sample - own.solve(right) * free).sum(axis=2)
    fixed = free[:, :, 0]
    known = own.inverse() * np.concatenate([fixed, fixed[:, :1] * fixed[:, 1:]], axis=1)
    variance = known + total / samples
    used = precision[:-1, :, 0] * variance[:-1, : 1 + k]
    return PosteriorSpread(variance, float(fixed[:-1].sum() - used.sum() + fixed[-1].sum()))


def _products(sample: FloatArray) -> FloatArray:
    return np.concatenate([sample**2, sample[:, :1] * sample[:, 1:]], axis=1)


def gradient(data: Data, prior: Prior, at: WidePoint) -> FloatArray:
    """Of the objective, downhill: (d + 1, 1 + K, 1)."""
    pull = backward(at, (data.outputs - at.told)[:, :, None]) / prior.noise
    return pull - prior.precision(len(pull) - 1) * _around(prior, at.parameters)[:, :, None]


def _around(prior: Prior, parameters: FloatArray) -> FloatArray:
    return parameters - np.append(0.0, prior.centre)


def objective(data: Data, prior: Prior, at: WidePoint) -> float:
    """Squared residuals over the noise, and the prior's own penalty."""
    own = prior.precision(len(at.parameters) - 1)[:, :, 0] * _around(prior, at.parameters) ** 2
    return float(((data.outputs - at.told) ** 2).sum()) / prior.noise + float(own.sum())


def reestimate(data: Data, at: WidePoint, prior: Prior, found: PosteriorSpread) -> Prior:
    """MacKay's fixed point: variances from residuals and parameters, less what the posterior leaves open."""
    d, k = len(at.parameters) - 1, at.values.shape[1]
    left = float(((data.outputs - at.told) ** 2).sum())
    free = max(data.outputs.size - found.freedom, 0.1 * data.outputs.size)
    noise = max(left / free, _NOISE_FLOOR * float(data.outputs.var()))
    around = _around(prior, at.parameters)[:-1]
    known_s = d - float(found.variance[:-1, 0].sum()) / prior.s
    known_v = d * k - float(found.variance[:-1, 1 : 1 + k].sum()) / prior.v
    s = float(np.clip((around[:, 0] ** 2).sum() / max(known_s, 1e-3), 1e-4, 1e3))
    v = float((around[:, 1:] ** 2).sum()) / max(known_v, 1e-3)
    return Prior(noise, s, float(np.clip(v, 1e-6 * prior.v, 1e6 * prior.v)), prior.centre)
