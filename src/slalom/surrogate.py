"""The surrogates: SLALOM (maths 1, 2) and, to compare with, an additive model."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from slalom.errors import InputError
from slalom.perturb import Counts, dense, places_moved
from slalom.shapley import EXACT, FITTED, shapley_values
from slalom.tokens import FloatArray, IntArray, frozen

_NO_VALUE = "an empty sequence has no value under a SLALOM without background"
_FAINT = 1e-280
REACH = 0.5
"""The share of a text without which its neighbourhood has nothing to say."""


class Surrogate(Protocol):
    """A small model over the tokens of one text, K outputs."""

    def predict(self, counts: Counts) -> FloatArray:
        """(N, K) outputs for N bags of tokens given as counts (N × units)."""
        ...


@dataclass(frozen=True, eq=False)
class Slalom:
    """F(c) = Σ c w v / Σ c w with w = exp(importance); `background` stands in every sequence (maths 1b).

    Example:
        “great” has value 3, “awful” value −2 and three times its weight:

        >>> import math
        >>> from slalom.surrogate import Slalom
        >>> surrogate = Slalom(values=[3.0, -2.0], importances=[0.0, math.log(3)])
        >>> great, awful = 0, 1
        >>> surrogate.output([great, awful]).round(2)
        array([-0.75])
        >>> surrogate.removal([great, awful])[awful].round(2)  # -0.75 with it, 3 without it
        array([-3.75])
        >>> surrogate.shares([great, awful])[0].round(2)
        array([0.25, 0.75])
    """

    values: FloatArray
    """(units, K)"""
    importances: FloatArray
    """(units,)"""
    background_value: FloatArray = field(default_factory=lambda: np.zeros(1))
    """(K,) value of the background, used where its importance is finite."""
    background_importance: float = -np.inf

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=float)
        values = values[:, None] if values.ndim == 1 else values
        background = np.broadcast_to(np.asarray(self.background_value, dtype=float), (values.shape[1],))
        object.__setattr__(self, "values", frozen(values, float))
        object.__setattr__(self, "importances", frozen(self.importances, float))
        object.__setattr__(self, "background_value", frozen(background, float))
        if self.importances.shape != (len(values),):
            raise ValueError(f"{len(values)} values but importances of shape {self.importances.shape}")

    @property
    def size(self) -> tuple[int, ...]:
        """(units, K)"""
        return self.values.shape

    def normalised(self, gamma: float = 0.0) -> Slalom:
        """The same function with importances that sum to gamma (they are shift invariant)."""
        if len(self.importances) == 0:
            return self
        shift = self.importances.mean() - gamma / len(self.importances)
        background = self.background_importance - shift
        return replace(self, importances=self.importances - shift, background_importance=background)

    def grouped(self, numbers: IntArray) -> Slalom:
        """The same function over groups that stay or go as a whole: a SLALOM again, and exactly.

        Σ w v and Σ w are all that F knows of a group, so its weight is the sum of its units' weights and its
        value their mean by weight. `numbers` (units,) count the groups from 0 on.
        """
        top = np.full(int(numbers.max()) + 1, -np.inf)
        np.maximum.at(top, numbers, self.importances)
        peak = np.where(np.isfinite(top), top, 0.0)
        weights = np.exp(self.importances - peak[numbers])
        mass = np.bincount(numbers, weights)
        total = np.stack([np.bincount(numbers, weights * each) for each in self.values.T], axis=1)
        importances = np.where(mass > 0, peak + np.log(np.maximum(mass, 1e-300)), top)
        return replace(self, values=total / np.where(mass > 0, mass, 1.0)[:, None], importances=importances)

    def predict(self, counts: Counts) -> FloatArray:
        """(N, K) outputs for N bags of tokens; an empty bag has a value only where there is a background."""
        top = np.r_[self.importances, self.background_importance].max()
        if top == -np.inf:
            raise InputError(_NO_VALUE)
        w, w0 = np.exp(self.importances - top), np.exp(self.background_importance - top)
        mass = np.asarray(counts @ w + w0)
        total = counts @ (w[:, None] * self.values) + w0 * self.background_value
        # Rows made of tokens far below the top lose their weights to underflow; look at them on their own.
        faint = mass < _FAINT
        result = total / np.where(faint, 1.0, mass)[:, None]
        if faint.any():
            result[faint] = self._predict_faint(dense(counts[np.flatnonzero(faint)]))
        return result

    def _predict_faint(self, counts: FloatArray) -> FloatArray:
        present = np.where(counts > 0, self.importances, -np.inf)
        top = np.maximum(present.max(axis=1, initial=-np.inf), self.background_importance)
        if np.any(top == -np.inf):
            raise InputError(_NO_VALUE)
        w, w0 = counts * np.exp(present - top[:, None]), np.exp(self.background_importance - top)
        total = w @ self.values + w0[:, None] * self.background_value
        return total / (w.sum(axis=1) + w0)[:, None]

    def shares(self, units: Sequence[int] | IntArray) -> tuple[FloatArray, float]:
        """The softmax weight α of every position of a sequence, and the background's share."""
        units = np.asarray(units, dtype=np.int64)
        s = np.r_[self.importances[units], self.background_importance]
        if s.max() == -np.inf:
            raise InputError(_NO_VALUE)
        alpha = np.exp(s - s.max())
        alpha /= alpha.sum()
        return alpha[:-1], float(alpha[-1])

    def output(self, units: Sequence[int] | IntArray) -> FloatArray:
        """(K,) F of one sequence."""
        alpha, share = self.shares(units)
        return alpha @ self.values[np.asarray(units, dtype=np.int64)] + share * self.background_value

    def linear(self, units: Sequence[int] | IntArray) -> FloatArray:
        """(n, K) α·v: sums to F less the background's share."""
        return self.shares(units)[0][:, None] * self.values[np.asarray(units, dtype=np.int64)]

    def gradient(self, units: Sequence[int] | IntArray) -> FloatArray:
        """(n, K) soft-removal gradient α (v − F) (Eq. 5)."""
        alpha, _ = self.shares(units)
        return alpha[:, None] * (self.values[np.asarray(units, dtype=np.int64)] - self.output(units))

    def removal(self, units: Sequence[int] | IntArray) -> FloatArray:
        """(n, K) F(t) − F(t without position i) = α (v − F) / (1 − α), one copy at a time.

        The only token of a text without background cannot be removed; it gets its own value.
        """
        units = np.asarray(units, dtype=np.int64)
        alpha, _ = self.shares(units)
        if len(units) == 1 and self.background_importance == -np.inf:
            return self.values[units]
        result = self.gradient(units) / np.maximum(1 - alpha, 0.5)[:, None]
        # 1 − α cancels for a token that outweighs all others; F(t) − F' = α (v − F'), F' = F(t without i).
        for i in np.flatnonzero(alpha > 0.5):
            result[i] = alpha[i] * (self.values[units[i]] - self.output(np.delete(units, i)))
        return result

    def shapley(self, units: Sequence[int] | IntArray, digits: float = EXACT) -> FloatArray:
        """(n, K) exact Shapley values over positions (maths 2)."""
        units = np.asarray(units, dtype=np.int64)
        s, v = self.importances[units], self.values[units]
        return shapley_values(s, v, self.background_importance, self.background_value, digits)


@dataclass(frozen=True, eq=False)
class NearText:
    """What a surrogate of all scales misses near the whole text (docs/design-study.md).

    y becomes (1 − φ) y + φ (gap + gain y + Σ shift of what has moved + Σ own of what is gone).

    A removal moves every later token by one place. `shift[i, r − 1]` is what it does that token i moves by r
    places, `own[i]` what its loss does beyond the surrogate's change; φ fades with the share removed.
    """

    gap: float
    """What the model says of the whole text, less `gain` times what the surrogate says."""
    shift: FloatArray
    """(n, R); what moves by more than R places is taken to move by R."""
    own: FloatArray
    """(n,)"""
    gain: float = 1.0
    """Of the surrogate's changes: below one where the model is more saturated than the surrogate."""
    sizes: FloatArray | None = None
    """(n,) how many tokens each unit holds; None for one each."""

    def __post_init__(self) -> None:
        if self.sizes is not None and self.sizes.shape != self.own.shape:
            raise ValueError(f"{len(self.own)} units, but sizes of shape {self.sizes.shape}")

    @property
    def room(self) -> float:
        """So many removals beyond the first, and nothing is set right any more."""
        count = len(self.own) if self.sizes is None else float(self.sizes.sum())
        return max(REACH * count - 1.0, 1.0)

    def grouped(self, numbers: IntArray) -> NearText:
        """The same over groups of neighbours that stay or go as a whole."""
        sizes = np.ones(len(self.own)) if self.sizes is None else self.sizes
        own, sizes = (np.bincount(numbers, each).astype(float) for each in (self.own, sizes))
        shift = np.stack([np.bincount(numbers, each) for each in self.shift.T], axis=1)
        return replace(self, shift=shift, own=own, sizes=sizes)

    def fade(self, removed: FloatArray) -> FloatArray:
        """φ by the number of tokens removed."""
        return np.clip(1.0 - (removed - 1.0) / self.room, 0.0, 1.0)

    def correction(self, counts: FloatArray, told: FloatArray) -> FloatArray:
        """(N,) what to add to the predictions `told` for copies of the text (N × n)."""
        gone = np.clip(1.0 - counts, 0.0, 1.0)
        places = places_moved(counts, self.shift.shape[1], self.sizes)
        moved = np.where(places > 0, self.shift[np.arange(len(self.own)), places - 1], 0.0).sum(axis=1)
        removed = gone.sum(axis=1) if self.sizes is None else gone @ self.sizes
        return self.fade(removed) * (self.gap + (self.gain - 1.0) * told + moved + gone @ self.own)

    def single(self) -> FloatArray:
        """(n,) what the loss of one token does by moving all later ones."""
        return np.append(np.cumsum(self.shift[:0:-1, 0])[::-1], 0.0)


@dataclass(frozen=True, eq=False)
class Heads:
    """SLALOMs added up below a ceiling (maths 3h): y = offset + a·tanh(Σ_h F_h / a).

    One part without offset and ceiling is the paper's SLALOM; its readings are then the paper's, too. `near`
    sets a surrogate of one output right in the neighbourhood of the whole text.
    """

    parts: tuple[Slalom, ...]
    offset: FloatArray
    """(K,)"""
    ceiling: FloatArray | None = None
    """(K,); None where nothing saturates."""
    near: NearText | None = None

    def __post_init__(self) -> None:
        sizes = {part.values.shape for part in self.parts}
        if len(sizes) != 1:
            raise ValueError(f"the parts of a surrogate need one size; theirs are {sorted(sizes)}")
        n, outputs = self.size
        links = [self.offset] if self.ceiling is None else [self.offset, self.ceiling]
        near = [] if self.near is None else [self.near.shift[:, 0], self.near.own]
        if any(a.shape != (outputs,) for a in links) or any(a.shape != (n,) for a in near):
            raise ValueError(f"offset, ceiling or near do not fit {n} units and {outputs} outputs")

    @property
    def size(self) -> tuple[int, ...]:
        """(units, K)"""
        return self.parts[0].values.shape

    def __len__(self) -> int:
        return len(self.parts[0].importances)

    def grouped(self, numbers: IntArray) -> Heads:
        """The same over groups of neighbours that stay or go as a whole; `numbers` (n,) ascend from 0."""
        near = None if self.near is None else self.near.grouped(numbers)
        return replace(self, parts=tuple(part.grouped(numbers) for part in self.parts), near=near)

    def with_removals(self, removal: FloatArray) -> Heads:
        """The same, but that single removals are these (n,), as far as the neighbourhood of the text goes."""
        if self.near is None:
            return self
        near = self.near
        fade = near.fade(np.ones(len(self)) if near.sizes is None else near.sizes)
        missed = (self.removal()[:, 0] - removal) / np.where(fade > 0, fade, np.inf)
        return replace(self, near=replace(near, own=near.own + missed))

    def link(self, level: FloatArray) -> FloatArray:
        """From Σ_h F_h (…, K) to outputs."""
        if self.ceiling is None:
            return level + self.offset
        return self.offset + self.ceiling * np.tanh(level / self.ceiling)

    def predict(self, counts: Counts) -> FloatArray:
        """(N, K) outputs for N bags of tokens."""
        result = self.link(sum((part.predict(counts) for part in self.parts), start=np.zeros(1)))
        if self.near is not None:
            result = result + self.near.correction(dense(counts), result[:, 0])[:, None]
        return result

    def alone(self) -> FloatArray:
        """(n, K) what is said of each token on its own."""
        return replace(self, near=None).predict(np.eye(len(self)))

    def log_weights(self) -> FloatArray:
        """(n,) importances, up to a constant: the logarithm of the mean softmax weight over the parts."""
        if len(self.parts) == 1:
            return self.parts[0].importances
        units = np.arange(len(self))
        return np.log(np.mean([part.shares(units)[0] for part in self.parts], axis=0))

    def shares(self) -> FloatArray:
        """(n, K) each token's part of Σ_h α_h v_h in the text, in units of the output."""
        units = np.arange(len(self))
        return self.scale() * sum((part.linear(units) for part in self.parts), start=np.zeros(1))

    def shapley(self) -> FloatArray:
        """(n, K) exact Shapley values of Σ_h F_h, in units of the output."""
        units, digits = np.arange(len(self)), EXACT if len(self.parts) == 1 else FITTED
        return self.scale() * sum((part.shapley(units, digits) for part in self.parts), start=np.zeros(1))

    def removal(self) -> FloatArray:
        """(n, K) what the output of the text loses without each token."""
        n = len(self)
        if n == 1 and self.parts[0].background_importance == -np.inf:
            return self.alone()
        return self.predict(np.ones((1, n))) - self.predict(1.0 - np.eye(n))

    def scale(self) -> FloatArray:
        """(K,) output of the text per unit of Σ_h F_h: saturation shrinks all parts alike."""
        if self.ceiling is None:
            return np.ones(1)
        units = np.arange(len(self))
        level = sum((part.output(units) for part in self.parts), start=np.zeros(1)) / self.ceiling
        return np.where(np.abs(level) < 1e-8, 1.0, np.tanh(level) / np.where(level == 0, 1.0, level))


@dataclass(frozen=True, eq=False)
class Additive:
    """F(c) = intercept + Σ c·weight: the kind of model that SLALOM is compared with."""

    weights: FloatArray
    """(units, K)"""
    intercept: FloatArray
    """(K,)"""

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=float)
        weights = weights[:, None] if weights.ndim == 1 else weights
        object.__setattr__(self, "weights", frozen(weights, float))
        intercept = np.broadcast_to(self.intercept, weights.shape[1])
        object.__setattr__(self, "intercept", frozen(intercept, float))

    @property
    def size(self) -> tuple[int, ...]:
        """(units, K)"""
        return self.weights.shape

    def predict(self, counts: Counts) -> FloatArray:
        return counts @ self.weights + self.intercept

    def grouped(self, numbers: IntArray) -> Additive:
        """The same over groups that stay or go as a whole: weights add up."""
        weights = [np.bincount(numbers, each) for each in self.weights.T]
        return replace(self, weights=np.stack(weights, axis=1))
