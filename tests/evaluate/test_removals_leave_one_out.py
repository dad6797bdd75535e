"""Leave-one-out agreement: 1 for the truth, −1 for its opposite, and the definition of both correlations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted_cases import planted_case, planted_output, truthful, with_scores
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.removals import leave_one_out
from slalom.evaluate.protocols.removals import measure_leave_one_out as measure
from slalom.evaluate.statistics import correlation, likeness


def test_what_is_lost_is_what_the_formula_gives():
    case = planted_case()
    full = planted_output(np.arange(24))
    expected = [full - planted_output(np.delete(np.arange(24), i)) for i in range(24)]
    np.testing.assert_allclose(leave_one_out(case.ask, case.explanation), expected, atol=1e-9)


def test_the_planted_removal_orders_perfectly_and_its_opposite_as_badly_as_can_be():
    case = planted_case()
    truth = truthful(case).removal
    assert measure(with_scores(case, truth)) == pytest.approx({"kendall": 1.0, "spearman": 1.0})
    assert measure(with_scores(case, -truth)) == pytest.approx({"kendall": -1.0, "spearman": -1.0})


def test_the_queries_are_shared_by_all_methods():
    case = planted_case()
    measure(case)
    asked = case.ask.cost.queries
    measure(with_scores(case, np.arange(24.0)))
    assert case.ask.cost.queries == asked


def tau_b(a: list[float], b: list[float]) -> float:
    pairs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in combinations(range(len(a)), 2)]
    agreement = sum(x * y for x, y in pairs)
    return float(agreement / np.sqrt(sum(x * x for x, _ in pairs) * sum(y * y for _, y in pairs)))


def rho(a: list[float], b: list[float]) -> float:
    def mean_ranks(numbers: list[float]) -> list[float]:
        return [sum(y < x for y in numbers) + (sum(y == x for y in numbers) + 1) / 2 for x in numbers]

    return float(np.corrcoef(mean_ranks(a), mean_ranks(b))[0, 1])


numbers = st.lists(st.integers(-3, 3).map(float), min_size=6, max_size=6)


@settings(deadline=None, derandomize=True, database=None)
@given(numbers, numbers)
def test_correlations_are_those_of_the_definitions(told, truth):
    a, b = np.array(told), np.array(truth)
    if len(set(truth)) == 1:
        with pytest.raises(NotApplicable, match="same for all"):
            correlation(a, b, "spearman")
    elif len(set(told)) == 1:
        assert correlation(a, b, "kendall") == 0.0
    else:
        assert correlation(a, b, "kendall") == pytest.approx(tau_b(told, truth))
        assert correlation(a, b, "spearman") == pytest.approx(rho(told, truth))


def test_likeness_of_constant_scores_is_defined():
    constant, rising = np.zeros(4), np.arange(4.0)
    assert likeness(constant, constant) == likeness(constant, constant + 1) == likeness(rising, rising) == 1.0
    assert likeness(constant, rising) == likeness(rising, constant) == 0.0
    with pytest.raises(NotApplicable, match="fewer than 3"):
        likeness(constant[:2], rising[:2])
