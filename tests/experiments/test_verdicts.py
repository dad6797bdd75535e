"""One rule for all claims: pooled differences with a margin."""

from __future__ import annotations

import pytest

from slalom_lab.experiments._shared.outcome import NOT_JUDGED, ON_PAR, Row, Verdict, all_of
from slalom_lab.experiments._shared.verdicts import compare, not_behind, outperforms, pooled, within


def gap(value: float, error: float | None = 0.01, model: str = "a", measure: str = "x over y") -> Row:
    return Row({"model": model}, measure, value, error, 10)


def test_models_count_alike() -> None:
    row = pooled([gap(0.1, 0.03), gap(0.3, 0.04, "b"), gap(9.0, measure="other")], "x over y")
    assert row.ours == pytest.approx(0.2)
    assert row.error == pytest.approx(0.025)
    assert (row.n, row.where["models"]) == (20, 2)
    assert pooled([gap(0.1, None)], "x over y").error is None
    assert pooled([], "x over y").ours is None


@pytest.mark.parametrize(
    ("value", "error", "wanted"),
    [
        (0.05, 0.01, "better"),
        (-0.05, 0.01, "worse"),
        (0.01, 0.01, "open"),
        (-0.0001, 0.00003, "on par"),  # two standard errors below zero, by a hair
        (0.005, 0.001, "on par"),
        (0.019, 0.001, "better"),
    ],
)
def test_a_hair_is_no_difference(value: float, error: float, wanted: str) -> None:
    assert compare(gap(value, error), 0.02) == wanted


@pytest.mark.parametrize(
    ("value", "error", "wanted"),
    [(0.01, 0.004, True), (-0.01, 0.004, True), (-0.05, 0.01, False), (0.03, 0.01, None), (0.0, None, None)],
)
def test_within(value: float, error: float | None, wanted: bool | None) -> None:
    assert within(gap(value, error), 0.02) is wanted


def test_no_error_no_verdict() -> None:
    assert compare(gap(0.5, None), 0.02) == "open"
    assert compare(Row({}, "x", None), 0.02) == "open"
    assert not_behind([], ["x"], 0.01)[0] is None


@pytest.mark.parametrize(
    ("gaps", "wanted"),
    [
        ((0.05, 0.06), True),
        ((0.05, 0.001), ON_PAR),
        ((0.05, -0.06), False),
        ((0.05, 0.025), True),
        ((0.001, -0.06), False),
    ],
)
def test_better_than_each(gaps: tuple[float, float], wanted: Verdict) -> None:
    rows = [
        gap(value, 0.005, measure=name) for value, name in zip(gaps, ("x over y", "x over z"), strict=True)
    ]
    verdict, told = outperforms(rows, ["x over y", "x over z"], 0.02)
    assert verdict == wanted
    assert told.startswith("pooled over 1 model (margin 0.02): x over y +0.0")


def test_not_behind() -> None:
    for value, wanted in ((0.0, True), (-0.05, False), (-0.02, None), (0.5, True)):
        assert not_behind([gap(value, 0.005)], ["x over y"], 0.02)[0] is wanted


def test_verdicts_together() -> None:
    assert all_of([True, ON_PAR]) == ON_PAR
    assert all_of([ON_PAR, None]) is None
    assert all_of([ON_PAR, False, None]) is False
    assert all_of([True, NOT_JUDGED, None]) == NOT_JUDGED
    assert all_of([NOT_JUDGED, False]) is False
