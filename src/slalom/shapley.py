"""Exact Shapley values of a SLALOM in polynomial time (maths 2)."""

from __future__ import annotations

from slalom.tokens import FloatArray


def shapley_values(
    importances: FloatArray,
    values: FloatArray,
    background_importance: float,
    background_value: FloatArray,
) -> FloatArray:
    """(n, K) Shapley values of the n positions; f(∅) is the background's value, 0 without one."""
    raise NotImplementedError
