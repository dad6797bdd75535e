"""SLALOM, the paper's fidelity variant: fitted to the text with a few random tokens left out.

One value and importance for every token type, by the exact solver, from queries that lack 0 to 5 tokens
(`most`). It describes the neighbourhood of the whole text, and says little about tokens on their own.
"""

# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Annotated, Literal

from slalom.checks import Range
from slalom.explainers._common import Budget, queries
from slalom.explainers._slalom import draw, finish_types
from slalom.explanation import Explanation
from slalom.fit import exact
from slalom.models.ask import Ask
from slalom.models.target import Target

NEEDS = "logits"
TOGETHER = True


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    granularity: Literal["types"] = "types",
    most: Annotated[int, Range(0, 1_000_000)] = 5,
) -> Explanation:
    """`budget` copies of the text (1000 by default) with 0 … `most` tokens left out, an eighth held out."""
    tokens = ask.tokens
    sample = draw(ask, target, "deletions", queries("slalom_fidelity", budget, least=2) - 1, seed, most=most)
    counts = sample.queries.counts(tokens.inverse, tokens.n_types)
    column = target.index if sample.outputs.shape[1] > 1 else 0
    solved = exact.fit(counts[sample.fitted], sample.outputs[sample.fitted], column=column)
    settings = {"most": most, "solver": solved.status}
    return finish_types(ask, target, "slalom_fidelity", solved.surrogate, sample, counts, settings)
