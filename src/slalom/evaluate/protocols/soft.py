"""Soft comprehensiveness and sufficiency: tokens kept at random, the more likely the higher their score.

Every token is kept with probability q, a logistic function of its signed score whose threshold is set so that
the mean of q is the same share π of the text for every method: a method that scores everything high keeps no
more than another (the π-corrected form of Zhao and Aletras's soft metrics). Sufficiency is what the label's
probability loses when tokens are kept with q (low is good), comprehensiveness what it loses when they are
kept with 1 − q (high is good); means over 64 draws, the same for all methods.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from slalom.evaluate.protocol import Case, NotApplicable
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import FloatArray

NEEDS = "many queries"
GOOD = {"comprehensiveness": "high", "sufficiency": "low"}


def measure(case: Case, *, score: str | None = None, share: float = 0.5, draws: int = 64) -> dict[str, float]:
    """Both numbers for the score to rank by, or for the one named."""
    n = len(case.explanation)
    if n < 2:
        raise NotApplicable("of a text of one token no share can be kept")
    kept = keeping(case.explanation.score(score), share)
    drawn = np.random.default_rng([case.seed, 0x50F7]).random((draws, n))
    target = choose_target(case.ask.model, case.explanation.target, case.ask.whole())
    before = float(target.probability(case.ask.whole()[None])[0])

    def lost(keep: np.ndarray) -> float:
        keep[~keep.any(axis=1), int(np.argmax(kept))] = True  # not every model can read the empty text
        return before - float(target.probability(case.ask(from_keep(keep))).mean())

    return {"comprehensiveness": lost(drawn < 1.0 - kept), "sufficiency": lost(drawn < kept)}


def keeping(scores: FloatArray, share: float) -> FloatArray:
    """(n,) probabilities that rise with the scores and have the mean `share`, whatever the scores' scale."""
    spread = float(np.std(scores))
    if spread == 0.0 or not np.isfinite(spread):
        return np.full(len(scores), share)
    level = (scores - scores.mean()) / spread
    reach = float(np.abs(level).max()) + 40.0
    threshold: float = brentq(lambda c: float(expit(level - c).mean()) - share, -reach, reach)  # pyright: ignore
    return expit(level - threshold)
