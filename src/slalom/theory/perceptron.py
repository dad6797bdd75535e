"""One attention layer with a skip connection and a two-layer perceptron on top (maths 5, beyond the paper).

    h = e_[CLS] + (1/K) Σ_heads W_o Σ_t α_t W_v e_t,   f = w_2·φ(W_1 h + b_1) + w_s·h

The gradient is closed: with r = W_1ᵀ(φ'(W_1 h + b_1) ⊙ w_2) + w_s, which is how f answers to h, it is the
gradient of the one-layer classifier whose read-out is rᵀW_o and whose skip connection is r.

LIME has no exact limit here, since the perceptron bends what masks do. The mean field takes h where a share p
of the words is masked, as the quotient of mean numerators and mean denominators, and f's slope there,

    β_j ≈ 6 ∫_0^1 p (1 − p) r(p)·(1/K) Σ_heads {(g v)_j − (g_h v_h)_j − N/D (g_j − g_h,j)} / D  dp

Its error is of the order 1/d, like that without the perceptron; `lime_sampled` measures it without bias.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import e, log2, log10

import numpy as np
from scipy.special import roots_legendre

from slalom.checks import at_least_one
from slalom.errors import InputError
from slalom.theory.layer import LayerWeights, Masked, gradient, look_at, masked
from slalom.tokens import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Perceptron:
    """What stands on top of the layer: φ is tanh, which has a slope everywhere.

    Example:
        >>> top = Perceptron(np.zeros((1, 3, 1)), np.eye(3), np.zeros(3), np.ones(3), np.zeros(3))
        >>> top.output(np.zeros(3)).item(), top.slope(np.zeros(3)).tolist()
        (0.0, [1.0, 1.0, 1.0])
    """

    write: FloatArray
    """(K, d, d_out) W_o: what each head adds to the state."""
    hidden: FloatArray
    """(H, d) W_1"""
    bias: FloatArray
    """(H,) b_1"""
    read: FloatArray
    """(H,) w_2"""
    skip: FloatArray
    """(d,) w_s: past the perceptron; zero where there is no such connection."""

    def output(self, states: FloatArray) -> FloatArray:
        """(…,) f of states (…, d)."""
        return np.tanh(states @ self.hidden.T + self.bias) @ self.read + states @ self.skip

    def slope(self, states: FloatArray) -> FloatArray:
        """(…, d) r = ∂f/∂h"""
        return (self.read / np.cosh(states @ self.hidden.T + self.bias) ** 2) @ self.hidden + self.skip


def state(weights: LayerWeights, top: Perceptron, embeddings: FloatArray) -> FloatArray:
    """(d,) h of a sequence given by its embeddings (T, d), [CLS] first.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> weights, third = planted_layer(), np.eye(3)[None, :, 2:]
        >>> top = Perceptron(third, np.eye(3), np.zeros(3), np.ones(3), np.zeros(3))
        >>> state(weights, top, weights.placed([0, 2, 3])).round(4).tolist()  # [CLS] is (1, 0, 0)
        [1.0, 0.0, 0.25]
    """
    seen = look_at(weights, embeddings)
    values = np.einsum("kod,td->kto", weights.value, embeddings)
    heard = np.einsum("kt,kto->ko", seen.attention[:, 0], values)
    return embeddings[0] + np.einsum("kdo,ko->d", top.write, heard) / len(values)


def perceptron_gradient(weights: LayerWeights, top: Perceptron, embeddings: FloatArray) -> FloatArray:
    """(T, d) ∇_{e_t} f at every position, in closed form.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> weights, third = planted_layer(), np.eye(3)[None, :, 2:]
        >>> linear = Perceptron(third, np.zeros((1, 3)), np.zeros(1), np.zeros(1), np.eye(3)[2])
        >>> perceptron_gradient(weights, linear, weights.placed([0, 2, 3]))[1:, 1:].round(4).tolist()
        [[0.6875, 0.25], [-0.625, 0.5]]
    """
    _check(weights)
    r = top.slope(state(weights, top, embeddings))
    # The one-layer classifier that f is like, for small changes.
    alike = replace(weights, read=np.einsum("d,kdo->ko", r, top.write), skip=r)
    return gradient(look_at(alike, embeddings))


@dataclass(frozen=True, eq=False)
class MaskedStates:
    """The state h as a function of which words are masked: coordinate i is the classifier `parts[i]`."""

    parts: tuple[Masked, ...]
    top: Perceptron

    @property
    def size(self) -> int:
        return self.parts[0].size

    def states(self, keep: FloatArray) -> FloatArray:
        """(N, d)"""
        return np.stack([part.outputs(keep) for part in self.parts], axis=-1)

    def outputs(self, keep: FloatArray) -> FloatArray:
        """(N,) f for N rows of `keep`: 1 where a word stands, 0 where it is masked."""
        return self.top.output(self.states(keep))


def masked_states(
    weights: LayerWeights,
    top: Perceptron,
    ids: Sequence[int] | IntArray,
    words: Sequence[int] | IntArray | None = None,
) -> MaskedStates:
    """The classifier with the perceptron on a text whose words can be masked; arguments as in `masked`.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> third = np.eye(3)[2]
        >>> linear = Perceptron(third[None, :, None], np.zeros((1, 3)), np.zeros(1), np.zeros(1), third)
        >>> document = masked_states(planted_layer(), linear, [0, 2, 3])
        >>> document.outputs(np.array([[1, 1], [1, 0]])).round(4).tolist()
        [0.25, 1.0]
    """
    _check(weights)
    unit = np.eye(weights.embedding.shape[1])
    return MaskedStates(
        tuple(
            masked(replace(weights, read=top.write[:, i], skip=unit[i]), ids, words) for i in range(len(unit))
        ),
        top,
    )


def lime_mean_field(document: MaskedStates) -> FloatArray:
    """(d,) LIME's coefficients, large bandwidth, up to an error of the order 1/d.

    Example:
        >>> from slalom.theory.layer import planted_layer
        >>> third = np.eye(3)[2]
        >>> linear = Perceptron(third[None, :, None], np.zeros((1, 3)), np.zeros(1), np.zeros(1), third)
        >>> lime_mean_field(masked_states(planted_layer([0.0] * 4), linear, [0, 2, 3])).round(4).tolist()
        [1.0, -0.3333]
    """
    nodes, weights = roots_legendre(40)
    result = np.zeros(document.size)
    for x, w in zip(nodes, weights, strict=True):
        p = (x + 1) / 2
        level, slopes = _field(document, p)
        result += w / 2 * 6 * p * (1 - p) * (document.top.slope(level) @ slopes)
    return result


def _field(document: MaskedStates, p: float) -> tuple[FloatArray, FloatArray]:
    """(d_e,) the state where a share p is masked, and (d_e, d) how it answers to each word."""
    levels: list[float] = []
    slopes: list[FloatArray] = []
    for part in document.parts:
        mass = part.fixed_mass + (1 - p) * part.kept_mass.sum(axis=1) + p * part.gone_mass.sum(axis=1)
        total = part.fixed_sum + (1 - p) * part.kept_sum.sum(axis=1) + p * part.gone_sum.sum(axis=1)
        quotient = total / mass
        change = part.kept_sum - part.gone_sum - quotient[:, None] * (part.kept_mass - part.gone_mass)
        levels.append(quotient.mean() + part.offset)
        slopes.append((change / mass[:, None]).mean(axis=0))
    return np.array(levels), np.array(slopes)


def lime_sampled(
    outputs: Callable[[FloatArray], FloatArray],
    size: int,
    samples: int,
    *,
    guess: FloatArray | None = None,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """(d,) LIME's coefficients (large bandwidth) from samples, without bias, and their standard errors.

    guess: coefficients near the truth, such as the mean field's. The nearer, the smaller the errors, since
    LIME gives a linear function back as it is and only the rest is sampled. Masks come in pairs, a mask and
    its complement.

    Example:
        >>> beta = np.array([1.0, -0.5])
        >>> lime_sampled(lambda keep: keep @ beta, size=2, samples=100, guess=beta)[0].round(4).tolist()
        [1.0, -0.5]
    """
    if size < 2 or samples < 4:
        raise InputError(f"two words and four samples are the least; got {size} and {samples}")
    near = np.zeros(size) if guess is None else np.asarray(guess, dtype=float)
    rng = np.random.default_rng(seed)
    gone = rng.integers(1, size, size=samples // 2)
    order = rng.random((len(gone), size)).argsort(axis=1).argsort(axis=1)
    keep = (order >= gone[:, None]).astype(float)
    pairs = np.stack([keep, 1 - keep])
    f = (outputs(pairs.reshape(-1, size)) - pairs.reshape(-1, size) @ near).reshape(2, -1)
    ends = outputs(np.array([np.zeros(size), np.ones(size)])) - np.array([0.0, near.sum()])
    middle = ends.mean()
    pull, empty = _pulls(pairs)
    # s = d has no complement among LIME's masks (the whole text is none): its share 1/d is added exactly.
    each = (size - 1) / size * (pull * (f - middle)[:, :, None]).mean(axis=0)
    beta = near + each.mean(axis=0) + (ends[0] - middle) / size * empty
    return beta, each.std(axis=0, ddof=1) / np.sqrt(len(each))


def _pulls(pairs: FloatArray) -> tuple[FloatArray, float]:
    """What f is multiplied by in β = Cov(z)⁻¹ Cov(z, f), for every mask, and for that of all words."""
    d = pairs.shape[-1]
    first, apart, variance = (d - 1) / (2 * d), (d + 1) / (6 * d), (d * d - 1) / 12
    centred = pairs - first
    size = centred.sum(axis=-1, keepdims=True)
    return (centred - size / d) / apart + size / variance, -first * d / variance


def _check(weights: LayerWeights) -> None:
    if weights.mean_read_out:
        raise InputError("the perceptron stands on the state of [CLS]; make the layer with read_out='cls'")


@dataclass(frozen=True)
class MlpBound:
    """What a feed-forward part can store, beside what it would have to."""

    weights: int
    """From a token's state to the log-odds: h units with d + 1 weights each, and a linear read-out."""
    pairs: int
    """Upper bound on the arbitrary input-output pairs (signs of the log-odds) it can represent."""
    log10_sequences: float
    """Decimal logarithm of the number of sequences of up to C tokens."""
    longest: int
    """The context length up to which every sequence could still have a pair of its own."""


def mlp_bound(width: int = 768, hidden: int = 3072, vocabulary: int = 30522, context: int = 512) -> MlpBound:
    """The bound for a state of `width` and `hidden` units; the defaults are BERT-base's.

    Example:
        >>> mlp_bound(width=1, hidden=1, vocabulary=10).longest
        1
    """
    at_least_one(width=width, hidden=hidden, vocabulary=vocabulary, context=context)
    weights = hidden * (width + 1) + hidden + width + 1
    pairs = _largest(width, hidden, weights)
    # Shorter sequences multiply the number of the longest by Σ_n V^−n.
    shorter = log10(sum(vocabulary**-n for n in range(min(context, 400))))
    sequences = log10(context) if vocabulary == 1 else context * log10(vocabulary) + shorter
    longest, total = 0, vocabulary
    while longest < context and total <= pairs:
        longest += 1
        total += vocabulary ** (longest + 1)
    return MlpBound(weights, pairs, sequences, longest)


def log2_patterns(points: int, width: int, hidden: int) -> float:
    """Upper bound on log₂ of the labellings of m points that the network can realise.

    Example:
        >>> round(log2_patterns(points=10, width=2, hidden=3), 2)
        84.48
    """
    weights = hidden * (width + 1) + hidden + width + 1
    splits = 1 + (width + 1) * log2(max(2 * e * points / (width + 1), 2.0))
    return hidden * splits + 1 + weights * log2(max(4 * e * points / weights, 2.0))


def _largest(width: int, hidden: int, weights: int) -> int:
    """The right side grows like log m, the left like m: double, then bisect."""
    low, high = 1, 2 * weights
    while log2_patterns(high, width, hidden) >= high:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if log2_patterns(middle, width, hidden) >= middle else (low, middle)
    return low
