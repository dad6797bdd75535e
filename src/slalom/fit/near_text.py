"""What a surrogate of all scales misses near the whole text: a Gaussian process (docs/design-study.md).

The error of the predicted change when the tokens R go is taken for T(first of R) + Σ_{i∈R} b_i + noise. T is
what it does that all later tokens move by one place, a random walk that ends in zero behind the last token;
b_i is what the loss of token i does beyond the surrogate's change. The three variances are those of the
largest marginal likelihood; with none of them there is nothing to set right.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import linalg

from slalom.surrogate import NearText
from slalom.tokens import FloatArray

_WALKS = (0.0, 0.1, 0.3, 1.0, 3.0)
_OWNS = (0.0, 0.01, 0.1, 0.3, 1.0)
_NOISES = (0.02, 0.1, 0.3, 1.0)
"""Variances of T over the whole text, of every b, and of the noise, relative to each other."""


@dataclass(frozen=True, eq=False)
class NearFit:
    """The correction, and how well it is known."""

    near: NearText
    removal_variance: FloatArray
    """(n,) of the effect of a single removal."""
    left_out: FloatArray
    """(N,) the error on each copy when it is left out."""


def fit(keep: FloatArray, errors: FloatArray, gap: float) -> NearFit:
    """From copies that keep most of the text (N × n) and the errors of the predicted changes (N,).

    `gap` is what the model says of the whole text, less what the surrogate says.
    """
    gone = 1.0 - keep
    first = np.argmax(gone > 0, axis=1)
    n = keep.shape[1]
    walk = (n - np.maximum.outer(first, first)) / n
    shared = gone @ gone.T
    _, scale, weights = min((_evidence(walk, shared, errors, *each) for each in _RATIOS), key=lambda e: e[0])
    kernel = weights[0] * walk + weights[1] * shared + weights[2] * np.eye(len(errors))
    inverse = linalg.inv(kernel, check_finite=False)
    pull = inverse @ errors
    to_shift = weights[0] * (n - np.maximum.outer(np.arange(n), first)) / n
    to_own = weights[1] * gone.T
    single = to_shift + to_own
    variance = weights[0] * (n - np.arange(n)) / n + weights[1] - ((single @ inverse) * single).sum(axis=1)
    return NearFit(
        NearText(gap, to_shift @ pull, to_own @ pull),
        scale * (np.maximum(variance, 0.0) + weights[2]),
        pull / np.diag(inverse),
    )


_RATIOS = list(product(_WALKS, _OWNS, _NOISES))


def _evidence(
    walk: FloatArray, shared: FloatArray, errors: FloatArray, *weights: float
) -> tuple[float, float, tuple[float, ...]]:
    """−2 log marginal likelihood with the scale that is best for these ratios, that scale, and the ratios."""
    kernel = weights[0] * walk + weights[1] * shared + weights[2] * np.eye(len(errors))
    triangle = linalg.cholesky(kernel, lower=True, check_finite=False)
    white = linalg.solve_triangular(triangle, errors, lower=True, check_finite=False)
    scale = max(float(white @ white) / len(errors), np.finfo(float).tiny)
    return len(errors) * np.log(scale) + 2.0 * float(np.log(np.diag(triangle)).sum()), scale, weights
