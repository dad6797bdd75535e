"""How far an explanation predicts random copies of the text: of all sizes, and of half the tokens (LDS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from slalom.checks import MOST_QUERIES, Range
from slalom.designs import all_scales as design
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import correlation
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.scores import r_squared
from slalom.surrogate import Additive
from slalom.tokens import BoolArray, FloatArray

COPIES = 300
_LEAST = 4
_FEW = 10
Copies = Annotated[int, Range(_FEW, MOST_QUERIES)]
_BANDS = ("r2_short", "r2_middle", "r2_long")
"""Thirds of the sizes on a logarithmic scale."""
_HARDLY = 1e-3
"""Of the variance of all answers. Where those to copies of a size vary less, its R² is a ratio to nothing."""
_ROUNDING = 1e-5
"""Answers of a float32 model that differ by less, relatively, are the same."""


@dataclass(frozen=True, eq=False)
class CopiesFidelity:
    """What the model says of the copies, and what the explanation predicts."""

    truth: FloatArray
    told: FloatArray
    sizes: FloatArray
    """Tokens kept in each copy."""
    tokens: int

    @property
    def r2(self) -> float:
        """Over all copies."""
        return r_squared(self.truth, self.told)

    def bands(self) -> dict[str, float]:
        """By size, where there are enough copies, and the model's answers to them vary enough."""
        place = np.log(self.sizes) / np.log(self.tokens) * len(_BANDS)
        found: dict[str, float] = {}
        for number, name in enumerate(_BANDS):
            inside = np.minimum(place.astype(int), len(_BANDS) - 1) == number
            if inside.sum() >= _FEW and self.truth[inside].var() >= _HARDLY * self.truth.var():
                found[name] = r_squared(self.truth[inside], self.told[inside])
        return found


@protocol("all_scales", good={"r2": "high", "r2_short": "high", "r2_middle": "high", "r2_long": "high"})
def measure(case: Case, *, score: str | None = None, copies: Copies = COPIES) -> dict[str, float]:
    """All-scale fidelity: what does the explanation predict about copies of the text of any size?

    300 fresh copies, sizes log-uniform from one token to all but one, a third of them stretches of neighbours
    (maths 3f). R² of the predicted score of the label, over all copies and by their size. A surrogate
    predicts as it is; an additive explanation predicts by the sum of its scores, and is given the best shift
    and gain.

    R² overall and by size, of the surrogate or of the score named.
    """
    found = fidelity(case.ask, case.explanation, score=score, copies=copies, seed=case.seed)
    return {"r2": found.r2, **found.bands()}


def fidelity(
    ask: Ask, explanation: Explanation, *, score: str | None = None, copies: int = COPIES, seed: int = 0
) -> CopiesFidelity:
    """Predicted and true scores of the target for fresh copies of all sizes."""
    n = len(explanation)
    if n < _LEAST:
        raise NotApplicable(f"fewer than {_LEAST} tokens have no copies of different sizes")
    # a stream of its own, so that no copy is one that a method drew from the same seed
    drawn = design(n, copies, 1, n - 1, np.random.default_rng([seed, 0xA11]))
    target = choose_target(ask.model, explanation.target, ask.whole())
    truth = target.score(ask(drawn))
    if np.ptp(truth) <= _ROUNDING * (1.0 + np.abs(truth).max()):
        raise NotApplicable("the model says the same of all copies of the text")
    keep = np.asarray(drawn.counts().toarray(), dtype=float) > 0  # type: ignore[reportUnknownMemberType]
    return CopiesFidelity(truth, predicted(explanation, keep, truth, score), drawn.lengths.astype(float), n)


def predicted(explanation: Explanation, keep: BoolArray, truth: FloatArray, score: str | None) -> FloatArray:
    """What the explanation says of copies (N × n); sums of scores in the line that suits them best."""
    surrogate = explanation.surrogate
    if score is None and surrogate is not None and not isinstance(surrogate, Additive):
        return surrogate.predict(keep.astype(float))[:, 0]
    weights = explanation.score(score)
    if score is None and isinstance(surrogate, Additive):
        weights = surrogate.weights[:, 0]
    return best_line(keep @ weights, truth)


def best_line(sums: FloatArray, truth: FloatArray) -> FloatArray:
    """The sums with the shift and the gain that suit the truth best; no gain turns a sign around."""
    centred = sums - sums.mean()
    spread = float(centred @ centred)
    gain = max(float(centred @ truth) / spread, 0.0) if spread > 0 else 0.0
    return truth.mean() + gain * centred


@protocol("lds", good={"spearman": "high"})
def measure_lds(case: Case, *, score: str | None = None, copies: Copies = 128) -> dict[str, float]:
    """LDS, the linear datamodelling score: are answers to random halves predicted in their order?

    Each token is kept with probability one half, 128 times. Spearman's correlation of what the explanation
    predicts (its surrogate, or the sum of the scores that are kept) with the label's score (Park et al.
    2023).

    The score of the surrogate, or of the sums of the score named.
    """
    explanation = case.explanation
    keep = halves(len(explanation), copies, case.seed)
    target = choose_target(case.ask.model, explanation.target, case.ask.whole())
    truth = target.score(case.ask(from_keep(keep)))
    if explanation.surrogate is None or score is not None:
        return {"spearman": lds(keep @ explanation.score(score), truth)}
    return {"spearman": lds(explanation.surrogate.predict(keep.astype(float))[:, 0], truth)}


def halves(n: int, copies: int, seed: int) -> BoolArray:
    """(≤ copies, n) which units are kept: each with probability one half; empty copies are left out."""
    if n < 2:
        raise NotApplicable("a text of one token has no halves")
    keep = np.random.default_rng([seed, 0x1D5]).random((copies, n)) < 0.5
    return keep[keep.any(axis=1)]


def lds(predicted: FloatArray, truth: FloatArray) -> float:
    """Spearman's correlation of predicted with true answers; 0 where the prediction is constant."""
    return correlation(predicted, truth, "spearman")
