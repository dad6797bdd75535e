"""ERASER's comprehensiveness and sufficiency: what the top tokens take away, and what they hold alone.

With the top q of the tokens by signed score, q = 1, 5, 10, 20, 50 % (rounded up): comprehensiveness is the
probability of the label less that without them (high is good), sufficiency that less the one with nothing
but them (low is good); both as means over the five shares (DeYoung et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slalom.evaluate.protocol import Case, NotApplicable, strongest_first
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import FloatArray

NEEDS = "nothing"
GOOD = {"comprehensiveness": "high", "sufficiency": "low"}

BINS = (0.01, 0.05, 0.10, 0.20, 0.50)


@dataclass(frozen=True, eq=False)
class Erased:
    """By share of the tokens: what the probability loses."""

    without: FloatArray
    """Lost when the top tokens are dropped."""
    alone: FloatArray
    """Lost when all others are dropped."""

    @property
    def comprehensiveness(self) -> float:
        return float(self.without.mean())

    @property
    def sufficiency(self) -> float:
        return float(self.alone.mean())


def measure(case: Case, *, score: str | None = None, bins: Sequence[float] = BINS) -> dict[str, float]:
    """Both numbers for the score to rank by, or for the one named."""
    found = eraser(case.ask, case.explanation, score=score, bins=bins, seed=case.seed)
    return {"comprehensiveness": found.comprehensiveness, "sufficiency": found.sufficiency}


def eraser(
    ask: Ask,
    explanation: Explanation,
    *,
    score: str | None = None,
    bins: Sequence[float] = BINS,
    seed: int = 0,
) -> Erased:
    """Drops of the label's probability without, and with nothing but, the top shares of the tokens."""
    n = len(explanation)
    # 0.1 · 30 is a little more than 3 in floating point
    sizes = np.ceil(np.asarray(bins) * n - 1e-9).astype(int)
    if n < 2 or sizes.max() >= n:
        raise NotApplicable("a text of one token has no top share and rest")
    ranks = np.argsort(strongest_first(explanation.score(score), seed))
    top = ranks < sizes[:, None]
    target = choose_target(ask.model, explanation.target, ask.whole())
    before = target.probability(ask.whole()[None])[0]
    after = before - target.probability(ask(from_keep(np.concatenate([~top, top]))))
    return Erased(after[: len(top)], after[len(top) :])
