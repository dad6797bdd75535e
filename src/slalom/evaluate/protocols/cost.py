"""Cost: what an explanation asks of the model, and what it is worth for how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slalom.errors import InputError
from slalom.evaluate import load
from slalom.evaluate.protocol import Case, NotApplicable, protocol

PARTS = ("queries", "tokens", "backwards", "seconds", "model_seconds")
BUDGETS = (125, 250, 500, 1000)


@protocol("cost", good=dict.fromkeys(PARTS, "low"))
def measure(case: Case) -> dict[str, float]:
    """Cost: what the explanation asked of the model and how long it took.

    Queries, the tokens read, backward passes, seconds, and the part of them spent in the model.
    """
    return {name: float(getattr(case.explanation.cost, name)) for name in PARTS}


@protocol("budget", good={f"deletion_{budget}": "high" for budget in BUDGETS}, needs="repeats")
def measure_budget(case: Case) -> dict[str, float]:
    """Budget: the quality of a method as a function of the queries it may ask.

    The text is explained again with budgets of 125, 250, 500 and 1000 queries and judged by deletion AOPC; a
    budget that the method refuses as too small is left out.
    """
    numbers = by_budget(case, BUDGETS, "deletion")
    if not numbers:
        raise NotApplicable(f"the method refuses all budgets up to {max(BUDGETS)} queries for this text")
    return {f"deletion_{budget}": own["aopc"] for budget, own in numbers.items()}


def by_budget(case: Case, budgets: Sequence[int], judge: str = "deletion") -> dict[int, dict[str, float]]:
    """The numbers of a protocol for every budget that the method accepts."""
    measured = load(judge)
    result: dict[int, dict[str, float]] = {}
    for budget in budgets:
        try:
            explanation = case.explain(budget=budget)
        except InputError:  # too small for the method and this text
            continue
        result[budget] = measured(replace(case, explanation=explanation))
    return result
