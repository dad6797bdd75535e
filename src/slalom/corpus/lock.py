"""One run at a time in an output directory, on every file system.

The lock is a file that names its owner and is written again every few seconds. It is stale when its owner was
a process of this machine that is gone, or when it was not written for a minute.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from slalom.corpus.store import Store
from slalom.errors import InputError
from slalom.files import failed, local

LOCK = "_lock.json"
BEAT, STALE = 10.0, 60.0
"""Seconds between two signs of life, and without one until the lock counts as left behind."""


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Inside, no other run writes to the directory; raises an InputError where one does already."""
    mine = {"host": socket.gethostname(), "pid": os.getpid(), "token": secrets.token_hex(8)}
    _take(store, mine)
    stop = threading.Event()
    beat = threading.Thread(target=_beat, args=(store, mine, stop), name="corpus-lock", daemon=True)
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        if _owner(store).get("token") == mine["token"]:
            store.remove(LOCK)


def _take(store: Store, mine: dict[str, Any]) -> None:
    there = _owner(store)
    if there and not _stale(there):
        raise InputError(
            f"another run is writing to {store.given!r} (process {there.get('pid')} on {there.get('host')}); "
            "wait until it ends, or choose another output"
        )
    if there:
        store.remove(LOCK)
    if not local(store.fs):
        _write(store, mine)
    elif not _create(store, mine):
        _take(store, mine)  # somebody was faster
    if _owner(store).get("token") != mine["token"]:
        raise InputError(f"another run started to write to {store.given!r} at the same moment; try again")


def _create(store: Store, mine: dict[str, Any]) -> bool:
    """Whether the file could be made; on a local file system, only one process can."""
    try:
        descriptor = os.open(store.path(LOCK), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    except OSError as error:
        raise failed("write", store.path(LOCK), error) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(_content(mine))
    return True


def _write(store: Store, mine: dict[str, Any]) -> None:
    try:
        store.fs.pipe_file(store.path(LOCK), _content(mine))
    except OSError as error:
        raise failed("write", store.path(LOCK), error) from error


def _content(mine: dict[str, Any]) -> bytes:
    return json.dumps({**mine, "alive": time.time()}).encode()


def _owner(store: Store) -> dict[str, Any]:
    """What the lock says; nothing where there is none. A lock that is being written says little."""
    store.fs.invalidate_cache()
    try:
        found = json.loads(store.fs.cat_file(store.path(LOCK)))
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"alive": _modified(store)}


def _modified(store: Store) -> float:
    try:
        return store.fs.modified(store.path(LOCK)).timestamp()
    except (OSError, NotImplementedError):
        return time.time()


def _stale(there: dict[str, Any]) -> bool:
    if time.time() - float(there.get("alive", 0.0)) > STALE:
        return True
    return there.get("host") == socket.gethostname() and not _runs(there.get("pid"))


def _runs(pid: Any) -> bool:
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


def _beat(store: Store, mine: dict[str, Any], stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        # A sign of life that fails to be written is made up for by the next one.
        with suppress(OSError, InputError):
            if _owner(store).get("token") == mine["token"]:
                _write(store, mine)
