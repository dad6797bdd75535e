"""What a surrogate of all scales misses near the whole text: a Gaussian process (docs/design-study.md).

The change of the output when the tokens R go is taken for c·(the surrogate's change) + Σ_{j∉R} T_j(r_j) +
Σ_{i∈R} b_i + noise. The gain c is below one where the model is more saturated than the surrogate. T_j(r) is
what it does that token j has moved by r places, alike for like r; r_j is the number of tokens before j that
go. b_i is what the loss of token i does beyond that. Gain and variances are those of the largest marginal
likelihood.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import linalg

from slalom.perturb import places_moved
from slalom.surrogate import NearText
from slalom.tokens import FloatArray

_GAINS = np.array([1.0, 0.75, 0.5, 0.25, 0.0])
_WALKS = (0.0, 0.1, 0.3, 1.0, 3.0)
_OWNS = (0.0, 0.01, 0.1, 0.3, 1.0)
_NOISES = (0.02, 0.1, 0.3, 1.0)
"""Variances of all T together, of every b, and of the noise, relative to each other."""
_PLACES = 10
"""What moves by more is taken to move by so many places."""
_ALIKE = 3.0
"""Places by which two moves differ that have a correlation of 1/e."""


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
    gone, n = 1.0 - keep, keep.shape[1]
    alike = _alike()
    places = places_moved(keep, _PLACES)
    factor = np.linalg.cholesky(alike[1:, 1:])
    seen = np.vstack([np.zeros(_PLACES), factor])[places].reshape(len(keep), -1)
    walk, shared = seen @ seen.T / n, gone @ gone.T
    errors = changes[:, None] - told[:, None] * _GAINS
    best = min((_evidence(walk, shared, errors, *each) for each in _RATIOS), key=lambda found: found[0])
    _, at, scale, weights = best
    inverse = linalg.inv(_kernel(walk, shared, *weights), check_finite=False)
    pull = inverse @ errors[:, at]
    shift = weights[0] / n * (pull @ seen).reshape(n, _PLACES) @ factor.T
    # a single removal moves all later tokens by one place
    later = np.cumsum(alike[1][places][:, :0:-1], axis=1)[:, ::-1]
    single = weights[0] / n * np.column_stack([later, np.zeros(len(keep))]).T + weights[1] * gone.T
    before = weights[0] * np.arange(n)[::-1] / n + weights[1]
    variance = before - ((single @ inverse) * single).sum(axis=1)
    return NearFit(
        NearText(0.0, shift, weights[1] * gone.T @ pull, float(_GAINS[at])),
        scale * (np.maximum(variance, 0.0) + weights[2]),
        pull / np.diag(inverse),
    )


_RATIOS = list(product(_WALKS, _OWNS, _NOISES))


def _alike() -> FloatArray:
    """(R + 1, R + 1) correlations of what two moves do; what has not moved does nothing."""
    places = np.arange(_PLACES + 1)
    alike = np.exp(-np.abs(np.subtract.outer(places, places)) / _ALIKE)
    alike[0], alike[:, 0] = 0.0, 0.0
    return alike


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
