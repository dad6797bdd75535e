"""An experiment without a figure."""

from __future__ import annotations

from collections.abc import Sequence

from toy_sizes import SIZES

from slalom_lab.experiments._shared.outcome import Findings, Judgement, Row, RunSettings, conclude

TITLE = "Toy paper, Fig. 2"
CLAIM = "three is more than two"
NEEDS = {"data": (), "packages": ()}

__all__ = ["SIZES", "judge", "run"]


def run(settings: RunSettings) -> Findings:
    return conclude([Row({"model": "counting"}, "number", 3.0)], judge, {}, (settings.seed,))


def judge(rows: Sequence[Row]) -> Judgement:
    return (rows[0].ours or 0) > 2, f"the number is {rows[0].ours:g}"
