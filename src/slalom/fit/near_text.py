"""What a surrogate of all scales misses near the whole text: a Gaussian process (docs/design-study.md).

The change of the output when the tokens R go is taken for c·(the surrogate's change) − e·Σ_{i∈R} g_i +
Σ_{j∉R} T_j(r_j) + Σ_{i∈R} b_i + noise. The gain c is below one where the model is more saturated than the
surrogate. g are the model's soft-removal gradients at the whole text, where they are known: the first order
of a removal, which is e times as strong when the token is gone. T_j(r) is what it does that token j has moved
by r places, alike for like r; r_j is the number of tokens before j that go. b_i is what the loss of token i
does beyond that. Few copies cannot tell gains and variances apart: all are taken, each as far as its marginal
likelihood goes.
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

_GAINS = (1.0, 0.75, 0.5, 0.25, 0.0)
_FIRST_ORDER = (0.0, 0.5, 1.0, 1.5, 2.0)
"""What c and e may be."""
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


def fit(keep: FloatArray, changes: FloatArray, told: FloatArray, slopes: FloatArray | None = None) -> NearFit:
    """From copies that keep most of the text (N × n), and the changes (N,) of the model and the surrogate.

    `slopes` (n,) are the soft-removal gradients of the whole text.
    """
    gone, n = 1.0 - keep, keep.shape[1]
    alike, places = _alike(), places_moved(keep, _PLACES)
    factor = np.linalg.cholesky(alike[1:, 1:])
    seen = np.vstack([np.zeros(_PLACES), factor])[places].reshape(len(keep), -1)
    walk, shared = seen @ seen.T / n, gone @ gone.T
    gains = np.array(list(product(_GAINS, (0.0,) if slopes is None else _FIRST_ORDER)))
    slopes = np.zeros(n) if slopes is None else slopes
    errors = changes[:, None] - np.column_stack([told, -gone @ slopes]) @ gains.T
    members = [_member(walk, shared, errors, ratio) for ratio in _RATIOS]
    surprise = np.array([member.surprise for member in members])
    likely = np.exp(-0.5 * (surprise - surprise.min()))
    likely /= likely.sum()
    gain, first_order = likely.sum(axis=0) @ gains
    # a single removal moves all later tokens by one place
    later = np.pad(np.cumsum(alike[1][places][:, :0:-1], axis=1)[:, ::-1], [(0, 0), (0, 1)]).T / n
    shift, own, left_out = np.zeros((n, _PLACES)), -first_order * slopes, np.zeros(len(keep))
    variance = np.zeros(n)
    for member, chance in zip(members, likely, strict=True):
        moves, owns, noise = member.ratio
        pull = member.pull @ chance
        shift += moves / n * (pull @ seen).reshape(n, _PLACES) @ factor.T
        own += owns * gone.T @ pull
        left_out += pull / np.diag(member.inverse)
        effect = moves * later + owns * gone.T
        known = ((effect @ member.inverse) * effect).sum(axis=1)
        unknown = np.maximum(moves * np.arange(n)[::-1] / n + owns - known, 0.0) + noise
        variance += unknown * (member.scales @ chance)
    return NearFit(NearText(0.0, shift, own, float(gain)), variance, left_out)


@dataclass(frozen=True, eq=False)
class _Member:
    """What one choice of variances makes of the errors that each choice of gains leaves."""

    ratio: tuple[float, ...]
    inverse: FloatArray
    pull: FloatArray
    """(N, gains)"""
    scales: FloatArray
    """(gains,) the most likely variance."""
    surprise: FloatArray
    """(gains,) −2 log marginal likelihood."""


def _member(walk: FloatArray, shared: FloatArray, errors: FloatArray, ratio: tuple[float, ...]) -> _Member:
    kernel = ratio[0] * walk + ratio[1] * shared + ratio[2] * np.eye(len(walk))
    triangle = linalg.cholesky(kernel, lower=True, check_finite=False)
    inverse = linalg.cho_solve((triangle, True), np.eye(len(kernel)), check_finite=False)
    pull = inverse @ errors
    scales = np.maximum((errors * pull).mean(axis=0), np.finfo(float).tiny)
    surprise = len(errors) * np.log(scales) + 2.0 * np.log(np.diag(triangle)).sum()
    return _Member(ratio, inverse, pull, scales, surprise)


_RATIOS = list(product(_WALKS, _OWNS, _NOISES))


def _alike() -> FloatArray:
    """(R + 1, R + 1) correlations of what two moves do; what has not moved does nothing."""
    places = np.arange(_PLACES + 1)
    alike = np.exp(-np.abs(np.subtract.outer(places, places)) / _ALIKE)
    alike[0], alike[:, 0] = 0.0, 0.0
    return alike
