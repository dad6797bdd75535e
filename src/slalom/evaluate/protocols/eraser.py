"""Comprehensiveness and sufficiency: what the top tokens take away, and what they hold alone."""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from slalom.checks import Drawn, Share
from slalom.evaluate.protocol import Case, Good, NotApplicable, protocol
from slalom.evaluate.statistics import strongest_first
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import FloatArray

GOOD: Mapping[str, Good] = {"comprehensiveness": "high", "sufficiency": "low"}
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


@protocol("eraser", good=GOOD)
def measure(case: Case, *, score: str | None = None, bins: Sequence[Share] = BINS) -> dict[str, float]:
    """ERASER's comprehensiveness and sufficiency: what the top tokens take away, and what they hold alone.

    With the top q of the tokens by signed score (or by the score named), q = 1, 5, 10, 20, 50 % (rounded up):
    comprehensiveness is the probability of the label less that without them (high is good). Sufficiency is
    that less the one with nothing but them (low is good). Means over the five shares (DeYoung et al. 2020).
    """
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
    if n < 2:
        raise NotApplicable("a text of one token has no top share and rest")
    if sizes.max() >= n:
        raise NotApplicable(f"a share of {max(bins):g} is all of the text (option bins)")
    ranks = np.argsort(strongest_first(explanation.score(score), seed))
    top = ranks < sizes[:, None]
    target = choose_target(ask.model, explanation.target, ask.whole())
    before = target.probability(ask.whole()[None])[0]
    after = before - target.probability(ask(from_keep(np.concatenate([~top, top]))))
    return Erased(after[: len(top)], after[len(top) :])


@protocol("soft", good=GOOD, needs="many queries")
def measure_soft(
    case: Case, *, score: str | None = None, share: Share = 0.5, draws: Drawn = 64
) -> dict[str, float]:
    """Soft comprehensiveness and sufficiency: tokens kept at random, the more likely the higher their score.

    Every token is kept with probability q, a logistic function of its signed score whose threshold is set so
    that the mean of q is the same share π of the text for every method. A method that scores everything high
    keeps no more than another (the π-corrected form of Zhao and Aletras's soft metrics). Sufficiency is what
    the label's probability loses when tokens are kept with q (low is good). Comprehensiveness is what it
    loses when they are kept with 1 − q (high is good). Means over 64 draws, the same for all methods.
    """
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
