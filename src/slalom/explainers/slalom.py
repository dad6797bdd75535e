"""SLALOM, the default: every token gets a value and an importance, fitted to the model's answers.

The surrogate of Leemann et al., asked about copies of the text of all sizes, from single tokens to the whole
text. One head describes most of it; where left-out answers speak for them, several heads below a ceiling are
fitted, and the whole text's neighbourhood is set right. Shares rank tokens; of a decoder, Shapley values do.

`effort` chooses how much is asked: "fast" about half as much as "balanced", "faithful" some three times as
much. `gradients` ("auto", True, False): soft-removal gradients of the longer copies, where the model gives
them and the effort is not "fast"; a decoder answers beginnings of its copies instead. `granularity` is
"positions" (a token may deviate from its type) or "types" (the paper's: copies share their scores). `gamma`
is the sum of the types' importances. With a `length`, all copies have that many tokens (the paper's design).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from slalom.checks import Budget, Range, Seed
from slalom.errors import InputError
from slalom.explainers._common import Gamma, Granularity, finish
from slalom.explainers._slalom import PACES, Effort, Portion, portions, with_prefixes
from slalom.explainers._slalom.study import Answers, Study, study
from slalom.explainers._slalom.trust import fidelity, level
from slalom.explanation import Explanation
from slalom.files import Record
from slalom.fit import one_thread
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.scores import Level, in_order, order_certainty, shapley_slopes, share_slopes
from slalom.tokens import FloatArray, Tokens

NEEDS = "logits"
TOGETHER = True

_LEAST_BUDGET = 3
"""The whole text, and two queries that can differ."""


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: Seed = 0,
    effort: Effort = "balanced",
    granularity: Granularity = "positions",
    gradients: Literal["auto", True, False] = "auto",
    gamma: Gamma = 0.0,
    length: Annotated[int, Range(2, 1000)] | None = None,
) -> Explanation:
    """The value and importance of every token, with standard errors and fidelity on left-out queries."""
    if budget != "auto" and budget < _LEAST_BUDGET:
        raise InputError(f"'slalom' needs at least {_LEAST_BUDGET} queries; the budget is {budget}")
    differentiated = length is None and _differentiated(ask, target, gradients, effort)
    plan = portions(ask.tokens, effort, budget, seed, gradients=differentiated, length=length)
    plan = map(with_prefixes, plan) if ask.answers_prefixes and length is None else plan
    outcome = _study(ask, target, plan, effort, granularity, seed)
    answers, found = outcome.answers, outcome.found
    ranking = "shapley" if ask.model.decoder else "share"
    with one_thread():
        own = level(ask.tokens, np.arange(len(ask.tokens)), found, outcome.shares, gamma, ranking)
        words = _words(ask.tokens, outcome, gamma, ranking)
    settings = {
        "effort": effort,
        "design": answers.design,
        "heads": len(found.surrogate.parts),
        "gradients": differentiated,
        "removal": "fitted" if found.measured is None else "measured",
        "fidelity_by_size": outcome.by_size,
        "stopped": _stopped(outcome, effort, budget),
        "order_certainty": outcome.certainty,
        "solver": found.status,
    }
    return finish(
        ask,
        target,
        "slalom",
        own.scores,
        ranking=ranking,
        stderr=own.stderr,
        levels=words,
        surrogate=found.surrogate,
        fidelity=outcome.trust,
        settings=settings,
        notes=_notes(found, own.scores["removal"]),
    )


def _differentiated(
    ask: Ask, target: Target, gradients: Literal["auto", True, False], effort: Effort
) -> bool:
    """Whether to ask for gradients; several labels take a backward pass each, and beginnings tell more."""
    if gradients is True and ask.differentiable is not None:
        raise InputError(f"gradients=True, but this model has none: {ask.differentiable}")
    if gradients == "auto":
        two = target.activation == "softmax" and len(target.labels) == 2
        return two and effort != "fast" and not ask.answers_prefixes and ask.differentiable is None
    return gradients


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that was asked, the surrogate, and how good it is."""

    answers: Answers
    found: Study
    trust: Mapping[str, float]
    by_size: list[Record]
    shares: FloatArray
    """(n, n) the covariance of the tokens' shares …"""
    certainty: float
    """… and the probability that the order of two tokens is right, on average over pairs."""

    def enough(self, effort: Effort) -> bool:
        pace = PACES[effort]
        return self.certainty >= pace.certainty and self.trust.get("r2", 1.0) >= pace.r2


def _study(
    ask: Ask, target: Target, plan: Iterator[Portion], effort: Effort, granularity: Granularity, seed: int
) -> Outcome:
    """Asks portion after portion and fits, until the surrogate is good enough or the portions end."""
    answer = float(target.score(ask.whole()[None])[0])
    answers = Answers().with_portion(ask, target, next(plan))
    while True:
        with one_thread():
            known = answers.distinct()
            found = study(ask, known, target, answer, granularity, seed)
            shares = found.spread.covariance(share_slopes(found.typical))
            ranked, spread = found.surrogate.shares(), shares
            if ask.model.decoder:
                slopes = shapley_slopes(found.typical, np.eye(len(shares)))
                ranked, spread = found.surrogate.shapley(), found.spread.covariance(slopes)
            certainty = order_certainty(ranked[:, 0], spread)
            outcome = Outcome(answers, found, *fidelity(known, found, target, seed), shares, certainty)
        portion = None if outcome.enough(effort) else next(plan, None)
        if portion is None:
            return outcome
        answers = answers.with_portion(ask, target, portion)


def _words(tokens: Tokens, outcome: Outcome, gamma: float, ranking: str) -> dict[str, Level]:
    """The scores of words from the same fit, where a word has several tokens."""
    numbers = in_order(tokens, tokens.words)
    if numbers[-1] + 1 == len(tokens):
        return {}
    return {"words": level(tokens, numbers, outcome.found, outcome.shares, gamma, ranking)}


def _stopped(outcome: Outcome, effort: Effort, budget: int | Literal["auto"]) -> str:
    told = f"the order of two tokens is right with {100 * outcome.certainty:.0f} % on average"
    if budget != "auto":
        return f"the budget of {budget} queries is used; {told}"
    if effort != "fast" and outcome.enough(effort):
        return f"the surrogate is good enough for effort {effort!r}; {told}"
    return f"the most that effort {effort!r} asks is asked; {told}"


def _notes(found: Study, removal: FloatArray) -> tuple[str, ...]:
    if found.status == "constant" and np.abs(removal).max() > 1e-9:
        return ("The model answers every copy of the text alike; only removals tell tokens apart.",)
    if found.status == "constant":
        return ("The model gives the same answer to every query: no token makes a difference.",)
    if found.status != "converged":
        return ("The fit had not settled when its iterations ended; read the scores with care.",)
    return ()
