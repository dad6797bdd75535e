"""Rows of a file as they are: CSV, TSV, JSON Lines, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom.errors import InputError, MissingExtraError
from slalom.files import read_text

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")

_LONGEST_FIELD = 1 << 30


@dataclass(frozen=True)
class Bad:
    """A row that cannot be read, and why."""

    reason: str


Row = dict[str, Any] | Bad


@dataclass(frozen=True)
class Table:
    """Columns and rows of one source. A row's place names it in messages and in ids."""

    name: str
    columns: tuple[str, ...]
    rows: Callable[[str | None], Iterable[tuple[str, Row]]]
    """All rows; given a split, a source that keeps its splits apart gives that one only."""
    values: Callable[[str], Iterable[Any]]
    """All values of one column."""
    labels: tuple[str, ...] | None = None
    """The label names, where the source itself declares them."""


def open_file(path: Path) -> Table:
    """The table in a file; its format is told by the ending of its name."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in (".csv", ".tsv"):
        return _separated(path, "\t" if suffix == ".tsv" else ",")
    if suffix in (".jsonl", ".ndjson", ".json"):
        return of_rows(path.stem, _json(path))
    raise InputError(f"{path} ends in {suffix or 'nothing'!r}; files are read in {', '.join(SUFFIXES)}")


def of_rows(name: str, rows: Sequence[Row], columns: Sequence[str] = ()) -> Table:
    """A table of rows at hand."""
    good = [row for row in rows if not isinstance(row, Bad)]
    return Table(
        name,
        tuple(dict.fromkeys([*columns, *(key for row in good for key in row)])),
        lambda _: ((f"row {place}", row) for place, row in enumerate(rows, 1)),
        lambda column: (row.get(column) for row in good),
    )


def _separated(path: Path, separator: str) -> Table:
    # The limit is one for the whole process; the module's default would refuse long documents.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter=separator)
    try:
        return of_rows(path.stem, [_fields(row) for row in reader], reader.fieldnames or ())
    except csv.Error as error:
        raise InputError(f"{path} is not readable as CSV: line {reader.line_num}: {error}") from error


def _fields(row: dict[Any, Any]) -> Row:
    extra = row.pop(None, None)
    return row if extra is None else Bad("more fields than the header has")


def _json(path: Path) -> list[Row]:
    text = read_text(path)
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}") from error
        return [_object(entry) for entry in entries]
    # Not splitlines(): that breaks at characters which JSON strings may hold as they are.
    return [_parsed(line) for line in text.split("\n") if line.strip()]


def _parsed(line: str) -> Row:
    try:
        return _object(json.loads(line))
    except (ValueError, RecursionError) as error:
        return Bad(f"not JSON: {str(error).split(':')[0]}")


def _object(entry: Any) -> Row:
    return entry if isinstance(entry, dict) else Bad(f"a JSON {type(entry).__name__}, not an object")


def _parquet(path: Path) -> Table:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "reading Parquet") from error
    try:
        columns = tuple(parquet.read_schema(path).names)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from error

    def rows(_: str | None = None) -> Iterator[tuple[str, Row]]:
        place = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    place += 1
                    yield f"row {place}", row

    return Table(
        path.stem,
        columns,
        rows,
        lambda column: parquet.read_table(path, columns=[column])[column].to_pylist(),
    )
