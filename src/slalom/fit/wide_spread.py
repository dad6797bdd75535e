"""How uncertain the parameters of a wide fit are, without its covariance matrix.

The posterior is Gaussian with precision Q = JᵀJ / noise + Λ. A sample of it is the solution of Q x = b with
b = Jᵀ ε / √noise + Λ^½ η, ε and η standard normal: one system by conjugate gradients. Given all other
parameters, those of one type have the covariance Q_bb⁻¹ (a block that is known) around x_b − Q_bb⁻¹ b_b; so

    Var(x_b) = Q_bb⁻¹ + Var(x_b − Q_bb⁻¹ b_b)

and only the second part, what comes from the other types, is estimated from the samples (a Rao–Blackwellised
estimate; its relative error is at most √(2 / samples) and far less where the first part is the larger one).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom.fit.wide_system import Data, Point, Prior, backward, blocks, solve, system
from slalom.tokens import FloatArray

_ENTRIES = 8_000_000
"""Numbers that one round of samples may hold over the queries."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Variances of the parameters, and how many parameters the data have determined."""

    variance: FloatArray
    """(d + 1, 1 + 2 K): of the importance, of the values, and of the importance with the values."""
    freedom: float


def spread(
    data: Data,
    at: Point,
    prior: Prior,
    free: FloatArray,
    samples: int,
    rng: np.random.Generator,
    tolerance: float = 1e-2,
    most: int = 400,
) -> Spread:
    """The posterior at a point, from random samples."""
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
    return Spread(variance, float(fixed[:-1].sum() - used.sum() + fixed[-1].sum()))


def _products(sample: FloatArray) -> FloatArray:
    return np.concatenate([sample**2, sample[:, :1] * sample[:, 1:]], axis=1)
