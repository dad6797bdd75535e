"""The one-layer classifier in NumPy, double precision: what every closed form starts from (maths 5).

With it what is read off the layer itself: attention weights, α-avg and α-max over heads, and the gradient.
The theorem gives ∇_{e_t} f for one head that [CLS] reads. Written for readers r with weights ρ_r it covers
the [CLS] read-out (ρ = 1 at [CLS]), the average over positions, and the skip connection w:

    ∇_{e_t} f = Σ_r ρ_r α_rt { W_vᵀW_ℓᵀ + W_ℓ (v_t − ṽ_r) W_kᵀ q_r / √d_att }         as a key and a value
              + ρ_t Σ_u α_tu W_ℓ (v_u − ṽ_t) W_qᵀ k_u / √d_att                          as the one who asks
              + ρ_t w                                                                   past the attention
    with ṽ_r = Σ_u α_ru v_u, averaged over heads

The second line is the read-out's own term, which the published code leaves out.

LIME and Anchors ask the layer with words masked. Masking turns every occurrence of a word into <UNK> and
leaves the query of [CLS] alone, so that each head is a quotient of two sums over words:

    f(z) = (1/K) Σ_heads N(z)/D(z)
    N(z) = (gv)_0 + Σ_i z_i (gv)_i + (1 − z_i) (g_h v_h)_i,   D(z) = g_0 + Σ_i z_i g_i + (1 − z_i) g_h,i
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from slalom.errors import InputError
from slalom.tokens import FloatArray, IntArray, frozen

if TYPE_CHECKING:
    from slalom.theory.attention_layer import AttentionLayer


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The weights of K heads over embeddings of width d."""

    embedding: FloatArray
    """(V, d)"""
    query: FloatArray
    """(K, d_att, d)"""
    key: FloatArray
    """(K, d_att, d)"""
    value: FloatArray
    """(K, d_out, d)"""
    read: FloatArray
    """(K, d_out)"""
    skip: FloatArray
    """(d,) zero where there is no skip connection."""
    positions: FloatArray
    """(T_max, d) zero where the layer has no positions."""
    has_positions: bool
    pad_to_max: bool
    mean_read_out: bool
    unknown: int
    """The id of <UNK>."""
    cls: int
    """The id of [CLS]."""

    @property
    def scale(self) -> float:
        """1/√d_att"""
        return self.key.shape[1] ** -0.5

    def placed(self, ids: Sequence[int] | IntArray) -> FloatArray:
        """(T, d) e_t of a sequence of ids, filled with <UNK> if the layer does that."""
        ids = np.asarray(ids, dtype=np.int64)
        limit = len(self.positions)
        if ids.ndim != 1 or len(ids) == 0:
            raise InputError(f"one sequence of ids is needed, [CLS] first; got shape {ids.shape}")
        if len(ids) > limit and (self.has_positions or self.pad_to_max):
            raise InputError(
                f"the layer has {limit} positions, but a sequence of {len(ids)} was given; cut it"
            )
        if self.pad_to_max:
            ids = np.r_[ids, np.full(limit - len(ids), self.unknown)]
        e = self.embedding[ids]
        return e + self.positions[: len(ids)] if self.has_positions else e


def layer(model: AttentionLayer) -> LayerWeights:
    """The weights of a model in double precision.

    Example:
        >>> from slalom.theory.attention_layer import AttentionLayer, AttentionLayerConfig
        >>> layer(AttentionLayer(AttentionLayerConfig(vocab_size=5))).query.shape
        (6, 64, 128)
    """
    from slalom.theory.attention_layer import sinusoids

    weights = {name: w.detach().cpu().double().numpy() for name, w in model.named_parameters()}
    config = model.config
    width, limit = config.hidden_size, config.max_position_embeddings
    positions = sinusoids(limit, width, limit).numpy() if config.positions else np.zeros((limit, width))
    return LayerWeights(
        embedding=weights["embedding.weight"],
        query=weights["query"],
        key=weights["key"],
        value=weights["value"],
        read=weights["read"],
        skip=weights.get("skip", np.zeros(width)),
        positions=positions,
        has_positions=config.positions,
        pad_to_max=config.pad_to_max,
        mean_read_out=config.read_out == "mean",
        unknown=int(config.unk_token_id),
        cls=int(config.cls_token_id),
    )


def planted_layer(
    importances: Sequence[float] = (0.0, 0.0, 0.0, float(np.log(2))),
    values: Sequence[float] = (0.0, 0.0, 3.0, -1.0),
) -> LayerWeights:
    """A layer of one head whose token i has this importance and this value; 0 is [CLS], 1 is <UNK>.

    Its logits are known by hand: the defaults on [0, 2, 3] give attention ¼, ¼, ½ and f = ¾ − ½.

    Example:
        >>> planted_layer().embedding[2].tolist()  # 1, importance, value
        [1.0, 0.0, 3.0]
    """
    embedding = np.c_[np.ones(len(values)), importances, values]
    query, key, value = np.eye(3)[:, None, None]
    off = dict.fromkeys(("has_positions", "pad_to_max", "mean_read_out"), False)
    zero = np.zeros(3)
    return LayerWeights(
        embedding, query, key, value, np.ones((1, 1)), zero, zero[None], **off, unknown=1, cls=0
    )


@dataclass(frozen=True, eq=False)
class Look:
    """One sequence of T tokens seen by a layer; R positions are read out."""

    layer: LayerWeights
    embeddings: FloatArray
    """(T, d) e_t"""
    readers: FloatArray
    """(R,) how much each of the first R positions counts in the read-out: (1,), or 1/T everywhere."""
    queries: FloatArray
    """(K, R, d_att)"""
    keys: FloatArray
    """(K, T, d_att)"""
    values: FloatArray
    """(K, T) W_ℓ v_t: only this number of a value vector ever reaches f."""
    attention: FloatArray
    """(K, R, T)"""

    @property
    def told(self) -> FloatArray:
        """(K, R) W_ℓ Σ_t α_t v_t: what every head tells every reader."""
        return np.einsum("krt,kt->kr", self.attention, self.values)

    @property
    def output(self) -> float:
        """f"""
        skipped = self.readers @ self.embeddings[: len(self.readers)] @ self.layer.skip
        return float((self.told @ self.readers).mean() + skipped)


def look(weights: LayerWeights, ids: Sequence[int] | IntArray) -> Look:
    """What the layer computes on a sequence of ids ([CLS] first).

    Example:
        >>> look(planted_layer(), [0, 2, 3]).attention.round(4).tolist()
        [[[0.25, 0.25, 0.5]]]
    """
    return look_at(weights, weights.placed(ids))


def look_at(weights: LayerWeights, embeddings: FloatArray) -> Look:
    """The same, given e_t (T, d) with positions added.

    Example:
        >>> round(look_at(planted_layer(), planted_layer().placed([0, 2, 3])).output, 4)
        0.25
    """
    n = len(embeddings) if weights.mean_read_out else 1
    queries = np.einsum("kad,rd->kra", weights.query, embeddings[:n])
    keys = np.einsum("kad,td->kta", weights.key, embeddings)
    values = np.einsum("ko,kod,td->kt", weights.read, weights.value, embeddings, optimize=True)
    attention = softmax(weights.scale * queries @ keys.transpose(0, 2, 1), axis=-1)
    return Look(weights, embeddings, np.full(n, 1.0 / n), queries, keys, values, attention)


def attention_average(seen: Look) -> FloatArray:
    """(T,) α-avg: the mean over heads of what each position gets from the read-out.

    Example:
        >>> attention_average(look(planted_layer(), [0, 2, 3])).round(4).tolist()
        [0.25, 0.25, 0.5]
    """
    return _attention_read(seen).mean(axis=0)


def attention_max(seen: Look) -> FloatArray:
    """(T,) α-max: the largest such weight among the heads.

    Example:
        >>> attention_max(look(planted_layer(), [0, 2, 3])).round(4).tolist()
        [0.25, 0.25, 0.5]
    """
    return _attention_read(seen).max(axis=0)


def _attention_read(seen: Look) -> FloatArray:
    return np.einsum("krt,r->kt", seen.attention, seen.readers)


def gradient(seen: Look) -> FloatArray:
    """(T, d) ∇_{e_t} f at every position.

    Example:
        >>> gradient(look(planted_layer(), [0, 2, 3]))[1:, 1:].round(4).tolist()
        [[0.6875, 0.25], [-0.625, 0.5]]
    """
    result = gradient_as_key(seen)
    own = len(seen.readers)
    result[:own] += gradient_as_query(seen) + seen.readers[:, None] * seen.layer.skip
    return result


def gradient_as_key(seen: Look) -> FloatArray:
    """(T, d) the theorem as published: e_t through its key and its value alone.

    Example:
        >>> gradient_as_key(look(planted_layer(), [0, 2, 3]))[0, 1:].round(4).tolist()
        [-0.0625, 0.25]
    """
    weights = seen.layer
    read = seen.readers[:, None] * seen.attention
    direction = np.einsum("ko,kod->kd", weights.read, weights.value)
    through_value = np.einsum("krt,kd->td", read, direction)
    pull = weights.scale * read * (seen.values[:, None, :] - seen.told[:, :, None])
    asked = np.einsum("kad,kra->krd", weights.key, seen.queries)
    return (through_value + np.einsum("krt,krd->td", pull, asked)) / len(weights.query)


def gradient_as_query(seen: Look) -> FloatArray:
    """(R, d) what e_t does to f through the query it asks; only readers ask.

    Example:
        >>> gradient_as_query(look(planted_layer(), [0, 2, 3]))[0, 0].round(4).item()
        -0.4332
    """
    weights = seen.layer
    pull = weights.scale * seen.attention * (seen.values[:, None, :] - seen.told[:, :, None])
    answered = np.einsum("krt,kta->kra", pull, seen.keys)
    return seen.readers[:, None] * np.einsum("kra,kad->rd", answered, weights.query) / len(weights.query)


@dataclass(frozen=True, eq=False)
class Masked:
    """The sums of K heads over d words, each up to a factor of its head's own."""

    kept_mass: FloatArray
    """(K, d) Σ g over the positions of a word, g = exp(q·k/√d_att)"""
    kept_sum: FloatArray
    """(K, d) Σ g W_ℓ v"""
    gone_mass: FloatArray
    """(K, d) the same with <UNK> at these positions"""
    gone_sum: FloatArray
    """(K, d)"""
    fixed_mass: FloatArray
    """(K,) of [CLS] and the filling, which are never masked"""
    fixed_sum: FloatArray
    """(K,)"""
    offset: float
    """What the skip connection adds whatever is masked."""
    first: IntArray
    """(d,) the first position of each word in the sequence ([CLS] is position 0)."""

    @property
    def size(self) -> int:
        return len(self.first)

    def outputs(self, keep: FloatArray) -> FloatArray:
        """(N,) f for N rows of `keep` (N × d): 1 where a word stands, 0 where it is masked."""
        z = np.asarray(keep, dtype=float)
        if z.ndim != 2 or z.shape[1] != self.size:
            raise InputError(f"keep must be (N, {self.size}), one column for each word; got {z.shape}")
        mass = z @ (self.kept_mass - self.gone_mass).T + self.gone_mass.sum(axis=1) + self.fixed_mass
        total = z @ (self.kept_sum - self.gone_sum).T + self.gone_sum.sum(axis=1) + self.fixed_sum
        return (total / mass).mean(axis=1) + self.offset

    def head(self, index: int) -> Masked:
        """One head alone."""
        one = slice(index, index + 1)
        sums = (self.kept_mass, self.kept_sum, self.gone_mass, self.gone_sum, self.fixed_mass, self.fixed_sum)
        return Masked(*(part[one] for part in sums), offset=self.offset, first=self.first)


def masked(
    weights: LayerWeights, ids: Sequence[int] | IntArray, words: Sequence[int] | IntArray | None = None
) -> Masked:
    """The layer on a sequence of ids ([CLS] first) whose words can be masked.

    words: which word (0 … d − 1) each position behind [CLS] belongs to; by default equal ids are one word.

    Example:
        >>> masked(planted_layer(), [0, 2, 3]).outputs(np.array([[1, 1], [1, 0]])).round(4).tolist()
        [0.25, 1.0]
    """
    if weights.mean_read_out:
        raise InputError(
            "masking has a closed form for the [CLS] read-out only: other readers ask other questions"
        )
    ids = np.asarray(ids, dtype=np.int64)
    groups = _numbered(ids[1:]) if words is None else np.asarray(words, dtype=np.int64)
    d = int(groups.max(initial=-1)) + 1
    if groups.shape != (len(ids) - 1,) or d == 0 or set(groups.tolist()) != set(range(d)):
        raise InputError(f"words must number the {len(ids) - 1} positions behind [CLS] from 0 without gaps")
    seen = look(weights, ids)
    blank = look_at(weights, weights.placed(np.r_[ids[0], np.full(len(ids) - 1, weights.unknown)]))
    scores, empty = (weights.scale * (s.queries @ s.keys.transpose(0, 2, 1))[:, 0] for s in (seen, blank))
    top = np.maximum(scores.max(axis=1), empty.max(axis=1))[:, None]
    g, g_h = np.exp(scores - top), np.exp(empty - top)
    member = np.zeros((len(groups), d))
    member[np.arange(len(groups)), groups] = 1.0
    inside = slice(1, len(ids))
    fixed = np.r_[0, np.arange(len(ids), g.shape[1])]
    return Masked(
        kept_mass=g[:, inside] @ member,
        kept_sum=(g * seen.values)[:, inside] @ member,
        gone_mass=g_h[:, inside] @ member,
        gone_sum=(g_h * blank.values)[:, inside] @ member,
        fixed_mass=g[:, fixed].sum(axis=1),
        fixed_sum=(g * seen.values)[:, fixed].sum(axis=1),
        offset=float(seen.embeddings[0] @ weights.skip),
        first=frozen(1 + np.unique(groups, return_index=True)[1], np.int64),
    )


def _numbered(ids: IntArray) -> IntArray:
    """Ids numbered by first occurrence."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
