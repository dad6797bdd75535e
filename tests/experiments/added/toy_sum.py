"""An experiment that counts how often it was run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from slalom_lab.experiments._shared import figures
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    mean_row,
    select,
)

TITLE = "Toy paper, Fig. 10"
CLAIM = "one and one are two"
NEEDS = {"data": (), "packages": ()}


@dataclass(frozen=True)
class Size:
    numbers: int


SIZES = {"quick": Size(2), "full": Size(3)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    size = size or SIZES[settings.mode]
    if settings.out is None:
        raise ValueError("this one needs a folder")
    settings.out.mkdir(parents=True, exist_ok=True)
    with (settings.out / "runs.txt").open("a") as file:
        file.write("x")
    settings.say("adding")
    rows = [
        mean_row({"model": "counting"}, "sum", [float(size.numbers)], (2.0, 0.5)),
        Row({"model": "lost"}, "sum", None),
    ]
    figure = figures.save(figures.columns(rows, "sum"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    [found] = select(rows, "sum")
    return f"of {found:g} numbers each is 1"


def judge(rows: Sequence[Row]) -> Judgement:
    [found] = select(rows, "sum")
    return found == 2, f"the sum is {found:g}"
