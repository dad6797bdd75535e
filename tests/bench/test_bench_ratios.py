"""Ratios, spreads, goals and budgets from given numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from slalom_lab.bench.parts.equal_quality import _goals
from slalom_lab.bench.ratios import best_of, enough, goal, mean_error, paired, spread
from slalom_lab.bench.report import measured, ratios_table
from slalom_lab.bench.timing import in_turn


def test_a_spread_is_median_least_and_most() -> None:
    found = spread([3.0, 1.0, 2.0, 10.0])
    assert (found.median, found.low, found.high, found.n) == (2.5, 1.0, 10.0, 4)
    assert math.isnan(spread([]).median)
    assert spread([]).n == 0


def test_ratios_are_paired_by_document_and_round() -> None:
    peer = {(0, 0): 10.0, (1, 0): 30.0}
    ours = {(0, 0): 2.0, (0, 1): 1.0, (1, 0): 3.0, (1, 1): 1.0}
    assert paired(peer, ours) == [5.0, 10.0]
    assert paired({}, ours) == []


@pytest.mark.parametrize(
    ("sense", "bound", "reached"),
    [("at least", 3.0, True), ("at least", 3.1, False), ("at most", 3.0, True), ("at most", 2.9, False)],
)
def test_the_median_decides_whether_a_goal_is_reached(sense: str, bound: float, reached: bool) -> None:
    found = goal("a / b", [1.0, 3.0, 9.0], sense, bound)  # pyright: ignore[reportArgumentType]
    assert found["reached"] is reached
    assert found["ratio"] == {"median": 3.0, "low": 1.0, "high": 9.0, "n": 3}


def test_a_goal_without_a_measurement_is_not_decided() -> None:
    found = goal("a / b", [], "at least", 2.0, "not installed: pip install a")
    assert found["reached"] is None
    assert measured(found) == "not measured: not installed: pip install a"


def test_the_table_shows_ratios_and_no_goals() -> None:
    found = goal("lime / slalom eager", [40.0, 50.0], "at least", 30.0)
    row = ratios_table({"equal_samples": {"goals": [found]}})[-1]
    assert row == "| lime / slalom eager | 45.0 (40.0 – 50.0, 2) |"


def test_the_best_engine_has_the_smallest_median_of_those_measured() -> None:
    times = {"eager": {(0, 0): 2.0, (0, 1): 2.0}, "onnx": {(0, 0): 1.0, (0, 1): 1.5}, "openvino": {}}
    assert best_of(times, ("eager", "onnx", "openvino")) == "onnx"
    assert best_of(times, ("openvino", "compile")) is None


def test_the_budget_that_suffices_stays_above_from_there_on() -> None:
    quality = {100: 0.9, 200: 0.5, 300: 0.8, 500: 0.85}
    assert enough((100, 200, 300, 500), quality, 0.7) == 300  # 100 was luck
    assert enough((100, 200, 300, 500), quality, 0.5) == 100
    assert enough((100, 200, 300, 500), quality, 0.86) is None


def test_mean_and_standard_error() -> None:
    mean, error = mean_error([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert error == pytest.approx(math.sqrt(5 / 3) / 2)
    assert math.isnan(mean_error([1.0])[1])


def test_calls_take_turns_and_rounds_alternate() -> None:
    seen: list[str] = []
    taken = in_turn({name: lambda name=name: seen.append(name) for name in "ab"}, 3)
    assert "".join(seen) == "abbaab"
    assert [len(times) for times in taken.values()] == [3, 3]


def test_equal_quality_is_judged_with_the_default_and_with_the_best_engine() -> None:
    def row(aopc: float, eager: float, lean: float) -> dict[str, Any]:
        return {"aopc": aopc, "seconds": {"eager": eager, "lean": lean}}

    theirs = [{"aopc": 0.5, "seconds": 60.0}, {"aopc": 0.7, "seconds": 90.0}]
    ours = {100: [row(0.4, 0.1, 0.1), row(0.5, 0.1, 0.1)], 200: [row(0.6, 1.0, 0.5), row(0.8, 1.0, 0.5)]}
    default, best = _goals("shap_kernel", theirs, 200, ours, "eager")
    assert "eager" in default["claim"]
    assert "lean" in best["claim"]
    assert "best fp32" in best["claim"]
    assert (default["ratio"]["median"], best["ratio"]["median"]) == (75.0, 150.0)
    assert (default["reached"], best["reached"]) == (False, True)
    assert default["aopc_gap"] == pytest.approx(0.1)
    [missed] = _goals("shap_kernel", theirs, None, ours, "eager")
    assert missed["reached"] is False
    assert "200 queries" in missed["reason"]
