"""The directory of an explained corpus: parts, what run they belong to, and whether it is finished.

    OUTPUT/part-000000.parquet …           documents, one part for each group
    OUTPUT/_tokens/part-000000.parquet …   tokens, on request
    OUTPUT/_checksums/part-000000.json …   SHA-256 of the files of each part
    OUTPUT/_slalom.json                    what was explained, and how
    OUTPUT/_SUCCESS                        written last: totals

Readers of Parquet directories skip names that start with an underscore or a dot.
"""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slalom.corpus import schema
from slalom.errors import InputError
from slalom.files import address, failed, filesystem, from_json, put, to_json

if TYPE_CHECKING:
    import pyarrow

MANIFEST, SUCCESS, TOKENS, CHECKSUMS = "_slalom.json", "_SUCCESS", "_tokens", "_checksums"

_FILES = {"tokens": f"{TOKENS}/part-{{:06d}}.parquet", "documents": "part-{:06d}.parquet"}
"""The files of a part; the documents come last."""


@dataclass(frozen=True)
class Part:
    """What is known of a group that was explained."""

    documents: int
    errors: int


@dataclass(frozen=True)
class Store:
    """The output directory at a local path or at any address that fsspec knows."""

    given: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return filesystem(self.given)

    @property
    def fs(self) -> Any:
        return self._place[0]

    @property
    def root(self) -> str:
        return self._place[1]

    @property
    def address(self) -> str:
        """The directory as other processes and machines know it."""
        return address(self.fs, self.root)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def create(self, tokens: bool) -> None:
        """Make the directories."""
        try:
            for folder in (CHECKSUMS, *([TOKENS] if tokens else [])):
                self.fs.makedirs(self.path(folder), exist_ok=True)
        except OSError as error:
            raise failed("write", self.given, error) from error

    def names(self, folder: str = "") -> set[str]:
        """What stands in the directory, or in a folder of it."""
        where = self.path(folder).rstrip("/")
        self.fs.invalidate_cache()
        if not self.fs.exists(where):
            return set()
        if not self.fs.isdir(where):
            raise InputError(f"{self.given!r} is a file; the output is a directory")
        return {entry.rstrip("/").rpartition("/")[2] for entry in self.fs.ls(where, detail=False)}

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the directory; None where there is none."""
        try:
            data = self.fs.cat_file(self.path(name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failed("read", self.path(name), error) from error
        return from_json(data.decode("utf-8", "replace"), repr(self.path(name)))

    def write_json(self, name: str, document: dict[str, Any]) -> None:
        put(self.fs, self.path(name), (to_json(document) + "\n").encode())

    def remove(self, name: str) -> None:
        """Remove a file of the directory, if it is there."""
        with suppress(FileNotFoundError):
            self.fs.rm_file(self.path(name))

    def write_part(self, number: int, documents: pyarrow.Table, tokens: pyarrow.Table | None) -> None:
        """Write a group. The documents come last: where they stand, the group is finished."""
        tables = {"tokens": tokens, "documents": documents}
        data = {table: _parquet(content) for table, content in tables.items() if content is not None}
        self.write_json(_checksums_name(number), {table: _digest(content) for table, content in data.items()})
        for table, content in data.items():
            put(self.fs, self.path(_FILES[table].format(number)), content)

    def part(self, number: int, fingerprint: str) -> Part | None:
        """The finished group of this number; None where it is missing, damaged or of another run."""
        pa = schema.arrow()
        import pyarrow.parquet as pq

        try:
            footer = pq.read_metadata(io.BytesIO(self._checked(number)))
        except (OSError, InputError, pa.ArrowException):
            return None
        own = footer.metadata or {}
        if own.get(schema.FINGERPRINT_KEY) != fingerprint.encode():
            return None
        return Part(footer.num_rows, int(own[schema.ERRORS_KEY]))

    def _checked(self, number: int) -> bytes:
        """The documents of a group, when all its files are as they were written."""
        expected = self.read_json(_checksums_name(number)) or {}
        if not {"documents"} <= set(expected) <= set(_FILES):
            raise InputError(f"the checksums of part {number} are missing or damaged")
        content = b""
        for table in (table for table in _FILES if table in expected):
            content = self.fs.cat_file(self.path(_FILES[table].format(number)))
            if _digest(content) != expected[table]:
                raise InputError(f"the {table} of part {number} are damaged")
        return content

    def tidy(self) -> None:
        """Remove what killed processes left behind."""
        for folder in ("", f"{TOKENS}/", f"{CHECKSUMS}/"):
            for name in self.names(folder):
                if name.startswith((".part-", ".attempts-")):
                    self.remove(folder + name)

    def parts(self, fingerprint: str) -> dict[int, Part]:
        """All finished groups of a run."""
        found = {
            number: self.part(number, fingerprint)
            for number in map(part_number, self.names())
            if number is not None
        }
        return {number: part for number, part in found.items() if part is not None}


def part_name(number: int) -> str:
    return _FILES["documents"].format(number)


def _checksums_name(number: int) -> str:
    return f"{CHECKSUMS}/part-{number:06d}.json"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def part_number(name: str) -> int | None:
    """The number of a part by its name; None for other files."""
    digits = name.removeprefix("part-").removesuffix(".parquet")
    return int(digits) if digits.isdecimal() and name == part_name(int(digits)) else None


def _parquet(table: pyarrow.Table) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def canonical(document: dict[str, Any]) -> str:
    """One text for equal documents."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
