"""Insertion: keep only the strongest tokens, watch the probability of the label come back.

Tokens are ranked by their signed score for the explained label; with 5, 10, … of the highest kept, in their
order, 1 − the mean probability of the label (maths 6): low is good.
"""

from __future__ import annotations

from slalom.evaluate.protocol import Case
from slalom.evaluate.protocols.deletion import STEP, insertion, long_enough

NEEDS = "nothing"
GOOD = {"aopc": "low"}

__all__ = ["GOOD", "NEEDS", "insertion", "measure"]


def measure(case: Case, *, score: str | None = None, step: int = STEP) -> dict[str, float]:
    """Insertion AOPC of the score to rank by, or of the one named."""
    long_enough(case, step)
    return {"aopc": insertion(case.ask, case.explanation, score=score, step=step, seed=case.seed)}
