"""SLALOM, the default: every token gets a value and an importance, fitted to the model's answers.

The surrogate of Leemann et al. with the exact solver of this library. `effort` chooses the queries: "fast" asks
about short sequences of the text's tokens only (the paper's efficient variant), "balanced" also about stretches
and scattered excerpts of the text and about the text with blocks left out, "faithful" more of all of it and the
text without each single token. `granularity` is "positions" (a token may deviate from its type) or "types" (the
paper's: copies share their scores).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from slalom.errors import InputError
from slalom.explainers._answers import Answers
from slalom.explainers._fidelity import fidelity
from slalom.explainers._plan import PACES, Effort, portions
from slalom.explainers._scales import Granularity, Scales, fit
from slalom.explanation import Explanation
from slalom.fit import readings
from slalom.models.ask import Ask
from slalom.models.target import Target, probabilities
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray

NEEDS = "logits"


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: int | Literal["auto"] = "auto",
    seed: int = 0,
    effort: Effort = "balanced",
    granularity: Granularity = "positions",
    gamma: float = 0.0,
) -> Explanation:
    """The value and importance of every token, with standard errors and fidelity on held-out queries."""
    _check(effort, granularity, gamma)
    whole = target.signal(ask.whole()[None])[0]
    column = target.index if len(whole) > 1 else 0
    answers, stopped = Answers(), ""
    for portion in portions(ask.tokens, effort, budget, seed):
        answers = answers.with_portion(ask, target, portion)
        scales = fit(ask.tokens, answers, target, granularity, column, gamma)
        scores, errors = _read(scales, target)
        reliability = _reliability(scores["linear"], errors["linear"])
        stopped = _stopped(reliability, effort, budget)
        if budget == "auto" and reliability >= PACES[effort].reliability:
            break
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
        fidelity=fidelity(ask.tokens, answers, scales, target, whole),
        cost=ask.cost,
        settings={
            "effort": effort,
            "design": answers.design,
            "stopped": stopped,
            "reliability": reliability,
            "solver": scales.status,
        },
        notes=_notes(scales),
    )


def _check(effort: str, granularity: str, gamma: float) -> None:
    for name, given, known in (("effort", effort, Effort), ("granularity", granularity, Granularity)):
        if given not in get_args(known):
            raise InputError(f"{name} must be one of {', '.join(get_args(known))}; got {given!r}")
    if not np.isfinite(gamma):
        raise InputError(f"gamma, the sum of the importances, must be a finite number; got {gamma!r}")


def _for_target(surrogate: Slalom, target: Target) -> Slalom:
    """The one-output SLALOM of the target."""
    return Slalom(
        target.read(surrogate.values),
        surrogate.importances,
        target.read(surrogate.background_value[None]),
        surrogate.background_importance,
    )


def _read(scales: Scales, target: Target) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Scores and standard errors; removal is read near the whole text, everything else from excerpts."""
    excerpt, near = _for_target(scales.excerpt, target), _for_target(scales.context, target)
    types = _for_target(scales.types, target)
    positions = np.arange(len(excerpt.importances))
    scores = readings.scores(excerpt)
    scores["removal"] = near.removal(positions)[:, 0]
    scores["type_value"], scores["type_importance"] = types.values[:, 0], types.importances
    sign = target.read(np.ones((1, scales.excerpt.values.shape[1])))[0]
    flip = np.r_[np.ones(len(positions) + 1), np.full(len(positions) + 1, sign)]
    errors = readings.standard_errors(excerpt, scales.covariance * np.outer(flip, flip))
    errors["removal"] = readings.removal_error(near, scales.context_covariance)
    return scores, errors


def _reliability(scores: FloatArray, errors: FloatArray) -> float:
    """The share of the spread of the scores that is not error (1 where there is nothing to rank)."""
    spread = float(scores.var())
    if len(scores) < 2 or spread == 0.0:
        return 1.0
    return float(max(0.0, 1.0 - (errors**2).mean() / spread))


def _stopped(reliability: float, effort: Effort, budget: int | Literal["auto"]) -> str:
    told = f"{100 * reliability:.0f} % of the spread of the ranking is signal"
    if budget != "auto":
        return f"the budget of {budget} queries is used; {told}"
    if reliability >= PACES[effort].reliability:
        return f"the ranking is stable: {told}"
    return f"the most that effort {effort!r} asks is asked; {told}"


def _notes(scales: Scales) -> tuple[str, ...]:
    if scales.status == "constant":
        return ("The model gives the same answer to every query: no token makes a difference.",)
    if scales.status != "converged":
        return ("The fit had not settled when its iterations ended; read the scores with care.",)
    return ()
