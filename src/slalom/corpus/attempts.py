"""Groups whose worker died: a document that ends its worker every time must not hold up all others.

Before a group is explained, a note says so. A group that was begun three times and never finished is
explained document by document, with a note of each; a document whose worker died twice over it becomes an
error.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from slalom.corpus.documents import Group
from slalom.corpus.files import put
from slalom.corpus.rows import Outcome
from slalom.corpus.store import Store
from slalom.errors import InputError, ModelError
from slalom.files import to_json

_TOGETHER = 3
"""Attempts at the whole group."""
_ALONE = 2
"""Attempts at one document of a group that failed as a whole."""


class Attempts:
    """The note about one group."""

    def __init__(self, store: Store, group: Group):
        self._store, self._name = store, f".attempts-{group.number:06d}.json"
        try:
            self._note: dict[str, Any] = store.read_json(self._name) or {}
        except InputError:  # half a note: its writer died
            self._note = {}
        self._note |= {"host": socket.gethostname(), "pid": os.getpid()}
        self._note["begun"] = int(self._note.get("begun", 0)) + 1
        self._deaths: dict[str, int] = self._note.setdefault("documents", {})
        self._write()

    @property
    def careful(self) -> bool:
        """Whether the group is to be explained document by document."""
        return self._note["begun"] > _TOGETHER

    def guarded(self, place: int, text: str | Exception, explain: Callable[[str], Outcome]) -> Outcome:
        """Explain one document, unless it has ended its worker before."""
        if isinstance(text, Exception):
            return text
        deaths = self._deaths.get(str(place), 0)
        if deaths >= _ALONE:
            return ModelError(f"the worker died {deaths} times while it explained this document")
        self._deaths[str(place)] = deaths + 1
        self._write()
        outcome = explain(text)
        self._deaths[str(place)] = deaths
        return outcome

    def forget(self) -> None:
        """The group is finished."""
        self._store.remove(self._name)

    def _write(self) -> None:
        put(self._store.fs, self._store.path(self._name), to_json(self._note).encode())
