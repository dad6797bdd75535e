"""The surrogate of a text that is longer than the model reads: one for each window, and their mean."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from slalom.errors import InputError
from slalom.surrogate import Additive, Counts, Heads, Slalom
from slalom.tokens import FloatArray, IntArray, frozen


@dataclass(frozen=True, eq=False)
class Windows:
    """y = Σ p_w y_w / Σ p_w over the windows that hold a token; y_w is what the window's surrogate says."""

    parts: tuple[Heads | Slalom | Additive, ...]
    weights: FloatArray
    """(W,) the windows' shares of the tokens."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen(self.weights, float))
        if self.weights.shape != (len(self.parts),) or not (self.weights > 0).all():
            raise ValueError(f"{len(self.parts)} windows need positive weights, not {self.weights.shape}")
        if {part.size[1] for part in self.parts} != {1}:
            raise ValueError("the surrogates of windows have one output")

    @property
    def size(self) -> tuple[int, ...]:
        """(units, K)"""
        return sum(part.size[0] for part in self.parts), 1

    @property
    def edges(self) -> IntArray:
        """(W + 1,) where the windows begin, and the end."""
        return np.cumsum([0, *(part.size[0] for part in self.parts)])

    @property
    def window(self) -> IntArray:
        """(units,) the window of every unit."""
        return np.repeat(np.arange(len(self.parts)), np.diff(self.edges))

    def predict(self, counts: Counts) -> FloatArray:
        """(N, 1) outputs for N bags of tokens."""
        dense = counts.toarray() if isinstance(counts, sparse.csr_array) else np.asarray(counts)
        total, mass = np.zeros(len(dense)), np.zeros(len(dense))
        for part, weight, low, high in zip(
            self.parts, self.weights, self.edges[:-1], self.edges[1:], strict=True
        ):
            own = dense[:, low:high]
            there = np.flatnonzero(own.any(axis=1))
            if len(there):
                total[there] += weight * part.predict(own[there])[:, 0]
                mass[there] += weight
        if not mass.all():
            raise InputError("a text without any token is in no window, so nothing is said of it")
        return (total / mass)[:, None]

    def grouped(self, numbers: IntArray) -> Windows:
        """The same over groups of neighbours that stay or go as a whole; none reaches over a window's end."""
        edges = self.edges
        parts = [
            part.grouped(numbers[low:high] - numbers[low])
            for part, low, high in zip(self.parts, edges[:-1], edges[1:], strict=True)
        ]
        result = replace(self, parts=tuple(parts))
        if result.size[0] != int(numbers[-1]) + 1:
            raise ValueError("a unit reaches over the end of a window")
        return result
