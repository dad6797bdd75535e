"""A linear surrogate: one weight for every token type, fitted to the queries that SLALOM-SGD asks.

Ridge regression on token counts, the ridge chosen by cross-validation. The additive model that the SLALOM
paper argues against: it says that a token counts the same wherever it stands and however often. `design`
chooses the queries: "short" sequences of at most three types, "deletions" (the text without 0 to 5 tokens)
or "subsets" (the text without any number of them).
"""

# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Literal

import numpy as np

from slalom.explainers._common import Budget, Design, finish, held_out, queries
from slalom.explainers._slalom import draw
from slalom.explanation import Explanation
from slalom.fit import linear
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive

NEEDS = "logits"
TOGETHER = True


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    granularity: Literal["types"] = "types",
    design: Design = "short",
) -> Explanation:
    """`budget` queries (1000 by default), an eighth of them held out."""
    tokens = ask.tokens
    sample = draw(ask, target, design, queries("linear", budget, least=2) - 1, seed)
    counts, truth = sample.queries.counts(tokens.inverse, tokens.n_types), target.read(sample.outputs)
    solved = linear.fit(counts[sample.fitted], truth[sample.fitted])
    weights, intercept = solved.surrogate.weights[:, 0], solved.surrogate.intercept
    mean = float(truth[sample.fitted].mean())
    return finish(
        ask,
        target,
        "linear",
        {"attribution": weights[tokens.inverse]},
        surrogate=Additive(weights[tokens.inverse], np.asarray(intercept)),
        fidelity=held_out(solved.surrogate, counts[sample.held_out], truth[sample.held_out], mean),
        settings={"design": design, "intercept": float(intercept[0])},
    )
