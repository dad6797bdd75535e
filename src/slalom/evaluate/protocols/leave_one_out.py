"""Explanations beside what leaving out each token alone does."""

from __future__ import annotations

import numpy as np

from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import correlation
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import FloatArray


@protocol("leave_one_out", good={"kendall": "high", "spearman": "high"})
def measure(case: Case, *, score: str | None = None) -> dict[str, float]:
    """Leave-one-out agreement: do the scores order the tokens as leaving each of them out does?

    Rank correlations (Kendall, Spearman) of the signed score with the loss of the label's score when one
    token is dropped.

    Both correlations for the score to rank by, or for the one named; 0 where all tokens score alike.
    """
    truth, told = leave_one_out(case.ask, case.explanation), case.explanation.score(score)
    return {
        "kendall": correlation(told, truth, "kendall"),
        "spearman": correlation(told, truth, "spearman"),
    }


def leave_one_out(ask: Ask, explanation: Explanation) -> FloatArray:
    """(n,) what the label's score loses when each token is left out: f(t) − f(t without i)."""
    n = len(explanation)
    if n < 2:
        raise NotApplicable("of a text of one token nothing can be left out")
    target = choose_target(ask.model, explanation.target, ask.whole())
    return target.score(ask.whole()[None]) - target.score(ask(from_keep(~np.eye(n, dtype=bool))))
