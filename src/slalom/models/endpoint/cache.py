"""Answers of an endpoint in SQLite: nothing is asked twice, and a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import Any

from slalom.errors import InputError

_WAIT = 60.0
"""Seconds that other processes may write meanwhile."""


def key_of(url: str, path: str, body: Any) -> str:
    """What a request is known by: where it goes and all that it says. No text can be read back from it."""
    said = json.dumps([url.rstrip("/"), path, body], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


class Cache:
    """Answers by request; written as they come, shared by threads and processes."""

    def __init__(self, path: Path):
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._lines = sqlite3.connect(path, timeout=_WAIT, check_same_thread=False, isolation_level=None)
            self._lines.execute("PRAGMA journal_mode=WAL")
            self._lines.execute("PRAGMA synchronous=NORMAL")
            self._lines.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)"
            )
            weakref.finalize(self, self._lines.close)
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"answers cannot be kept in {path}: {error}; choose another file (cache)"
            ) from error

    def get(self, key: str) -> Any:
        """The answer to a request; None where there is none yet."""
        with self._lock:
            found = self._lines.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if found is None else json.loads(found[0])

    def put(self, key: str, answer: Any) -> None:
        """Keeps an answer, at once and for good."""
        with self._lock:
            self._lines.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
