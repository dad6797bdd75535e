"""Budget: the quality of a method as a function of the queries it may ask.

The text is explained again with budgets of 125, 250, 500 and 1000 queries and judged by deletion AOPC; a
budget that the method refuses as too small is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slalom.errors import InputError
from slalom.evaluate import load
from slalom.evaluate.protocol import Case, NotApplicable

NEEDS = "repeats"
BUDGETS = (125, 250, 500, 1000)
GOOD = {f"deletion_{budget}": "high" for budget in BUDGETS}


def measure(case: Case) -> dict[str, float]:
    """Deletion AOPC for every budget."""
    found = curve(case, BUDGETS, "deletion")
    if not found:
        raise NotApplicable(f"the method refuses all budgets up to {max(BUDGETS)} queries for this text")
    return {f"deletion_{budget}": numbers["aopc"] for budget, numbers in found.items()}


def curve(case: Case, budgets: Sequence[int], protocol: str = "deletion") -> dict[int, dict[str, float]]:
    """The numbers of a protocol for every budget that the method accepts."""
    measured = load(protocol)
    result = {}
    for budget in budgets:
        try:
            explanation = case.explain(budget=budget)
        except InputError:  # too small for the method and this text
            continue
        result[budget] = measured(replace(case, explanation=explanation))
    return result
