"""The experiment on the histogram task, briefly trained, and its verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from slalom_lab.experiments import attention_histogram
from slalom_lab.experiments._shared.outcome import Row, RunSettings, select


def test_histogram(tmp_path: Path) -> None:
    outcome = attention_histogram.run(
        RunSettings(out=tmp_path, seed=3), attention_histogram.Size(4, 16, 60, 5, 2, 3)
    )
    assert attention_histogram.judge(outcome.rows) == (outcome.verdict, outcome.sentence)
    assert outcome.verdict is False  # nothing counts after so few steps
    assert outcome.seeds == (3, 4)
    assert {row.n for row in outcome.rows} == {1, 2}
    [(verdict, sentence)] = attention_histogram.parts(outcome.rows).values()
    assert verdict is False  # three steps settle nothing
    assert "of 100 of the released block negative" in sentence  # 10 places, rank 10
    assert select(outcome.rows, "share that depends on the text", minimum="positional")[0] < 0.05
    assert (tmp_path / "figure.svg").is_file()


def _rows(**changed: float) -> list[Row]:
    good = {
        "semantic accuracy": 0.99,
        "positional accuracy": 0.98,
        "semantic attention, equal over other tokens": 4.0,
        "positional attention, equal over other tokens": 1.0,
        "semantic share that depends on the text": 0.6,
        "positional share that depends on the text": 0.0,
    }
    told = {**good, **changed}
    return [
        Row({"minimum": kind}, measure, value)
        for name, value in told.items()
        for kind, measure in [name.split(" ", 1)]
    ]


def test_both_minima_carry_the_claim() -> None:
    verdict, sentence = attention_histogram.judge(_rows())
    assert verdict is True
    assert "99.0% and 98.0% of the counts are right" in sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("positional accuracy", 0.8),
        ("semantic attention, equal over other tokens", 1.1),
        ("positional attention, equal over other tokens", 3.0),
        ("semantic share that depends on the text", 0.0),
        ("positional share that depends on the text", 0.5),
    ],
)
def test_one_that_fails_ends_it(name: str, value: float) -> None:
    assert attention_histogram.judge(_rows(**{name: value}))[0] is False


def test_a_minimum_has_no_slope_and_no_way_down() -> None:
    def rows(slope: float, lowest: float) -> list[Row]:
        numbers = {"slope after settling": slope, "smallest Hessian eigenvalue": lowest, "largest": 10.0}
        numbers |= {"negative ones of the released block": 0.0, "of": 40.0}
        return [
            Row({"minimum": kind}, *one) for kind in ("semantic", "positional") for one in numbers.items()
        ]

    for given, wanted in (((1e-4, 0.1), True), ((0.1, 0.1), False), ((1e-4, -0.1), False)):
        assert attention_histogram.parts(rows(*given))["both are local minima"][0] is wanted
    assert attention_histogram.parts(_rows()) == {}
