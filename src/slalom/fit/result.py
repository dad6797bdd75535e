"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from slalom.surrogate import Additive, Slalom
from slalom.tokens import FloatArray


@dataclass(frozen=True, eq=False)
class Covariance:
    """Of the parameters of one output: importances and values of the U units, the background last."""

    importances: FloatArray
    """(U + 1, U + 1)"""
    mixed: FloatArray
    """(U + 1, U + 1) of importances (rows) with values (columns)."""
    values: FloatArray
    """(U + 1, U + 1)"""
    noise: float
    """Variance of what the SLALOM leaves unexplained."""

    def covariance(self, slopes: FloatArray) -> FloatArray:
        """(m, m) of m readings with these slopes by importances and values (m, 2 (U + 1))."""
        by_s, by_v = np.hsplit(slopes, 2)
        mixed = by_s @ self.mixed @ by_v.T
        return by_s @ self.importances @ by_s.T + mixed + mixed.T + by_v @ self.values @ by_v.T

    def variances(self, slopes: FloatArray) -> FloatArray:
        """(m,) its diagonal."""
        by_s, by_v = np.hsplit(slopes, 2)
        squares = (
            by_s @ self.importances * by_s + 2.0 * (by_s @ self.mixed) * by_v + by_v @ self.values * by_v
        )
        return squares.sum(axis=1)


S = TypeVar("S", bound=Slalom | Additive, covariant=True)


@dataclass(frozen=True, eq=False)
class Fit(Generic[S]):
    """A surrogate fitted to a model's answers, and how the fit went."""

    surrogate: S
    """Over the units of the counts (d units), K outputs."""
    covariance: Covariance | None
    """None where a solver has none."""
    loss: float
    """Weighted mean squared error on the queries."""
    iterations: int
    status: str
    """Why the solver stopped: "converged", "exact", "max_iterations", …"""
