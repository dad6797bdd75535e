"""The gradient of the one-layer classifier at every position, in closed form (maths 5), and how it is read.

The theorem gives ∇_{e_t} f for one head that [CLS] reads. Written for readers r with weights ρ_r it covers
the [CLS] read-out (ρ = 1 at [CLS]), the average over positions, and the skip connection w:

    ∇_{e_t} f = Σ_r ρ_r α_rt { W_vᵀW_ℓᵀ + W_ℓ (v_t − ṽ_r) W_kᵀ q_r / √d_att }         as a key and a value
              + ρ_t Σ_u α_tu W_ℓ (v_u − ṽ_t) W_qᵀ k_u / √d_att                          as the one who asks
              + ρ_t w                                                                   past the attention
    with ṽ_r = Σ_u α_ru v_u, averaged over heads

The second line is the read-out's own term, which the published code leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom.theory.layer import Look
from slalom.tokens import FloatArray


def gradient(look: Look) -> FloatArray:
    """(T, d) ∇_{e_t} f at every position."""
    result = gradient_as_key(look)
    own = len(look.readers)
    result[:own] += gradient_as_query(look) + look.readers[:, None] * look.layer.skip
    return result


def gradient_as_key(look: Look) -> FloatArray:
    """(T, d) the theorem as published: e_t through its key and its value alone."""
    weights = look.layer
    read = look.readers[:, None] * look.attention
    direction = np.einsum("ko,kod->kd", weights.read, weights.value)
    through_value = np.einsum("krt,kd->td", read, direction)
    pull = weights.scale * read * (look.values[:, None, :] - look.told[:, :, None])
    asked = np.einsum("kad,kra->krd", weights.key, look.queries)
    return (through_value + np.einsum("krt,krd->td", pull, asked)) / len(weights.query)


def gradient_as_query(look: Look) -> FloatArray:
    """(R, d) what e_t does to f through the query it asks; only readers ask."""
    weights = look.layer
    pull = weights.scale * look.attention * (look.values[:, None, :] - look.told[:, :, None])
    answered = np.einsum("krt,kta->kra", pull, look.keys)
    return look.readers[:, None] * np.einsum("kra,kad->rd", answered, weights.query) / len(weights.query)


@dataclass(frozen=True, eq=False)
class Readings:
    """One number for each position, four ways."""

    average: FloatArray
    """G-avg: the mean over coordinates."""
    l1: FloatArray
    l2: FloatArray
    times_input: FloatArray
    """G×I: the dot product with e_t."""


def readings(look: Look) -> Readings:
    """The four token-level readings of the gradient, each (T,)."""
    g = gradient(look)
    return Readings(
        g.mean(axis=1), np.abs(g).sum(axis=1), np.sqrt((g**2).sum(axis=1)), (g * look.embeddings).sum(axis=1)
    )
