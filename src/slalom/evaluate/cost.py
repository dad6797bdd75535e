"""Cost: what the explanation asked of the model and how long it took."""

from __future__ import annotations

from slalom.evaluate.protocol import Case

NEEDS = "nothing"
GOOD = {"queries": "low", "tokens": "low", "seconds": "low", "model_seconds": "low"}


def measure(case: Case) -> dict[str, float]:
    """Queries, their tokens, seconds, and the part of them spent in the model."""
    spent = case.explanation.cost
    return {
        "queries": float(spent.queries),
        "tokens": float(spent.tokens),
        "seconds": float(spent.seconds),
        "model_seconds": float(spent.model_seconds),
    }
