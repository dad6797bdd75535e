"""What every customary explainer says of the one-layer classifier, without sampling (maths 5).

shapley               KernelSHAP's limit: the double integral of maths 2 for masked words, head by head
occlusion             what masking one word takes, in closed form
integrated_gradients  the closed-form gradient along a straight path, by Gauss–Legendre
smoothgrad            the gradient averaged over Gaussian noise on the words, exactly (see there)
explanations          these and the others, side by side
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import roots_legendre

from slalom.errors import InputError
from slalom.theory.layer import (
    LayerWeights,
    Look,
    Masked,
    attention_average,
    attention_max,
    gradient,
    look,
    look_at,
    masked,
)
from slalom.theory.lime import DIGITS, STEP, coefficients, times
from slalom.tokens import FloatArray, IntArray

_NOISE_STEP = 0.2
_NOISE_REACH = 8.6
"""Trapezoidal rule for a normal variable: its step where the noise on a score is at most 1, and its range."""


def shapley(document: Masked) -> FloatArray:
    """(d,) the Shapley values of the words, a masked word being <UNK>; they sum to f(text) − f(all masked).

    With a = (1 − p) e^{−t g}, b = p e^{−t g_h}, q = a + b, P = e^{−t g_0} Π q and M the mean numerator,

        φ_j = ∫_0^1 dp ∫_0^∞ dt P/q_j {e^{−t g_j} (M − m_j + (gv)_j) − e^{−t g_h,j} (M − m_j + (g_h v_h)_j)}

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> shapley(masked(planted_layer(), [0, 2, 3])).round(4).tolist()
        [0.875, -0.625]
    """
    heads = len(document.fixed_mass)
    return sum((_shapley_of_head(document.head(k)) for k in range(heads)), np.zeros(document.size)) / heads


def _shapley_of_head(head: Masked) -> FloatArray:
    g, gv, g_h, gv_h = head.kept_mass[0], head.kept_sum[0], head.gone_mass[0], head.gone_sum[0]
    result = np.zeros(head.size)
    nodes, weights = roots_legendre(head.size // 2 + 1)  # exact: a polynomial of degree d − 1 in p
    p, weight = (nodes[:, None] + 1) / 2, weights / 2
    for t in times(head, len(p)):
        kept, gone = np.exp(-t * g), np.exp(-t * g_h)
        q = (1 - p) * kept + p * gone
        moment = ((1 - p) * kept * gv + p * gone * gv_h) / q
        others = head.fixed_sum[0] + moment.sum(axis=-1, keepdims=True) - moment
        mass = STEP * t[:, :, 0] * weight * np.exp(np.log(q).sum(axis=-1) - t[:, :, 0] * head.fixed_mass[0])
        change = (kept * (others + gv) - gone * (others + gv_h)) / q
        result += np.einsum("tp,tpj->j", mass, change)
    return result


def occlusion(document: Masked) -> FloatArray:
    """(d,) f(text) − f(text with word j masked): per head {Δ(gv)_j − f Δg_j} / (D − Δg_j).

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> occlusion(masked(planted_layer(), [0, 2, 3])).round(4).tolist()
        [0.75, -0.75]
    """
    mass = document.fixed_mass + document.kept_mass.sum(axis=1)
    output = (document.fixed_sum + document.kept_sum.sum(axis=1)) / mass
    lost = document.kept_mass - document.gone_mass
    change = document.kept_sum - document.gone_sum - output[:, None] * lost
    return (change / (mass[:, None] - lost)).mean(axis=0)


def blank(weights: LayerWeights, ids: Sequence[int] | IntArray) -> FloatArray:
    """(T, d) the embeddings of a text whose words are all <UNK>: the usual baseline.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> blank(planted_layer(), [0, 2]).tolist()
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    ids = np.asarray(ids, dtype=np.int64)
    return weights.placed(np.r_[ids[0], np.full(len(ids) - 1, weights.unknown)])


def integrated_gradients(seen: Look, baseline: FloatArray, tolerance: float = 1e-12) -> FloatArray:
    """(T,) integrated gradients from a baseline (T, d) of embeddings; they sum to f − f(baseline).

    The order of the quadrature is doubled until two agree to the tolerance.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> weights, ids = planted_layer(), [0, 2, 3]
        >>> integrated_gradients(look(weights, ids), blank(weights, ids)).sum().round(4).item()
        0.25
    """
    if np.shape(baseline) != seen.embeddings.shape:
        raise InputError(f"the baseline must be {seen.embeddings.shape}; got {np.shape(baseline)}")
    path = seen.embeddings - baseline
    last = np.full(len(path), np.inf)
    for order in (8, 16, 32, 64, 128, 256):
        nodes, weights = roots_legendre(order)
        mean = sum(
            w / 2 * gradient(look_at(seen.layer, baseline + (x + 1) / 2 * path))
            for x, w in zip(nodes, weights, strict=True)
        )
        result = (mean * path).sum(axis=1)
        if np.abs(result - last).max() <= tolerance * max(1.0, np.abs(result).max()):
            return result
        last = result
    raise InputError(f"the path needs more than 256 nodes for a tolerance of {tolerance:g}; raise it")


def smoothgrad(seen: Look, noise: float) -> FloatArray:
    """(T − 1, d) E ∇_{e_t} f behind [CLS], N(0, noise²) being added to every coordinate of every word.

    [CLS] keeps its embedding, so that the query stays what it is. Then each head's scores are independent
    normal variables, G_t = exp(s_t + noise·η_t). Values have a part along the score's direction and a part
    that averages out. With 1/D = ∫ e^{−τD} dτ, 1/D² = ∫ τ e^{−τD} dτ the mean gradient

        E[α_t] W_vᵀW_ℓᵀ + E[α_t (v_t − f)] W_kᵀq/√d_att

    is an integral over τ of products over positions of one-dimensional Gaussian integrals.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> seen = look(planted_layer(), [0, 2, 3])
        >>> np.allclose(smoothgrad(seen, noise=0.0), gradient(seen)[1:])
        True
    """
    weights = seen.layer
    if weights.mean_read_out:
        raise InputError("smoothgrad has a closed form for the [CLS] read-out only")
    if not noise >= 0:
        raise InputError(f"noise must be at least 0; got {noise}")
    asked = weights.scale * np.einsum("kad,ka->kd", weights.key, seen.queries[:, 0])
    spoken = np.einsum("ko,kod->kd", weights.read, weights.value)
    scores = weights.scale * np.einsum("ka,kta->kt", seen.queries[:, 0], seen.keys)
    heads = [_smoothed_head(scores[k], seen.values[k], asked[k], spoken[k], noise) for k in range(len(asked))]
    share, pull = (np.array(part)[:, 1:] for part in zip(*heads, strict=True))
    return np.asarray(share.T @ spoken + pull.T @ asked, dtype=float) / len(heads)


def _smoothed_head(
    scores: FloatArray, values: FloatArray, asked: FloatArray, spoken: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """(T,) E[α_t] and E[α_t (v_t − f)]"""
    length = float(np.sqrt(asked @ asked))
    sigma = noise * length
    step = _NOISE_STEP / max(1.0, sigma)
    reach = int(_NOISE_REACH / step)
    eta = step * np.arange(-reach, reach + 1)
    density = np.exp(-(eta**2) / 2)
    density /= density.sum()
    scale = np.r_[0.0, np.ones(len(scores) - 1)][:, None]
    log_g = (scores - scores.max())[:, None] + scale * sigma * eta
    along = float(asked @ spoken) / length if length else 0.0
    v = values[:, None] + scale * noise * along * eta
    g = np.exp(log_g)
    low, high = np.log(len(g)) + log_g.max(), log_g[0].min()
    share, pull = np.zeros(len(g)), np.zeros(len(g))
    for tau in np.exp(np.arange(-DIGITS - low, np.log(DIGITS) - high + STEP, STEP)):
        kernel = density * np.exp(-tau * g)
        none, one, one_v, two_v = (
            (kernel * factor).sum(axis=1) for factor in (np.ones_like(g), g, g * v, g**2 * v)
        )
        product = STEP * tau * np.exp(np.log(none, where=none > 0, out=np.full(len(none), -800.0)).sum())
        if product == 0.0:
            continue
        rest = (one_v / none).sum() - one_v / none
        share += product * one / none
        pull += product * (one_v / none - tau * (two_v / none + one / none * rest))
    return share, pull


@dataclass(frozen=True, eq=False)
class Readings:
    """One number for each position, four ways."""

    average: FloatArray
    """G-avg: the mean over coordinates."""
    l1: FloatArray
    l2: FloatArray
    times_input: FloatArray
    """G×I: the dot product with e_t."""


def readings(seen: Look) -> Readings:
    """The four token-level readings of the gradient, each (T,).

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> readings(look(planted_layer(), [0, 2, 3])).l1[1:].round(4).tolist()
        [0.9375, 1.125]
    """
    g = gradient(seen)
    return Readings(
        g.mean(axis=1), np.abs(g).sum(axis=1), np.sqrt((g**2).sum(axis=1)), (g * seen.embeddings).sum(axis=1)
    )


def explanations(
    weights: LayerWeights, ids: Sequence[int] | IntArray, bandwidth: float = np.inf, noise: float = 0.1
) -> dict[str, FloatArray]:
    """(T − 1,) for each explainer, one number for each position behind [CLS].

    Explainers of words (LIME, SHAP, occlusion) give all positions of a word the word's number.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> explanations(planted_layer(), [0, 2, 3])["occlusion"].round(4).tolist()
        [0.75, -0.75]
    """
    seen, document = look(weights, ids), masked(weights, ids)
    words = np.asarray(ids)[1:]
    place = {int(words[first - 1]): i for i, first in enumerate(document.first)}
    member = np.array([place[int(word)] for word in words])
    own = slice(1, len(ids))
    read, smooth = readings(seen), smoothgrad(seen, noise)
    return {
        "G-avg": read.average[own],
        "G-l1": read.l1[own],
        "G-l2": read.l2[own],
        "G×I": read.times_input[own],
        "LIME": coefficients(document, bandwidth)[member],
        "α-avg": attention_average(seen)[own],
        "α-max": attention_max(seen)[own],
        "SHAP": shapley(document)[member],
        "occlusion": occlusion(document)[member],
        "IG": integrated_gradients(seen, blank(weights, ids))[own],
        "SmoothGrad×I": (smooth * seen.embeddings[1:]).sum(axis=1)[: len(words)],
    }
