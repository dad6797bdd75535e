"""Saved explanations, a bounded number of them, under names that nobody can guess; and explained corpora."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from slalom.audit import summarize
from slalom.audit.report import summary_report
from slalom.audit.summary_read import open_output
from slalom.compare import Compared
from slalom.errors import InputError, SlalomError
from slalom.explanation import Explanation
from slalom.files import check_writable, from_json, write_text
from slalom.view import compare_html, html, tables_html
from slalom.view.page import COMPARISON, FRAGMENT, PAGE, SCRIPT, SORTING, TABLES, policy

_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class Reports(Protocol):
    """Where explanations are kept as JSON."""

    def put(self, document: str) -> str | None:
        """Keeps a document and gives its id; None where it is larger than all there may be."""
        ...

    def get(self, name: str) -> str | None:
        """The document, or None where it never was or is gone."""
        ...


class MemoryReports:
    """Reports that end with the process."""

    def __init__(self, most: int, most_bytes: int):
        self._most, self._most_bytes = most, most_bytes
        self._documents: OrderedDict[str, str] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, document: str) -> str | None:
        if len(document) > self._most_bytes:  # documents are ASCII
            return None
        name = secrets.token_urlsafe(16)
        with self._lock:
            self._documents[name] = document
            self._size += len(document)
            while len(self._documents) > self._most or self._size > self._most_bytes:
                _, oldest = self._documents.popitem(last=False)
                self._size -= len(oldest)
        return name

    def get(self, name: str) -> str | None:
        with self._lock:
            return self._documents.get(name)


class FolderReports:
    """Reports as files `ID.json`; `slalom show` reads them too."""

    def __init__(self, folder: Path, most: int, most_bytes: int):
        self._folder, self._most, self._most_bytes = folder, most, most_bytes
        self._lock = threading.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"reports cannot be kept in {str(folder)!r}: {error.strerror or error}"
            ) from error
        check_writable(folder / "report.json")

    def put(self, document: str) -> str | None:
        if len(document) > self._most_bytes:
            return None
        name = secrets.token_urlsafe(16)
        with self._lock:
            write_text(self._folder / f"{name}.json", document)
            self._tidy()
        return name

    def get(self, name: str) -> str | None:
        if not _ID.fullmatch(name):
            return None
        try:
            return (self._folder / f"{name}.json").read_text(encoding="utf-8")
        except OSError:
            return None

    def _tidy(self) -> None:
        """Removes the oldest reports beyond the bounds; other files in the folder are left alone."""
        found: list[tuple[int, int, Path]] = []
        for path in self._folder.glob("*.json"):
            if _ID.fullmatch(path.stem):
                with suppress(OSError):  # removed by somebody else meanwhile
                    about = path.stat()
                    found.append((about.st_mtime_ns, about.st_size, path))
        kept = size = 0
        for _, length, path in sorted(found, reverse=True):
            kept, size = kept + 1, size + length
            if kept > self._most or size > self._most_bytes:
                path.unlink(missing_ok=True)


def open_reports(folder: Path | None, most: int, most_bytes: int) -> Reports:
    """In the folder, or in memory where there is none."""
    return MemoryReports(most, most_bytes) if folder is None else FolderReports(folder, most, most_bytes)


class CorpusPages:
    """Explained corpora as pages: made when somebody looks, and again when a corpus has grown."""

    def __init__(self, folders: Mapping[str, str]):
        self._folders = dict(folders)
        self._lock = threading.Lock()
        self._made: dict[str, tuple[object, str]] = {}
        for name, folder in folders.items():
            try:
                open_output(folder)
            except SlalomError as error:
                raise InputError(f"the corpus {name!r} cannot be shown: {error}") from error

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def get(self, name: str) -> str | None:
        """The page, or None where there is no such corpus."""
        if name not in self._folders:
            return None
        with self._lock:
            found = open_output(self._folders[name])
            state = (found.files, found.finished)
            if name not in self._made or self._made[name][0] != state:
                summary = summarize(self._folders[name], examples=True)
                self._made[name] = (state, tables_html.render(summary_report(summary)))
            return self._made[name][1]


@cache
def corpus_policy() -> str:
    """What the page of a corpus may do."""
    return f"{policy((PAGE, FRAGMENT, TABLES), (SORTING,))}; frame-ancestors 'none'"


@cache
def report_policy() -> str:
    """What a report may do: run and look like what the view wrote into it."""
    return f"{policy((PAGE, FRAGMENT, COMPARISON), (SCRIPT,))}; frame-ancestors 'none'"


def page(kept: str) -> str:
    """What is kept as a web page of its own."""
    result = _read(kept)
    return compare_html.render(result) if isinstance(result, Compared) else html.render(result)


def part(kept: str) -> str:
    """The same as a part of a page that has its style and script already."""
    result = _read(kept)
    if isinstance(result, Compared):
        return compare_html.fragment(result, assets=False)
    return html.fragment(result, assets=False)


def _read(kept: str) -> Explanation | Compared:
    record = from_json(kept, "the report")
    several = record.get("format") == "slalom-comparison"
    return Compared.from_dict(record) if several else Explanation.from_dict(record)
