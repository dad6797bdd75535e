"""Files at any address that fsspec knows; a file is written as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from slalom.errors import InputError


def filesystem(given: str) -> tuple[Any, str]:
    """The file system of an address, and the path there; a local path becomes absolute."""
    from fsspec.core import url_to_fs

    try:
        fs, path = url_to_fs(os.path.expanduser(given))  # noqa: PTH111 - an address is no path
    except (ImportError, ValueError) as error:
        raise InputError(f"cannot reach {given!r}: {error}") from error
    return fs, path.rstrip("/") or path


def address(fs: Any, path: str) -> str:
    """The path as it is known everywhere, with its protocol unless it is local."""
    return path if local(fs) else fs.unstrip_protocol(path)


def local(fs: Any) -> bool:
    """Whether paths there are paths of this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def put(fs: Any, path: str, data: bytes) -> None:
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
