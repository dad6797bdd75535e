"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from slalom.surrogate import Additive, Slalom
from slalom.tokens import FloatArray

S = TypeVar("S", bound=Slalom | Additive, covariant=True)


@dataclass(frozen=True, eq=False)
class Fit(Generic[S]):
    """A surrogate fitted to a model's answers, and how the fit went."""

    surrogate: S
    """Over the units of the counts (d units), K outputs."""
    covariance: FloatArray | None
    """Of the parameters, in the order the solver documents; None where a solver has none."""
    loss: float
    """Weighted mean squared error on the queries."""
    iterations: int
    status: str
    """Why the solver stopped: "converged", "exact", "max_iterations", …"""
