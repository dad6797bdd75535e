"""Explanations beside what removing tokens does: each one alone, random ones, the strongest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom.checks import Drawn, Positive
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import correlation, strongest_first
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import FloatArray


@dataclass(frozen=True, eq=False)
class Removals:
    """True and predicted changes of the score, a row for each number k = 1, 2, … of removed tokens."""

    truth: FloatArray
    told: FloatArray

    @property
    def error(self) -> FloatArray:
        """Mean squared error for every k."""
        return ((self.truth - self.told) ** 2).mean(axis=1)

    @property
    def nothing(self) -> FloatArray:
        """Mean squared error of predicting no change, for every k."""
        return (self.truth**2).mean(axis=1)

    @property
    def relative(self) -> float:
        """Error relative to predicting no change; below 1 the explanation says something."""
        return float(self.error.sum() / self.nothing.sum())

    @property
    def r2(self) -> float:
        """Share of the variance of the true changes that the predicted ones explain, over all k."""
        return float(
            1.0 - ((self.truth - self.told) ** 2).sum() / ((self.truth - self.truth.mean()) ** 2).sum()
        )

    @property
    def correlation(self) -> float:
        """Pearson's, for methods whose scores are not in units of log-odds; 0 for a constant prediction."""
        if np.ptp(self.told) == 0.0:
            return 0.0
        return float(np.corrcoef(self.truth.ravel(), self.told.ravel())[0, 1])


@protocol(
    "removals", good={"mse": "low", "zero_mse": "low", "relative": "low", "r2": "high", "correlation": "high"}
)
def measure(
    case: Case, *, score: str | None = None, most: Positive = 10, masks: Drawn = 100
) -> dict[str, float]:
    """Multi-removal fidelity: does the explanation predict what random removals do to the score?

    1 to 10 random tokens are dropped, 100 seeded masks of each size; the predicted change of the label's
    score (log-odds) is set against the true one (maths 6). A surrogate recomputes its answer; a method
    without one predicts minus the sum of what was removed. Predicting no change is the baseline.

    Errors as means over k, beside those of predicting no change.
    """
    found = removals(case.ask, case.explanation, score=score, most=most, masks=masks, seed=case.seed)
    if np.ptp(found.truth) == 0.0:
        raise NotApplicable("removing tokens does not change the model's score")
    return {
        "mse": float(found.error.mean()),
        "zero_mse": float(found.nothing.mean()),
        "relative": found.relative,
        "r2": found.r2,
        "correlation": found.correlation,
    }


def removals(
    ask: Ask,
    explanation: Explanation,
    *,
    score: str | None = None,
    most: int = 10,
    masks: int = 100,
    seed: int = 0,
) -> Removals:
    """Predicted against true change of the target's score under `masks` random removals of each size.

    A surrogate is asked for its prediction; a method without one, or a score by name, predicts minus the sum
    of what was removed.
    """
    n = len(explanation)
    if n < 2:
        raise NotApplicable("of a text of one token nothing can be removed")
    sizes = np.repeat(np.arange(1, min(most, n - 1) + 1), masks)
    ranks = np.random.default_rng(seed).random((len(sizes), n)).argsort(axis=1).argsort(axis=1)
    keep = ranks >= sizes[:, None]
    target = choose_target(ask.model, explanation.target, ask.whole())
    truth = target.score(ask(from_keep(keep))) - target.score(ask.whole()[None])
    told = _told(explanation, keep, score)
    return Removals(truth.reshape(-1, masks), told.reshape(-1, masks))


def _told(explanation: Explanation, keep: np.ndarray, score: str | None) -> FloatArray:
    if explanation.surrogate is None or score is not None:
        return -(~keep @ explanation.score(score))
    whole = explanation.surrogate.predict(np.ones((1, keep.shape[1])))
    return (explanation.surrogate.predict(keep.astype(float)) - whole)[:, 0]


@protocol("leave_one_out", good={"kendall": "high", "spearman": "high"})
def measure_leave_one_out(case: Case, *, score: str | None = None) -> dict[str, float]:
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


@protocol("top_k_drop", good={"drop": "high"}, needs="many queries")
def measure_top_k_drop(case: Case, *, score: str | None = None, k: Positive = 3) -> dict[str, float]:
    """Top-k drop: what the score of the label loses without the k strongest units (ContextCite's measure).

    Log-odds of the whole text, less those without the k units of the largest signed score, ties at random.
    """
    n = len(case.explanation)
    if n <= k:
        raise NotApplicable(f"the text has at most {k} units, and all of them would go")
    kept = np.ones((2, n), dtype=bool)
    kept[1, strongest_first(case.explanation.score(score), case.seed)[:k]] = False
    logits = case.ask(from_keep(kept))
    whole, without = choose_target(case.ask.model, case.explanation.target, logits[0]).score(logits)
    return {"drop": float(whole - without)}
