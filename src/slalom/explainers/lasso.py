"""ContextCite's surrogate: a lasso over copies that keep each token (or source) with probability one half.

The method of Cohen-Wang et al., "ContextCite: Attributing Model Generation to Context". Units are
standardised and a lasso is fitted to the target's score; a unit's score is its weight. `alpha` is the lasso's
penalty: a number, or "auto" for the one of the least cross-validated error. ContextCite divides the score by
the m tokens of the answer and takes 0.01, which is alpha = 0.01·m here.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Literal

import numpy as np

from slalom.checks import Budget, Range, Seed
from slalom.explainers._common import Subsets, extra, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive
from slalom.tokens import BoolArray, FloatArray

NEEDS = "logits"
TOGETHER = True

_QUERIES = 64
"""ContextCite's own number of copies."""
_FOLDS = 5


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: Seed = 0,
    alpha: Literal["auto"] | Annotated[float, Range(1e-9, 1e9)] = 0.01,
) -> Explanation:
    """`budget` queries (64 by default), one of them the text itself."""
    count = queries("lasso", budget, auto=_QUERIES, least=3) - 1
    kept = np.random.default_rng(seed).random((count, len(ask.tokens))) < 0.5
    subsets = Subsets(ask, target)
    surrogate, used = fit(kept, subsets(kept), alpha)
    return finish(
        ask,
        target,
        "lasso",
        {"attribution": surrogate.weights[:, 0]},
        surrogate=surrogate,
        settings={"alpha": used, "weights": int((surrogate.weights != 0).sum())},
        notes=subsets.notes,
    )


def fit(kept: BoolArray, scores: FloatArray, alpha: float | Literal["auto"]) -> tuple[Additive, float]:
    """The weights of the units in their own scale, and the penalty."""
    linear = extra("sklearn.linear_model", "lasso")
    x, spread = kept.astype(float), kept.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    own = {"random_state": 0}  # else it draws from the generator of the whole process
    folds = min(_FOLDS, len(kept))
    solver = linear.LassoCV(cv=folds, **own) if alpha == "auto" else linear.Lasso(alpha=alpha, **own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a path that has not settled at the smallest of its penalties
        solver.fit((x - x.mean(axis=0)) / spread, scores)
    weights = solver.coef_ / spread
    intercept = float(solver.intercept_ - weights @ x.mean(axis=0))
    return Additive(weights, np.array([intercept])), float(solver.alpha_ if alpha == "auto" else alpha)
