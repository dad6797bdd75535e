"""Deletion: drop the strongest tokens, watch the probability of the label.

Tokens are ranked by their signed score for the explained label, ties at random; with 5, 10, … of the lowest
kept, in their order, dropped rather than masked, AOPC = 1 − the mean probability of the label (maths 6).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from slalom.evaluate.protocol import Case, NotApplicable, strongest_first
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_rows
from slalom.tokens import FloatArray

NEEDS = "nothing"
GOOD = {"aopc": "high"}

STEP = 5


def measure(case: Case, *, score: str | None = None, step: int = STEP) -> dict[str, float]:
    """Deletion AOPC of the score to rank by, or of the one named."""
    long_enough(case, step)
    return {"aopc": deletion(case.ask, case.explanation, score=score, step=step, seed=case.seed)}


def long_enough(case: Case, step: int) -> None:
    """Refuses a text that has no proper step of the curve."""
    if len(case.explanation) <= step:
        raise NotApplicable(f"the text has at most {step} tokens, the first step of the curve")


def curve(
    ask: Ask,
    explanation: Explanation,
    keep: Literal["lowest", "highest"],
    *,
    score: str | None = None,
    step: int = STEP,
    seed: int = 0,
) -> FloatArray:
    """Probability of the explained label with step, 2·step, … tokens kept by signed score, in their order."""
    n = len(explanation)
    order = strongest_first(explanation.score(score), seed)
    order = order[::-1] if keep == "lowest" else order
    kept = from_rows([np.sort(order[:i]) for i in range(step, n, step)] or [np.arange(n)], n)
    logits = ask(kept)
    return choose_target(ask.model, explanation.target, logits[0]).probability(logits)


def deletion(
    ask: Ask, explanation: Explanation, *, score: str | None = None, step: int = STEP, seed: int = 0
) -> float:
    """Deletion AOPC: 1 − mean probability with the lowest i tokens kept. High is good."""
    return 1.0 - float(curve(ask, explanation, "lowest", score=score, step=step, seed=seed).mean())


def insertion(
    ask: Ask, explanation: Explanation, *, score: str | None = None, step: int = STEP, seed: int = 0
) -> float:
    """Insertion: 1 − mean probability with the highest i tokens kept. Low is good."""
    return 1.0 - float(curve(ask, explanation, "highest", score=score, step=step, seed=seed).mean())
