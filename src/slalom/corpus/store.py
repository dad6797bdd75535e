"""The directory of an explained corpus: parts, what run they belong to, and whether it is finished.

    OUTPUT/part-000000.parquet …           documents, one part for each group
    OUTPUT/_tokens/part-000000.parquet …   tokens, on request
    OUTPUT/_checksums/part-000000.json …   SHA-256 of the files of each part
    OUTPUT/_slalom.json                    what was explained, and how
    OUTPUT/_SUCCESS                        written last: totals

Readers of Parquet directories skip names that start with an underscore or a dot.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from slalom.corpus import schema
from slalom.errors import InputError
from slalom.files import Record, address, all_bytes, failed, filesystem, from_json, local, put, to_json

if TYPE_CHECKING:
    import pyarrow
    from fsspec import AbstractFileSystem

MANIFEST, SUCCESS, TOKENS, CHECKSUMS = "_slalom.json", "_SUCCESS", "_tokens", "_checksums"

_FILES = {"tokens": f"{TOKENS}/part-{{:06d}}.parquet", "documents": "part-{:06d}.parquet"}
"""The files of a part; the documents come last."""


@dataclass(frozen=True)
class Part:
    """What is known of a group that was explained."""

    documents: int
    errors: int


@dataclass(frozen=True)
class CorpusFolder:
    """The output directory at a local path or at any address that fsspec knows."""

    given: str

    @cached_property
    def _place(self) -> tuple[AbstractFileSystem, str]:
        return filesystem(self.given)

    @property
    def fs(self) -> AbstractFileSystem:
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

    def read_json(self, name: str) -> Record | None:
        """A JSON file of the directory; None where there is none."""
        try:
            data = all_bytes(self.fs, self.path(name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failed("read", self.path(name), error) from error
        return from_json(data.decode("utf-8", "replace"), repr(self.path(name)))

    def write_json(self, name: str, document: Record) -> None:
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
            content = all_bytes(self.fs, self.path(_FILES[table].format(number)))
            if _digest(content) != expected[table]:
                raise InputError(f"the {table} of part {number} are damaged")
        return content

    def tidy(self) -> None:
        """Remove what killed processes left behind."""
        for folder in ("", f"{TOKENS}/", f"{CHECKSUMS}/"):
            for name in self.names(folder):
                if name.startswith((".part-", ".attempts-")):
                    self.remove(folder + name)

    def clear(self) -> None:
        """Remove what runs write here, and nothing else."""
        self.tidy()
        for folder in (TOKENS, CHECKSUMS):
            for name in self.names(folder):
                self.remove(f"{folder}/{name}")
        for name in self.names():
            if part_number(name) is not None or name in (SUCCESS, MANIFEST):
                self.remove(name)

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


def canonical(document: Record) -> str:
    """One text for equal documents."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


LOCK = "_lock"
BEAT, STALE = 10.0, 60.0
"""Seconds between two signs of life, and without one until the lock counts as left behind."""


class Owner(TypedDict, total=False):
    """What a lock says."""

    host: str
    pid: int
    token: str
    alive: float


@contextmanager
def locked(store: CorpusFolder) -> Generator[None]:
    """Inside, no other run writes to the directory; raises an InputError where one does already.

    On a local file system the lock ends with its process. Elsewhere it is a file that names its owner and is
    written again every few seconds; it is stale when its owner was a process of this machine that is gone, or
    when it was not written for a minute.
    """
    with _locked_here(store) if local(store.fs) else _locked_elsewhere(store):
        yield


@contextmanager
def _locked_here(store: CorpusFolder) -> Generator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(store.path(LOCK))
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise InputError(_busy(store)) from error
    except OSError as error:
        raise failed("write", store.path(LOCK), error) from error
    try:
        yield
    finally:
        with suppress(OSError):  # on Windows nothing that is open can be removed
            Path(store.path(LOCK)).unlink()
        lock.release()


@contextmanager
def _locked_elsewhere(store: CorpusFolder) -> Generator[None]:
    mine = Owner(host=socket.gethostname(), pid=os.getpid(), token=secrets.token_hex(8))
    _take(store, mine)
    stop = threading.Event()
    beat = threading.Thread(target=_beat, args=(store, mine, stop), name="corpus-lock", daemon=True)
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        if _owner(store).get("token") == mine.get("token"):
            store.remove(LOCK)


def _busy(store: CorpusFolder, owner: str = "") -> str:
    return f"another run is writing to {store.given!r}{owner}; wait until it ends, or choose another output"


def _take(store: CorpusFolder, mine: Owner) -> None:
    there = _owner(store)
    if there and not _stale(there):
        raise InputError(_busy(store, f" (process {there.get('pid')} on {there.get('host')})"))
    _write(store, mine)
    if _owner(store).get("token") != mine.get("token"):
        raise InputError(f"another run started to write to {store.given!r} at the same moment; try again")


def _write(store: CorpusFolder, mine: Owner) -> None:
    try:
        store.fs.pipe_file(store.path(LOCK), _content(mine))
    except OSError as error:
        raise failed("write", store.path(LOCK), error) from error


def _content(mine: Owner) -> bytes:
    return json.dumps({**mine, "alive": time.time()}).encode()


def _owner(store: CorpusFolder) -> Owner:
    """What the lock says; nothing where there is none. A lock that is being written says little."""
    store.fs.invalidate_cache()
    try:
        found = json.loads(all_bytes(store.fs, store.path(LOCK)))
    except FileNotFoundError:
        return Owner()
    except ValueError:
        found = None
    return cast(Owner, found) if isinstance(found, dict) else Owner(alive=_modified(store))


def _modified(store: CorpusFolder) -> float:
    try:
        return store.fs.modified(store.path(LOCK)).timestamp()
    except (OSError, NotImplementedError):
        return time.time()


def _stale(there: Owner) -> bool:
    if time.time() - float(there.get("alive", 0.0)) > STALE:
        return True
    return there.get("host") == socket.gethostname() and not _runs(there.get("pid"))


def _runs(pid: object) -> bool:
    """Whether a process of this machine is alive. On Windows a signal would end it: the beat alone tells."""
    if sys.platform == "win32" or not isinstance(pid, int):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _beat(store: CorpusFolder, mine: Owner, stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        # A sign of life that fails to be written is made up for by the next one.
        with suppress(OSError, InputError):
            if _owner(store).get("token") == mine.get("token"):
                _write(store, mine)
