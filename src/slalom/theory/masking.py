"""The one-layer classifier as a function of which words are masked, as LIME and Anchors ask it (maths 5).

Masking turns every occurrence of a word into <UNK> and leaves the query of [CLS] alone, so that each head is
a quotient of two sums over words:

    f(z) = (1/K) Σ_heads N(z)/D(z)
    N(z) = (gv)_0 + Σ_i z_i (gv)_i + (1 − z_i) (g_h v_h)_i,   D(z) = g_0 + Σ_i z_i g_i + (1 − z_i) g_h,i

Behind the theorem on LIME of Lopardo, Precioso and Garreau stand three lemmas. `expected_sum` and
`variance_sum` are the mean and the variance of such a sum over masks of one size. The third is on quotients:
for |X| ≤ C and cn ≤ Y ≤ Cn,

    |E[X/Y] − E[X]/E[Y]| ≤ C Var(Y)/(c³n³) + C √Var(Y)/(c²n²)

With C² in the second term, as it is printed, it fails where C < 1: for X = ±C against Y = n(m ± ε) the left
side is near Cε/m², the right side near C²ε/m². The term is |Cov(X, Y)|/E[Y]², and X deviates by C, not by C².
The theorem's constants may be taken larger than 1, so its conclusion does not hang on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slalom.errors import InputError
from slalom.surrogate import Slalom
from slalom.theory.layer import LayerWeights, look, look_at
from slalom.tokens import FloatArray, IntArray, frozen


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


def dropped(slaloms: Sequence[Slalom], units: Sequence[int] | IntArray) -> Masked:
    """The average of SLALOMs on a text whose words are left out, not masked: what is gone weighs nothing.

    units: the text as units of the SLALOMs; equal units are one word. With the heads of a layer without
    positions (`heads.head_slaloms`) this is the layer as an explainer that drops tokens sees it.
    """
    units = np.asarray(units, dtype=np.int64)
    groups = _numbered(units)
    first = np.unique(groups, return_index=True)[1]
    copies = np.bincount(groups)
    own = units[first]
    scores = np.array([np.r_[one.background_importance, one.importances[own]] for one in slaloms])
    if not np.isfinite(scores[:, 0]).all():
        raise InputError(
            "with all words left out a SLALOM without background has no value; give it a background"
        )
    mass = np.exp(scores - scores.max(axis=1, keepdims=True)) * np.r_[1, copies]
    values = np.array([np.r_[one.background_value[:1], one.values[own, 0]] for one in slaloms])
    nothing = np.zeros((len(mass), len(own)))
    return Masked(
        kept_mass=mass[:, 1:],
        kept_sum=(mass * values)[:, 1:],
        gone_mass=nothing,
        gone_sum=nothing,
        fixed_mass=mass[:, 0],
        fixed_sum=(mass * values)[:, 0],
        offset=0.0,
        first=frozen(1 + first, np.int64),
    )


def _numbered(ids: IntArray) -> IntArray:
    """Ids numbered by first occurrence."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def expected_sum(a: FloatArray, b: FloatArray, s: int, kept: int) -> float:
    """E[H_S | |S| = s, kept ∉ S] of H_S = Σ_i a_i 1(i ∉ S) + b_i 1(i ∈ S): the lemma behind the theorem."""
    a, b = _pair(a, b, s, kept)
    n = len(a)
    return float(((n - 1 - s) * a.sum() + s * b.sum() + s * (a[kept] - b[kept])) / (n - 1))


def variance_sum(a: FloatArray, b: FloatArray, s: int, kept: int) -> float:
    """Var(H_S | |S| = s, kept ∉ S), by sampling without replacement from the other n − 1."""
    a, b = _pair(a, b, s, kept)
    n = len(a)
    if n == 2:
        return 0.0
    centred = a - b - (a - b).mean()
    spread = (centred**2).mean() - centred[kept] ** 2 / (n - 1)
    return float(n * s * (n - s - 1) / ((n - 1) * (n - 2)) * spread)


def _pair(a: FloatArray, b: FloatArray, s: int, kept: int) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or len(a) < 2 or not 0 <= s < len(a) or not 0 <= kept < len(a):
        raise InputError(
            "two vectors of one length n ≥ 2, 0 ≤ s < n and 0 ≤ kept < n are needed; "
            f"got {a.shape}, {b.shape}, s = {s}, kept = {kept}"
        )
    return a, b


def quotient_bound(
    lower: float, upper: float, n: float, variance: float, *, as_printed: bool = False
) -> float:
    """The lemma's bound on |E[X/Y] − E[X]/E[Y]|, c = lower and C = upper."""
    if not 0 < lower <= upper or not n > 0 or variance < 0:
        raise InputError(
            f"0 < lower ≤ upper, n > 0 and a variance of at least 0 are needed; "
            f"got {lower}, {upper}, {n}, {variance}"
        )
    second = upper**2 if as_printed else upper
    return upper * variance / (lower * n) ** 3 + second * np.sqrt(variance) / (lower * n) ** 2


@dataclass(frozen=True, eq=False)
class Quotients:
    """E[f | |S| = s, j ∉ S] taken as a quotient of expectations, and how wrong that may be."""

    approximation: FloatArray
    """(d,)"""
    bound: FloatArray
    """(d,) on the absolute error, from the variance lemma."""


def quotients(document: Masked, s: int) -> Quotients:
    """The step of the proof for one number s of masked words, with a bound that is computed, not assumed.

    |E[N/D] − E[N]/E[D]| = |E[(N/D − E[N]/E[D]) (E[D] − D)]| / E[D] ≤ √(Var D) (range of values) / E[D]
    """
    d = document.size
    approximation, bound = np.zeros(d), np.zeros(d)
    heads = len(document.fixed_mass)
    for k in range(heads):
        kept, gone = (
            (document.kept_mass[k], document.kept_sum[k]),
            (document.gone_mass[k], document.gone_sum[k]),
        )
        values = [document.fixed_sum[k] / document.fixed_mass[k], *(kept[1] / kept[0]), *(gone[1] / gone[0])]
        spread = float(np.ptp(values))
        for j in range(d):
            mass = document.fixed_mass[k] + expected_sum(kept[0], gone[0], s, j)
            total = document.fixed_sum[k] + expected_sum(kept[1], gone[1], s, j)
            approximation[j] += total / mass / heads
            bound[j] += np.sqrt(max(variance_sum(kept[0], gone[0], s, j), 0.0)) * spread / mass / heads
    return Quotients(approximation + document.offset, bound)
