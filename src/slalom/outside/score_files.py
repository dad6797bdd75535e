"""Scores in a file (Parquet, JSON lines), checked row by row when it is read.

Columns: `text` (of a pair, a list of both texts), `scores`, and, where they are known, `tokens` (strings in
the order of the text), `target` (the label that the scores are for) and what they cost: `queries`,
`tokens_read`, `backwards`. Several rows of a text are for several labels.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from slalom.checks import shown
from slalom.errors import InputError, MissingExtraError
from slalom.files import Record
from slalom.models.target import Target, label_index
from slalom.models.text import join_texts
from slalom.tokens import FloatArray

FILES = (".parquet", ".jsonl")
COSTS = {"queries": "queries", "tokens_read": "tokens", "backwards": "backwards"}
"""Columns of what a row's scores cost, and what `Cost` calls it."""


@dataclass(frozen=True, eq=False)
class Row:
    """The scores of a text."""

    text: str
    scores: FloatArray
    tokens: tuple[str, ...] | None
    target: str | int | None
    cost: Mapping[str, int]
    """By the names of `Cost`, as far as the file says it."""

    def same(self, other: Row) -> bool:
        """Whether both have the same scores for the same tokens."""
        return self.tokens == other.tokens and np.array_equal(self.scores, other.scores)


Rows = Mapping[str, Sequence[Row]]
"""By their text."""


def rows_of(name: str) -> Rows:
    """The rows of a file; a file that has changed is read again."""
    path = Path(name)
    if not path.is_file():
        raise InputError(f"there is no file {name!r}")
    found = path.stat()
    return _read(name, path.resolve(), (found.st_mtime_ns, found.st_size, found.st_ino))


def costs_of(name: str) -> tuple[str, ...]:
    """What the file says of its costs, by the names of `Cost`."""
    first = next(iter(rows_of(name).values()))
    return tuple(first[0].cost)


def row_for(name: str, text: str, target: Target) -> Row:
    """The row of a text, or of the longer text that it is the beginning of, for the explained label."""
    rows = rows_of(name)
    texts = [text] if text in rows else [longer for longer in rows if longer.startswith(text)]
    if len(texts) != 1:
        raise InputError(f"{name} has no scores for the text {text[:40]!r}")
    found = rows[texts[0]]
    own = [row for row in found if _meant(row, target)] or [row for row in found if row.target is None]
    if not own:
        labels = ", ".join(repr(row.target) for row in found)
        raise InputError(
            f"{name} has scores of the text {text[:40]!r} for the label {labels}, and not for "
            f"{target.label!r}, which is explained"
        )
    return own[0]


def finite(values: object, what: str) -> FloatArray:
    """(n,) numbers; `what` names them in the error."""
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError, RuntimeError):
        found = np.full((), np.nan)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise InputError(f"{what} are no list of finite numbers: {shown(values)}")
    return found


def _meant(row: Row, target: Target) -> bool:
    if row.target is None:
        return False
    try:
        return label_index(target.labels, row.target) == target.index
    except InputError:  # a label that the model does not have
        return False


@lru_cache(maxsize=4)
def _read(name: str, path: Path, _version: tuple[int, ...]) -> Rows:
    try:
        records = _parquet(path) if path.suffix == ".parquet" else _json_lines(path)
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{name!r} cannot be read: {error}") from error
    if not records:
        raise InputError(f"{name!r} has no rows; it needs columns `text` and `scores` (and `tokens`)")
    rows = [_row(record, f"{name!r}, row {place}") for place, record in enumerate(records, 1)]
    _check_costs(name, rows)
    by_text: dict[str, list[Row]] = {}
    for place, row in enumerate(rows, 1):
        others = by_text.setdefault(row.text, [])
        twice = [other for other in others if other.target == row.target]
        if not all(row.same(other) for other in twice):
            raise InputError(
                f"{name!r}, row {place}: the text {row.text[:40]!r} has other scores in a row before; leave "
                "one of them, or say for which label each is (`target`)"
            )
        others += [] if twice else [row]
    return by_text


def _parquet(path: Path) -> list[object]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "scores from Parquet") from error
    return pq.read_table(path).to_pylist()


def _json_lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _row(record: object, where: str) -> Row:
    given = cast(Record, record) if isinstance(record, dict) else {}
    if "text" not in given or "scores" not in given:
        got = shown(cast(object, record))
        raise InputError(f"{where}: it needs columns `text` and `scores` (and `tokens`); got {got}")
    scores = finite(given["scores"], f"{where}: `scores`")
    tokens = _strings(given.get("tokens"), f"{where}: `tokens`")
    if tokens is not None and len(tokens) != len(scores):
        raise InputError(f"{where}: {len(tokens)} tokens, but {len(scores)} scores")
    target = given.get("target")
    if not isinstance(target, str | None):
        target = _whole(target, f"{where}: `target`")
    cost = {
        part: _whole(given[column], f"{where}: `{column}`")
        for column, part in COSTS.items()
        if given.get(column) is not None
    }
    return Row(_text(given["text"], where), scores, tokens, target, cost)


def _text(given: object, where: str) -> str:
    """The text; of a pair, both with a line break between them, as `Tokens.text` has it."""
    if isinstance(given, str):
        return given
    both = _strings(given, f"{where}: `text`") or ()
    if len(both) != 2:
        raise InputError(f"{where}: `text` must be a string, or a list of two; got {shown(given)}")
    return join_texts(both)[0]


def _strings(given: object, what: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    listed = cast("list[object]", given) if isinstance(given, list) else [given]
    strings = tuple(one for one in listed if isinstance(one, str))
    if not isinstance(given, list) or len(strings) < len(listed):
        raise InputError(f"{what} must be a list of strings; got {shown(listed)}")
    return strings


def _whole(given: object, what: str) -> int:
    """A whole number; tables with gaps have them as 3.0."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given < 0 or given != int(given):
        raise InputError(f"{what} must be a whole number from 0 on; got {shown(given)}")
    return int(given)


def _check_costs(name: str, rows: Sequence[Row]) -> None:
    """A mean over some of the rows would be no row's cost."""
    for column, part in COSTS.items():
        lacking = [place for place, row in enumerate(rows, 1) if part not in row.cost]
        if lacking and len(lacking) < len(rows):
            raise InputError(
                f"{name!r}, row {lacking[0]}: `{column}` is missing; give it in every row, or in none"
            )
