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
    assert "of 269 eigenvalues clearly negative" in sentence  # 8 · 5 + 8 · 16 + 16 + 16 · 5 + 5
    assert sentence.count("gelu") == sentence.count("relu") == 2
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


def _settled(activation: str, slope: float, down: float, same: float) -> list[Row]:
    numbers = {
        "slope after settling": slope,
        "smallest Hessian eigenvalue": 0.1,
        "largest": 10.0,
        "negative eigenvalues": down,
        "of": 269.0,
        "accuracy after settling": 1.0,
        "attention, equal over other tokens after settling": same,
        "share that depends on the text after settling": 0.5,
    }
    positional = {
        "attention, equal over other tokens after settling": 1.0,
        "share that depends on the text after settling": 0.0,
    }
    return [
        Row({"minimum": kind, "activation": activation}, *one)
        for kind, own in (("semantic", numbers), ("positional", numbers | positional))
        for one in own.items()
    ]


@pytest.mark.parametrize(
    ("slope", "down", "same", "wanted"),
    [(1e-6, 0, 2.5, True), (1e-3, 0, 2.5, False), (1e-6, 2, 2.5, False), (1e-6, 0, 1.0, False)],
)
def test_minima_are_judged_with_a_smooth_activation(
    slope: float, down: float, same: float, wanted: bool
) -> None:
    """A slope, a way down and a semantic attention that became blind while it settled each end it."""
    rows = [*_settled("gelu", slope, down, same), *_settled("relu", 1e-2, 7, 2.5)]
    verdict, sentence = attention_histogram.parts(rows)["both are local minima"]
    assert verdict is wanted
    assert "relu, positional: gradient norm 0.01, 7 of 269 eigenvalues clearly negative" in sentence
    assert attention_histogram.parts(_rows()) == {}
