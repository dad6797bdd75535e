"""What an experiment is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slalom.checks import Seed, check
from slalom.errors import InputError, SlalomError
from slalom.files import Record, number

Mode = Literal["quick", "full"]
ON_PAR: Literal["on par"] = "on par"
NOT_JUDGED: Literal["not judged"] = "not judged"
Verdict = bool | Literal["on par", "not judged"] | None
"""Of a claim that one thing is better than another, both alike by the stated margin is neither. Not judged is
what a model was asked that is no example of what the claim is about."""
Judgement = tuple[Verdict, str]


class NotRun(SlalomError):  # noqa: N818 - nothing went wrong
    """An experiment cannot be run here; the message says what it needs."""


@dataclass(frozen=True)
class RunSettings:
    """How to run an experiment.

    data_dir: where named data sets lie. cache: where trained models are kept. encoder: a pretrained encoder
    or a fine-tuned classifier for the tables on real texts. out: where the experiment may write its figure.
    work: a folder that experiments share, for evaluations that several of them read.
    tell: called with what is being done.
    """

    mode: Mode = "quick"
    seed: int = 0
    data_dir: Path | None = None
    cache: Path | None = None
    encoder: Path | None = None
    out: Path | None = None
    work: Path | None = None
    tell: Callable[[str], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.mode not in ("quick", "full"):
            raise InputError(f"mode must be quick or full; got {self.mode!r}")
        check("seed", self.seed, Seed)

    def say(self, what: str) -> None:
        if self.tell is not None:
            self.tell(what)


@dataclass(frozen=True)
class Row:
    """One number, the paper's beside ours; None where the paper has none, or our copy of it lost it."""

    where: Mapping[str, str | int]
    """Which model, method, … it belongs to: a line of the table."""
    measure: str
    """What was measured: a column of the table."""
    ours: float | None
    error: float | None = None
    """Standard error over the n documents or runs."""
    n: int | None = None
    paper: float | None = None
    paper_error: float | None = None


@dataclass(frozen=True)
class Findings:
    """What came out; `verdict` and `sentence` are computed from the rows."""

    rows: tuple[Row, ...]
    verdict: Verdict
    """Whether the paper's claim holds here; None where the rows cannot tell."""
    sentence: str
    figure: str | None
    """The figure's file name in the experiment's folder; an SVG of the same name lies beside it."""
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]


def conclude(
    rows: Sequence[Row],
    judge: Callable[[Sequence[Row]], Judgement],
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    figure: str | None = None,
) -> Findings:
    """The outcome of rows, judged."""
    verdict, sentence = judge(rows)
    return Findings(tuple(rows), verdict, sentence, figure, dict(settings), tuple(seeds))


def mean_row(
    where: Mapping[str, str | int],
    measure: str,
    values: Sequence[float],
    paper: tuple[float, float | None] | None = None,
) -> Row:
    """The mean of some values and its standard error."""
    found = np.asarray(values, dtype=float)
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else None
    theirs, their_error = paper or (None, None)
    mean = float(found.mean()) if len(found) else None
    return Row(where, measure, mean, error, len(found), theirs, their_error)


def select(rows: Sequence[Row], measure: str | None = None, **where: str | int) -> list[float]:
    """Our numbers of the rows that match."""
    return [
        row.ours
        for row in rows
        if row.ours is not None
        and (measure is None or row.measure == measure)
        and all(row.where.get(key) == value for key, value in where.items())
    ]


def decide(row: Row, threshold: float = 0.0) -> bool | None:
    """Whether a mean lies above a threshold, by two standard errors; None where it may be chance."""
    if row.ours is None or row.error is None:
        return None
    if row.ours - 2 * row.error > threshold:
        return True
    return False if row.ours + 2 * row.error < threshold else None


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """False if one is, True if all are; not judged or open where one is; on par where nothing is wrong."""
    if any(verdict is False for verdict in verdicts):
        return False
    if NOT_JUDGED in verdicts:
        return NOT_JUDGED
    if not verdicts or None in verdicts:
        return None
    return ON_PAR if ON_PAR in verdicts else True


def distinct(rows: Sequence[Row], key: str) -> list[Any]:
    """The values of a key, in the order of the rows."""
    return list(dict.fromkeys(row.where[key] for row in rows if key in row.where))


def outcome_document(outcome: Findings) -> Record:
    """An outcome as JSON's own types."""
    return asdict(outcome)


def read_outcome(document: Mapping[str, Any]) -> Findings:
    """An outcome written by `outcome_document`."""
    rows = tuple(Row(**{**row, **_numbers(row)}) for row in document["rows"])
    return Findings(
        rows,
        document["verdict"],
        document["sentence"],
        document["figure"],
        document["settings"],
        tuple(document["seeds"]),
    )


def _numbers(row: Mapping[str, Any]) -> dict[str, float | None]:
    kept = ("ours", "error", "paper", "paper_error")
    return {name: None if row[name] is None else number(row[name]) for name in kept}
