"""Deletion and insertion (maths 6): drop or keep the strongest tokens first, watch the probability."""

from __future__ import annotations

from typing import Literal

import numpy as np

from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_rows
from slalom.tokens import FloatArray

_STEP = 5


def curve(
    ask: Ask,
    explanation: Explanation,
    keep: Literal["lowest", "highest"],
    *,
    score: str | None = None,
    step: int = _STEP,
) -> FloatArray:
    """Probability of the explained label with step, 2·step, … tokens kept by signed score, in their order."""
    n = len(explanation)
    order = np.argsort(-explanation.score(score), kind="stable")
    order = order[::-1] if keep == "lowest" else order
    kept = from_rows([np.sort(order[:i]) for i in range(step, n, step)] or [np.arange(n)], n)
    logits = ask(kept)
    return choose_target(ask.model, explanation.target, logits[0]).probability(logits)


def deletion(ask: Ask, explanation: Explanation, *, score: str | None = None, step: int = _STEP) -> float:
    """Deletion AOPC: 1 − mean probability with the lowest i tokens kept. High is good."""
    return 1.0 - float(curve(ask, explanation, "lowest", score=score, step=step).mean())


def insertion(ask: Ask, explanation: Explanation, *, score: str | None = None, step: int = _STEP) -> float:
    """Insertion: 1 − mean probability with the highest i tokens kept. Low is good."""
    return 1.0 - float(curve(ask, explanation, "highest", score=score, step=step).mean())
