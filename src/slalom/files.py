"""Files as this library writes them: whole or not at all, text that any JSON reader takes.

Files at any address that fsspec knows; a file is written as a whole or not at all.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast, overload

from slalom.errors import InputError, SlalomWarning

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Record: TypeAlias = dict[str, Any]
"""A JSON object: what stands in it is known when it is read."""


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file as a whole: who reads it meanwhile sees the old one or the new one, never a part."""
    where = Path(path)
    try:
        if where.exists() and not where.is_file():
            where.write_text(text, encoding="utf-8")  # a device or a pipe cannot be replaced
            return
        where = _target(where)
        temporary = _beside(where)
        try:
            with temporary.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
            temporary.replace(where)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Generator[Path]:
    """A folder to be filled, which takes its name when the block is done: as a whole or not at all.

    Where a folder of that name holds something already, at the end, the result is an InputError.
    """
    where = Path(path)
    beside = _beside(where)
    try:
        beside.mkdir(parents=True)
        yield beside
        if where.is_dir():
            where.rmdir()  # it is empty, or the next line is not reached
        beside.rename(where)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made where it is missing; an InputError where that cannot be."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write to the folder {os.fspath(path)!r:.99}: {why}") from error
    return Path(path)


def cache_folder() -> Path:
    """The folder that SLALOM_CACHE names, or the platform's own."""
    given = os.environ.get("SLALOM_CACHE")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "slalom"


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an InputError now if `write_text` could not write there later."""
    where = Path(path)
    try:
        if where.is_dir():
            raise IsADirectoryError("it is a directory")
        if where.exists() and not where.is_file():
            return
        probe = _beside(_target(where))
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def read_text(path: str | os.PathLike[str], most: int | None = None) -> str:
    """The text of a UTF-8 file; with a warning, at most so many bytes of it."""
    try:
        with Path(path).open("rb") as file:
            return read_stream(file, repr(os.fspath(path)), most)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {os.fspath(path)!r}: {why}") from error


def read_stream(stream: BinaryIO, source: str, most: int | None = None) -> str:
    """The text of a stream of UTF-8, named `source`; with a warning, at most so many bytes of it."""
    data = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(data) > most:
        end = most
        while end > most - 4 and data[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        data = data[:end]
        warnings.warn(
            f"{source} is longer than {most:,} bytes; only its beginning is read", SlalomWarning, stacklevel=3
        )
    return decode(data, source)


def decode(data: bytes, source: str) -> str:
    """UTF-8 bytes as text, without a byte order mark; `source` names them in the error."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; "
            "convert it to UTF-8 first"
        ) from error


def to_json(document: Mapping[str, object], indent: int | None = 1) -> str:
    """One JSON document in ASCII; numbers that JSON lacks are written by `plain`."""
    return json.dumps(plain(document), indent=indent, allow_nan=False)


def from_json(text: str, source: str) -> Record:
    """The JSON object in `text`; `source` names it in the error."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{source} holds a JSON {type(document).__name__}, not an object")
    return cast(Record, document)


@overload
def plain(value: Mapping[str, object]) -> Record: ...


@overload
def plain(value: object) -> Json: ...


def plain(value: object) -> Json:
    """`value` in JSON's own types: NaN becomes null, infinities the strings "inf" and "-inf"."""
    listed = getattr(value, "tolist", None)  # numpy arrays and scalars have it
    value = listed() if callable(listed) else value
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in cast("Mapping[object, object]", value).items()}
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else (None if math.isnan(value) else str(value))
    if isinstance(value, Iterable):
        return [plain(entry) for entry in cast("Iterable[object]", value)]
    return str(value)


def number(value: object) -> float:
    """A number written by `plain`."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float) and value not in ("inf", "-inf"):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those of the packages that are installed."""
    found = {name: _version(name) for name in packages}
    return {name: number for name, number in found.items() if number is not None}


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def commit(source: Path) -> str | None:
    """The commit that a file of sources lies at, marked where something below src differs from it.

    None where the file is not part of a repository.
    """
    call = ["git", "--no-optional-locks", "-C", str(source.parent)]
    asked = (
        ("ls-files", "--error-unmatch", source.name),
        ("rev-parse", "--short", "HEAD"),
        ("status", "--porcelain", "-uno", "--", ":/src"),
    )
    try:
        _, found, changed = (
            subprocess.run([*call, *one], capture_output=True, text=True, check=True, timeout=30).stdout
            for one in asked
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.strip() + (" with changes" if changed.strip() else "")


def check_same(there: Mapping[str, object], here: Mapping[str, object], told: str) -> None:
    """Raise an InputError that begins with `told` where a folder was written with other settings."""
    differences = _differences(there, here)
    if differences:
        named = "; ".join(differences[:3]) + (" …" if len(differences) > 3 else "")
        raise InputError(f"{told} ({named}); choose another --out, or --fresh to begin again there")


def _differences(there: object, here: object, name: str = "") -> list[str]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        old, new = cast(Record, there), cast(Record, here)
        keys = [*old, *(key for key in new if key not in old)]
        inside = (_differences(old.get(k), new.get(k), f"{name}.{k}" if name else k) for k in keys)
        order = [f"{name}: in another order"] if list(old) != list(new) else []
        return [difference for found in inside for difference in found] or (order if name else [])
    return [] if there == here else [f"{name} was {_short(cast(object, there))}, now {_short(here)}"]


def _short(value: object) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _target(where: Path) -> Path:
    """The file that a path leads to through links; an OSError where they lead in a circle."""
    with suppress(FileNotFoundError):
        where.stat()
    return where.resolve()


def _beside(where: Path) -> Path:
    # Not tempfile: its files are readable by their owner alone, and would stay so once renamed.
    return where.with_name(f".{where.name[:100]}.{secrets.token_hex(4)}.tmp")


def _unwritable(path: str | os.PathLike[str], error: OSError) -> InputError:
    return InputError(f"cannot write {os.fspath(path)!r}: {error.strerror or error}")


def filesystem(given: str) -> tuple[AbstractFileSystem, str]:
    """The file system of an address, and the path there; a local path becomes absolute."""
    from fsspec.core import url_to_fs

    try:
        fs, path = url_to_fs(os.path.expanduser(given))  # noqa: PTH111 - an address is no path
    except (ImportError, ValueError) as error:
        raise InputError(f"cannot reach {given!r}: {error}") from error
    return fs, path.rstrip("/") or path


def open_bytes(fs: AbstractFileSystem, path: str, compression: str | None = None) -> IO[bytes]:
    """A file to read from, unpacked where a compression is named."""
    return cast("IO[bytes]", fs.open(path, "rb", compression=compression))


def all_bytes(fs: AbstractFileSystem, path: str) -> bytes:
    """What stands in a file."""
    return cast("bytes", fs.cat_file(path))


def address(fs: AbstractFileSystem, path: str) -> str:
    """The path as it is known everywhere, with its protocol unless it is local."""
    return path if local(fs) else fs.unstrip_protocol(path)


def local(fs: AbstractFileSystem) -> bool:
    """Whether paths there are paths of this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def put(fs: AbstractFileSystem, path: str, data: bytes) -> None:
    """Write a file: who reads it meanwhile sees the old one or the new one, never a part of it."""
    folder, _, name = path.rpartition("/")
    beside = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
    try:
        fs.pipe_file(beside, data)
        if local(fs):
            Path(beside).replace(path)
        else:
            fs.mv(beside, path)
    except OSError as error:
        raise failed("write", path, error) from error
    finally:
        if fs.exists(beside):
            fs.rm_file(beside)


def failed(what: str, path: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return InputError(f"cannot {what} {path!r}: {reason}")
