"""SLALOM, the default: every token gets a value and an importance, fitted to the model's answers.

The surrogate of Leemann et al. with the exact solver of this library. `effort` chooses the queries: "fast"
asks about short sequences of the text's tokens only (the paper's efficient variant), "balanced" also about
stretches and scattered excerpts of the text and about the text with blocks left out, "faithful" about more of
it and about the text without each single token. `granularity` is "positions" (a token may deviate from its
type) or "types" (the paper's: copies share their scores). `gamma` is the sum of the types' importances;
`length` is how many tokens the sequences of "fast" have (the paper's runs had up to 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np

from slalom.checks import Budget, Range
from slalom.errors import InputError
from slalom.explainers._answers import Answers
from slalom.explainers._common import Gamma
from slalom.explainers._fidelity import fidelity
from slalom.explainers._plan import LENGTH, PACES, Effort, Portion, portions
from slalom.explainers._scales import Granularity, Scales, fit
from slalom.explanation import Explanation
from slalom.fit import readings
from slalom.fit.blas import one_thread
from slalom.models.ask import Ask
from slalom.models.target import Target, probabilities
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray

NEEDS = "logits"
TOGETHER = True

_LEAST_BUDGET = 3
"""The whole text, and two queries that can differ."""


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    effort: Effort = "balanced",
    granularity: Granularity = "positions",
    gamma: Gamma = 0.0,
    length: Annotated[int, Range(2, 1000)] = LENGTH,
) -> Explanation:
    """The value and importance of every token, with standard errors and fidelity on held-out queries."""
    _check(budget, effort, length)
    whole = target.signal(ask.whole()[None])[0]
    plan = portions(ask.tokens, effort, budget, seed, length)
    answers, scales, certainty = _study(ask, target, plan, effort, granularity, gamma)
    with one_thread():
        scores, errors = _read(scales, target)
        trust = fidelity(ask.tokens, answers, scales, target, whole)
    return Explanation(
        tokens=ask.tokens,
        method="slalom",
        target=target.label,
        labels=target.labels,
        probabilities=probabilities(ask.whole()[None], target.activation)[0],
        output=float(target.read(whole)),
        scores=scores,
        ranking="linear",
        stderr=errors,
        surrogate=_for_target(scales.context, target),
        fidelity=trust,
        cost=ask.cost,
        settings={
            "effort": effort,
            "design": answers.design,
            "stopped": _stopped(certainty, effort, budget),
            "order_certainty": certainty,
            "solver": scales.status,
        },
        notes=_notes(scales, scores["removal"]),
    )


def _study(
    ask: Ask,
    target: Target,
    plan: Iterator[Portion],
    effort: Effort,
    granularity: Granularity,
    gamma: float,
) -> tuple[Answers, Scales, float]:
    """Asks portion after portion and fits, until the order of the tokens is certain or the portions end."""
    whole = target.signal(ask.whole()[None])[0]
    column = target.index if target.activation == "softmax" and len(target.labels) > 2 else 0
    answers = Answers().with_portion(ask, target, next(plan))
    while True:
        with one_thread():
            scales = fit(ask.tokens, answers, whole, granularity, column, gamma)
            certainty = _certainty(scales, target)
        portion = next(plan, None) if certainty < PACES[effort].certainty else None
        if portion is None:
            return answers, scales, certainty
        answers = answers.with_portion(ask, target, portion)


def _certainty(scales: Scales, target: Target) -> float:
    excerpt = _for_target(scales.excerpt, target)
    linear = excerpt.linear(np.arange(len(excerpt.importances)))[:, 0]
    covariance = readings.linear_covariance(excerpt, _signed(scales.covariance, target))
    return readings.order_certainty(linear, covariance)


def _check(budget: Budget, effort: str, length: int) -> None:
    if budget != "auto" and budget < _LEAST_BUDGET:
        raise InputError(f"'slalom' needs at least {_LEAST_BUDGET} queries; the budget is {budget}")
    if length != LENGTH and effort != "fast":
        raise InputError(f"length is an option of effort 'fast'; the effort is {effort!r}")


def _for_target(surrogate: Slalom, target: Target) -> Slalom:
    """The one-output SLALOM of the target."""
    return Slalom(
        target.read(surrogate.values),
        surrogate.importances,
        target.read(surrogate.background_value[None]),
        surrogate.background_importance,
    )


def _signed(covariance: FloatArray, target: Target) -> FloatArray:
    """The covariance for the target: of two classes, the first has the values of the second, sign turned."""
    half = len(covariance) // 2
    turned = target.activation == "softmax" and len(target.labels) == 2 and target.index == 0
    sign = np.r_[np.ones(half), np.full(half, -1.0 if turned else 1.0)]
    return covariance * np.outer(sign, sign)


def _read(scales: Scales, target: Target) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Scores and standard errors; removal is read near the whole text, everything else from excerpts."""
    excerpt, near, types = (_for_target(s, target) for s in (scales.excerpt, scales.context, scales.types))
    scores = readings.scores(excerpt)
    scores["removal"] = near.removal(np.arange(len(near.importances)))[:, 0]
    scores["type_value"], scores["type_importance"] = types.values[:, 0], types.importances
    errors = readings.standard_errors(excerpt, _signed(scales.covariance, target))
    errors["removal"] = readings.removal_error(near, scales.context_covariance)
    return scores, errors


def _stopped(certainty: float, effort: Effort, budget: Budget) -> str:
    told = f"the order of two tokens is right with {100 * certainty:.0f} % on average"
    if budget != "auto":
        return f"the budget of {budget} queries is used; {told}"
    if certainty >= PACES[effort].certainty:
        return f"the ranking is stable: {told}"
    return f"the most that effort {effort!r} asks is asked; {told}"


def _notes(scales: Scales, removal: FloatArray) -> tuple[str, ...]:
    if scales.status == "constant" and scales.left_out is not None and np.abs(removal).max() > 1e-9:
        return (
            "The model gives the same answer to every excerpt of the text; only removals tell tokens apart.",
        )
    if scales.status == "constant":
        return ("The model gives the same answer to every query: no token makes a difference.",)
    if scales.status != "converged":
        return ("The fit had not settled when its iterations ended; read the scores with care.",)
    return ()
