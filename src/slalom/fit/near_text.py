"""What a surrogate of all scales misses near the whole text: a Gaussian process (docs/design-study.md).

The change of the output when the tokens R go is taken for c·(the surrogate's change) + T(first of R) +
Σ_{i∈R} b_i + noise. The gain c is below one where the model is more saturated than the surrogate. T is what
it does that all later tokens move by one place, a random walk that ends in zero behind the last token; b_i is
what the loss of token i does beyond that. Gain and variances are those of the largest marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import linalg

from slalom.surrogate import NearText
from slalom.tokens import FloatArray

_GAINS = np.array([1.0, 0.75, 0.5, 0.25, 0.0])
_WALKS = (0.0, 0.1, 0.3, 1.0, 3.0)
_OWNS = (0.0, 0.01, 0.1, 0.3, 1.0)
_NOISES = (0.02, 0.1, 0.3, 1.0)
"""Variances of T over the whole text, of every b, and of the noise, relative to each other."""


@dataclass(frozen=True, eq=False)
class NearFit:
    """The correction, and how well it is known."""

    near: NearText
    """Its gap is not known here."""
    removal_variance: FloatArray
    """(n,) of the effect of a single removal."""
    left_out: FloatArray
    """(N,) the error on each copy when it is left out."""


def fit(keep: FloatArray, changes: FloatArray, told: FloatArray) -> NearFit:
    """From copies that keep most of the text (N × n), and the changes (N,) of the model and the surrogate."""
    gone = 1.0 - keep
    first = np.argmax(gone > 0, axis=1)
    n = keep.shape[1]
    walk = (n - np.maximum.outer(first, first)) / n
    shared = gone @ gone.T
    errors = changes[:, None] - told[:, None] * _GAINS
    best = min((_evidence(walk, shared, errors, *each) for each in _RATIOS), key=lambda found: found[0])
    _, at, scale, weights = best
    inverse = linalg.inv(_kernel(walk, shared, *weights), check_finite=False)
    pull = inverse @ errors[:, at]
    to_shift = weights[0] * (n - np.maximum.outer(np.arange(n), first)) / n
    to_own = weights[1] * gone.T
    single = to_shift + to_own
    variance = weights[0] * (n - np.arange(n)) / n + weights[1] - ((single @ inverse) * single).sum(axis=1)
    return NearFit(
        NearText(0.0, to_shift @ pull, to_own @ pull, float(_GAINS[at])),
        scale * (np.maximum(variance, 0.0) + weights[2]),
        pull / np.diag(inverse),
    )


_RATIOS = list(product(_WALKS, _OWNS, _NOISES))


def _kernel(walk: FloatArray, shared: FloatArray, *weights: float) -> FloatArray:
    return weights[0] * walk + weights[1] * shared + weights[2] * np.eye(len(walk))


def _evidence(
    walk: FloatArray, shared: FloatArray, errors: FloatArray, *weights: float
) -> tuple[float, int, float, tuple[float, ...]]:
    """−2 log marginal likelihood with the best gain and scale for these ratios, and both of them."""
    triangle = linalg.cholesky(_kernel(walk, shared, *weights), lower=True, check_finite=False)
    white = linalg.solve_triangular(triangle, errors, lower=True, check_finite=False)
    scales = np.maximum((white**2).mean(axis=0), np.finfo(float).tiny)
    at = int(np.argmin(scales))
    surprise = len(errors) * np.log(scales[at]) + 2.0 * np.log(np.diag(triangle)).sum()
    return float(surprise), at, float(scales[at]), weights
