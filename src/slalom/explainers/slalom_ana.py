"""SLALOM-Ana, the paper's Proposition 5.2: value and importance of every token type, read off 2 d − 1
queries.

Every type is asked on its own, and all but one beside another. Exact for a model that is a SLALOM; a real
model is not, and the share of a pair that lies outside of what a SLALOM can say is moved to its edge
(strict=True refuses it).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from slalom import designs
from slalom.explainers._common import Budget, Gamma, finish, for_target, held_out, queries
from slalom.explanation import Explanation
from slalom.fit import ana
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import from_rows
from slalom.scores import slalom_readings
from slalom.surrogate import Slalom

NEEDS = "logits"
TOGETHER = True


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    granularity: Literal["types"] = "types",
    strict: bool = False,
    gamma: Gamma = 0.0,
) -> Explanation:
    """2 d − 1 queries and the text; what a larger budget leaves over judges the fit on sequences of three."""
    tokens = ask.tokens
    first, n, d = tokens.first, len(tokens), tokens.n_types
    spare = queries("slalom_ana", budget, 2 * d, least=2 * d) - 2 * d
    singles = target.signal(ask(designs.singles(first, n)))
    plan = ana.pair_queries(singles)
    pairs = target.signal(ask(from_rows(first[plan.pairs], n))) if d > 1 else np.zeros((0, singles.shape[1]))
    solved = ana.solve(plan, singles, pairs, strict=strict, names=tokens.types, gamma=gamma)
    types = for_target(solved.surrogate, target, np.arange(d))
    surrogate = for_target(solved.surrogate, target, tokens.inverse)
    return finish(
        ask,
        target,
        "slalom_ana",
        slalom_readings(surrogate),
        ranking="share",
        surrogate=surrogate,
        fidelity=_judge(ask, target, types, spare, seed, float(target.read(singles).mean())),
        settings={"solver": solved.status, "reference": tokens.types[plan.reference]},
        notes=_notes(solved.status),
    )


def _judge(ask: Ask, target: Target, types: Slalom, spare: int, seed: int, mean: float) -> dict[str, float]:
    if spare < 2:
        return {}
    tokens = ask.tokens
    drawn = designs.short(tokens.first, len(tokens), spare, (3,), np.random.default_rng(seed))
    counts = drawn.counts(tokens.inverse, tokens.n_types)
    return held_out(types, counts, target.score(ask(drawn)), mean)


def _notes(status: str) -> tuple[str, ...]:
    if not status.startswith("clipped"):
        return ()
    return (f"The model is no SLALOM: shares of pairs beyond what one can say were {status}.",)
