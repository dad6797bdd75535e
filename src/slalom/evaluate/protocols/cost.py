"""Cost: what the explanation asked of the model and how long it took."""

from __future__ import annotations

from slalom.evaluate.protocol import Case

NEEDS = "nothing"
GOOD = {"queries": "low", "tokens": "low", "backwards": "low", "seconds": "low", "model_seconds": "low"}


def measure(case: Case) -> dict[str, float]:
    """Queries, the tokens read, backward passes, seconds, and the part of them spent in the model."""
    return {name: float(getattr(case.explanation.cost, name)) for name in GOOD}
