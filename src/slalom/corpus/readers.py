"""Rows of one file of a corpus, one after the other, in bounded memory.

A row is a mapping of the wanted columns, or a `Bad` one: a row that cannot be used is never lost. Bytes that
are no UTF-8 are given on as they are.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import csv
import io
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING

from slalom.corpus.schema import arrow
from slalom.data.tables import Bad, Row
from slalom.errors import InputError
from slalom.files import failed, open_bytes

if TYPE_CHECKING:
    import pyarrow.parquet
    from fsspec import AbstractFileSystem

_BATCH = 256
"""Rows of a Parquet file that are held at once."""
_LONGEST_FIELD = 1 << 30


@dataclass(frozen=True)
class File:
    """A file of the corpus; `relative` is its path in the folder that was given.

    checksum: what its file system knows of its content; None where it knows nothing.
    """

    fs: AbstractFileSystem
    path: str
    relative: str
    kind: str
    checksum: str | None


def header(file: File) -> list[str]:
    """The names of a file's columns; of JSON lines, those of the first row."""
    if file.kind == "csv":
        with _open(file) as raw, _lines(raw) as lines:
            return next(csv.reader(lines, delimiter=_delimiter(file)), [])
    if file.kind == "parquet":
        with _open_parquet(file) as opened:
            return list(opened.schema_arrow.names)
    if file.kind == "txt":
        return []
    return list(next((row for row in rows(file, []) if isinstance(row, dict)), {}))


def check_columns(file: File, text: str, others: Sequence[str]) -> None:
    """Refuse a missing column, or one that holds no text, before any work is done.

    JSON lines have no columns: there it is the row that lacks its text.
    """
    pa = arrow()
    if file.kind == "csv":
        _require(header(file), file, text, *others)
    elif file.kind == "parquet":
        with _open_parquet(file) as opened:
            schema = opened.schema_arrow
            _require(schema.names, file, text, *others)
            kind = schema.field(text).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not _is_text(kind) and not pa.types.is_null(kind):
                raise InputError(
                    f"the column {text!r} of {file.path!r} holds {kind}, not text; choose with --text"
                )


def rows(file: File, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a file, of each the columns that are wanted."""
    pa = arrow()
    read = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl, "txt": _txt}[file.kind]
    try:
        yield from read(file, columns)
    except (OSError, EOFError, csv.Error, pa.ArrowException) as error:
        raise failed("read", file.path, error) from error


def _txt(file: File, columns: Sequence[str]) -> Iterator[Row]:
    with _open(file) as raw:
        yield dict.fromkeys(columns, raw.read())


def _csv(file: File, columns: Sequence[str]) -> Iterator[Row]:  # noqa: ARG001
    # The limit is one for the whole process; the module's default would refuse long documents.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    with _open(file) as raw, _lines(raw) as lines:
        yield from csv.DictReader(lines, delimiter=_delimiter(file))


def _jsonl(file: File, columns: Sequence[str]) -> Iterator[Row]:  # noqa: ARG001
    with _open(file) as raw, _lines(raw, newline="\n") as lines:
        for line in lines:
            if line.strip():
                yield _json(line)


def _json(line: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return Bad(f"the line is not JSON: {line.strip()!r:.60}")
    return row if isinstance(row, dict) else Bad(f"the line is no JSON object: {line.strip()!r:.60}")


def _parquet(file: File, columns: Sequence[str]) -> Iterator[Row]:
    with _open_parquet(file) as opened:
        for batch in opened.iter_batches(batch_size=_BATCH, columns=list(columns)):
            values = [_values(batch.column(name)) for name in columns]
            for row in zip(*values, strict=True):
                yield dict(zip(columns, row, strict=True))


def _values(column: pyarrow.Array) -> list[object]:
    """Texts as bytes: arrow decodes a batch as a whole, and one wrong byte would cost all its rows."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return (column.cast(pa.large_binary()) if _is_text(column.type) else column).to_pylist()


def _is_text(kind: pyarrow.DataType) -> bool:
    t = arrow().types
    strings = (t.is_string, t.is_large_string, t.is_string_view)
    return any(check(kind) for check in (*strings, t.is_binary, t.is_large_binary, t.is_binary_view))


def _open(file: File) -> IO[bytes]:
    """The file's bytes, unpacked."""
    try:
        return open_bytes(file.fs, file.path, "infer")
    except (OSError, ValueError) as error:
        raise failed("read", file.path, error) from error


@contextmanager
def _open_parquet(file: File) -> Generator[pyarrow.parquet.ParquetFile]:
    pa = arrow()
    import pyarrow.parquet as pq

    try:
        with open_bytes(file.fs, file.path) as raw:
            yield pq.ParquetFile(raw, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        raise failed("read", file.path, error) from error


def _require(have: Sequence[str], file: File, *wanted: str) -> None:
    missing = [name for name in wanted if name not in have]
    if missing:
        raise InputError(
            f"{file.path!r} has no column {missing[0]!r}, only: {', '.join(have) or 'none'}; "
            "choose with --text and --id"
        )


def _lines(raw: IO[bytes], newline: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def _delimiter(file: File) -> str:
    return "\t" if ".tsv" in PurePosixPath(file.path).suffixes else ","
