"""SLALOM meets the one-layer classifier: a head without positions is a SLALOM, an average of heads is not.

    s(τ) = q·W_k e(τ) / √d_att,   v(τ) = W_ℓ W_v e(τ),   with [CLS] as the background

The average of K such heads is not a SLALOM, because every head has weights of its own. Where they differ
little it departs from the SLALOM with mean importances and mean values by the covariance of importances and
values over heads:

    F − F̄ ≈ Σ_t Σ_u ᾱ_t ᾱ_u cov_heads(s_t − s_u, v_t)

which is zero where heads agree on importances, or where what a head attends to has nothing to do with what
it says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slalom.errors import InputError
from slalom.surrogate import Counts, Slalom
from slalom.theory.layer import Layer, look_at
from slalom.tokens import FloatArray


def head_slaloms(weights: Layer) -> tuple[Slalom, ...]:
    """Every head as a SLALOM over the vocabulary (its units are token ids), with [CLS] as the background."""
    if weights.has_positions or weights.pad_to_max or weights.mean_read_out:
        raise InputError(
            "a head is a SLALOM where the layer has no positions, adds no <UNK> to texts, and reads [CLS]; "
            "make it with positions=False, pad_to_max=False, read_out='cls'"
        )
    seen = look_at(weights, np.concatenate([weights.embedding[[weights.cls]], weights.embedding]))
    scores = weights.scale * (seen.queries @ seen.keys.transpose(0, 2, 1))[:, 0]
    skipped = float(weights.embedding[weights.cls] @ weights.skip)  # the same for every text
    return tuple(
        Slalom(v[1:] + skipped, s[1:], v[:1] + skipped, float(s[0]))
        for s, v in zip(scores, seen.values, strict=True)
    )


def average(slaloms: Sequence[Slalom], counts: Counts) -> FloatArray:
    """(N, C) what the heads say together about N bags of tokens."""
    return np.mean([slalom.predict(counts) for slalom in slaloms], axis=0)


def pooled(slaloms: Sequence[Slalom]) -> Slalom:
    """The SLALOM with the heads' mean importances and values: what their average is, were they alike."""
    return Slalom(
        np.mean([slalom.values for slalom in slaloms], axis=0),
        np.mean([slalom.importances for slalom in slaloms], axis=0),
        np.mean([slalom.background_value for slalom in slaloms], axis=0),
        float(np.mean([slalom.background_importance for slalom in slaloms])),
    )


def first_order_gap(slaloms: Sequence[Slalom], counts: FloatArray) -> FloatArray:
    """(N, C) what the average of heads adds to `pooled`, to first order in the spread of importances."""
    middle = pooled(slaloms)
    given = np.asarray(counts, dtype=float)
    fixed = np.isfinite(middle.background_importance)
    s_0 = middle.background_importance if fixed else 0.0
    mass = np.c_[given * np.exp(middle.importances - s_0), np.full(len(given), float(fixed))]
    alpha = mass / mass.sum(axis=1, keepdims=True)
    gap = np.zeros((len(given), middle.values.shape[1]))
    for slalom in slaloms:
        own_0 = slalom.background_importance - middle.background_importance if fixed else 0.0
        shift = np.r_[slalom.importances - middle.importances, own_0]
        values = np.r_[slalom.values, slalom.background_value[None]]
        gap += alpha @ (shift[:, None] * values) - (alpha @ shift)[:, None] * (alpha @ values)
    return gap / len(slaloms)
