"""The directory that keeps an evaluation through a kill.

A finished document is one line of `documents.jsonl`, written at once and flushed to the disk; `settings.json`
says what was measured with what, so that another run continues only what it would have measured itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from slalom.errors import InputError
from slalom.evaluate.results import PARQUETS, Finished, Measurement, Point, Results, Spent
from slalom.files import check_same, from_json, number, plain, read_text, to_json, write_text

FORMAT, VERSION = "slalom-evaluation", 1
SETTINGS, LINES, TABLE = "settings.json", "documents.jsonl", "table.md"


def load(out: str | os.PathLike[str]) -> Results:
    """The results that a directory holds, finished or not; in the order in which documents were finished."""
    settings = _settings(Path(out))
    if settings is None:
        raise InputError(f"{os.fspath(out)!r} holds no evaluation: there is no {SETTINGS}")
    lines = Path(out) / LINES
    return Results(settings, tuple(_read(lines.read_bytes())[0]) if lines.exists() else ())


class Store:
    """A directory of finished documents, open for more. One process at a time writes to it."""

    def __init__(self, out: str | os.PathLike[str], settings: Mapping[str, Any], *, fresh: bool = False):
        self.out = Path(out)
        self.settings = plain(settings)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            _check(self.out, self.settings, fresh)
            self._file = _locked(self.out / LINES)
        except OSError as error:
            raise InputError(f"cannot write to {os.fspath(out)!r}: {error.strerror or error}") from error
        if fresh:
            self._file.truncate(0)
            for name in (TABLE, *PARQUETS):
                (self.out / name).unlink(missing_ok=True)
        write_text(
            self.out / SETTINGS, to_json({"format": FORMAT, "version": VERSION, **self.settings}) + "\n"
        )
        self._file.seek(0)
        found, whole = _read(self._file.read())
        self._file.truncate(whole)  # what a kill left half-written
        self.finished = {document.key: document for document in found}
        self._mark = time.perf_counter()

    def add(self, document: Finished) -> None:
        """Keep a finished document: once this returns, a kill cannot take it away."""
        now = time.perf_counter()
        document = replace(document, wall=now - self._mark)
        self._mark = now
        self._file.seek(0, os.SEEK_END)
        self._file.write((to_json(asdict(document), indent=None) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.finished[document.key] = document

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _settings(out: Path) -> dict[str, Any] | None:
    where = out / SETTINGS
    if not where.exists():
        return None
    document = from_json(read_text(where), repr(str(where)))
    if (document.pop("format", None), document.pop("version", None)) != (FORMAT, VERSION):
        raise InputError(f"{str(where)!r} was not written by this version of `slalom evaluate`")
    return document


def _check(out: Path, settings: Mapping[str, Any], fresh: bool) -> None:
    """Refuse a directory that holds another evaluation, or files that are none of ours."""
    there = _settings(out)
    if there is None:
        strange = [name for name in (LINES, TABLE, *PARQUETS) if (out / name).exists()]
        if strange:
            raise InputError(f"{str(out)!r} holds {strange[0]} of something else; choose another --out")
        return
    if not fresh:
        check_same(there, settings, f"{str(out)!r} holds an evaluation with other settings")


def _locked(path: Path) -> IO[bytes]:
    """The file open for reading and appending, and for nobody else until this process ends."""
    file = path.open("a+b")
    try:
        import fcntl
    except ImportError:  # Windows: nothing guards against two runs in one directory
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise InputError(f"another run is writing to {str(path.parent)!r}; choose another --out") from error
    return file


def _read(data: bytes) -> tuple[list[Finished], int]:
    """The documents of the whole lines, and how many bytes those lines are."""
    whole = data.rfind(b"\n") + 1
    found = (_line(line) for line in data[:whole].splitlines())
    return [document for document in found if document is not None], whole


def _line(line: bytes) -> Finished | None:
    """The document of a line; None where the line is damaged, so that the document is done again."""
    try:
        record = from_json(line.decode("utf-8"), "a line")
        return Finished(
            record["key"],
            tuple(Measurement(**_numbers(row, "value")) for row in record["measurements"]),
            tuple(Spent(**row) for row in record["spent"]),
            tuple(Point(**_numbers(row, "probability")) for row in record["points"]),
            number(record["wall"]),
        )
    except (InputError, KeyError, TypeError, ValueError):
        return None


def _numbers(row: dict[str, Any], name: str) -> dict[str, Any]:
    """A row with its number read back: null is NaN where something was measured."""
    measured = row.get("number", "") is not None
    return {**row, name: number(row[name]) if measured else None}
