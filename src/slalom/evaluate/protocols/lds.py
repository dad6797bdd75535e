"""The linear datamodelling score."""

from __future__ import annotations

import numpy as np

from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import correlation
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import BoolArray, FloatArray


@protocol("lds", good={"spearman": "high"})
def measure(case: Case, *, score: str | None = None, copies: int = 128) -> dict[str, float]:
    """LDS, the linear datamodelling score: are answers to random halves predicted in their order?

    Each token is kept with probability one half, 128 times; Spearman's correlation of what the explanation
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
