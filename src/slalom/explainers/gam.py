"""A generalised additive surrogate: one weight for every token at every place where it can stand.

Lasso regression (0.01, as in the SLALOM paper) on indicators of (token, place), fitted to copies of the
text with tokens left out, which moves the tokens behind them to other places. A token's score is its weight
at its own place. The second additive model that the paper argues against. `design` is "deletions" (0 to 5
tokens left out) or "subsets" (any number).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from scipy import sparse

from slalom.checks import Range
from slalom.explainers._common import Budget, extra, finish, held_out, queries
from slalom.explainers._slalom import Sample, draw
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive
from slalom.tokens import FloatArray, IntArray

NEEDS = "logits"
TOGETHER = True

Design = Literal["deletions", "subsets"]
_STEPS, _LOOK = 5000, 20
"""Passes over the weights, and between two looks at whether to go on."""


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    design: Design = "deletions",
    alpha: Annotated[float, Range(1e-9, 1e9)] = 0.01,
) -> Explanation:
    """`budget` queries (1000 by default), an eighth of them held out."""
    n, types = len(ask.tokens), ask.tokens.n_types
    sample = draw(ask, target, design, queries("gam", budget, least=2) - 1, seed)
    rows, truth = _indicators(sample, ask.tokens.inverse, types), target.read(sample.outputs)
    solved, converged = _lasso(rows[sample.fitted], truth[sample.fitted], n * types, alpha, ask.check)
    own = ask.tokens.inverse * n + np.arange(n)
    mean = float(truth[sample.fitted].mean())
    late = () if converged else ("The lasso had not settled when its iterations ended; raise alpha.",)
    return finish(
        ask,
        target,
        "gam",
        {"attribution": solved.weights[own, 0]},
        fidelity=held_out(solved, rows[sample.held_out], truth[sample.held_out], mean),
        settings={"design": design, "alpha": alpha, "weights": int((solved.weights != 0).sum())},
        notes=late,
    )


def _indicators(sample: Sample, inverse: IntArray, types: int) -> sparse.csr_array:
    """(N, d · n) which token stands at which place of each query."""
    queries = sample.queries
    place = np.arange(len(queries.positions)) - np.repeat(queries.offsets[:-1], queries.lengths)
    columns = inverse[queries.positions] * queries.size + place
    shape = (len(queries), types * queries.size)
    return sparse.csr_array((np.ones(len(columns)), (queries.rows, columns)), shape=shape)


def _lasso(
    rows: sparse.csr_array, truth: FloatArray, width: int, alpha: float, check: Callable[[], None]
) -> tuple[Additive, bool]:
    """The surrogate, and whether it has settled."""
    late = extra("sklearn.exceptions", "gam").ConvergenceWarning
    seen = np.union1d(rows.indices, [0])  # all queries may be empty, and no column is none to a lasso
    chosen = sparse.csc_matrix(rows[:, seen])
    # scikit-learn wants indices of 32 bits.
    chosen.indices, chosen.indptr = chosen.indices.astype(np.int32), chosen.indptr.astype(np.int32)
    lasso = extra("sklearn.linear_model", "gam").Lasso
    model, settled = lasso(alpha=alpha, max_iter=_LOOK, warm_start=True, random_state=0), False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", late)
        for _ in range(_STEPS // _LOOK):
            check()
            settled = model.fit(chosen, truth).n_iter_ < _LOOK
            if settled:
                break
    weights = np.zeros(width)
    weights[seen] = model.coef_
    return Additive(weights, np.array([model.intercept_])), settled
