"""Quality by budget, and what an explanation cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planted_cases import planted_case
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols import stability as cost
from slalom.evaluate.protocols.deletion import deletion
from slalom.explanation import Cost


def test_cost_is_what_the_explanation_says():
    case = planted_case("random")
    spent = replace(case.explanation, cost=Cost(7, 40, 0.5, 0.25))
    assert cost.measure_cost(replace(case, explanation=spent)) == {
        "queries": 7.0,
        "tokens": 40.0,
        "seconds": 0.5,
        "backwards": 0.0,
        "model_seconds": 0.25,
    }


def test_occlusion_costs_one_query_for_each_token_and_one_for_the_text():
    assert cost.measure_cost(planted_case("occlusion"))["queries"] == 25.0


def test_the_curve_is_the_protocol_at_every_budget():
    case = planted_case("kernel_shap")
    found = cost.by_budget(case, (60, 200), "deletion")
    assert list(found) == [60, 200]
    for queries, numbers in found.items():
        explanation = case.explain(budget=queries)
        assert explanation.cost.queries <= queries
        assert numbers["aopc"] == deletion(case.ask, explanation)


def test_more_queries_bring_sampling_nearer_to_the_truth():
    case = planted_case("shapley_sampling")
    found = cost.by_budget(case, (50, 2000), "recovery")
    assert found[2000]["spearman"] > found[50]["spearman"]


def test_a_budget_that_the_method_refuses_is_left_out(monkeypatch):
    case = planted_case("occlusion")
    assert list(cost.by_budget(case, (10, 100))) == [100]
    assert set(cost.measure_budget(case)) == {f"deletion_{queries}" for queries in cost.BUDGETS}
    monkeypatch.setattr(cost, "BUDGETS", (5, 10))
    with pytest.raises(NotApplicable, match="refuses all budgets up to 10"):
        cost.measure_budget(case)
