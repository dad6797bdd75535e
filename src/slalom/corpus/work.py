"""Explaining one group: what a worker does, on its own or as one of many.

Groups whose worker died: a document that ends its worker every time must not hold up all others.

Before a group is explained, a note says so. A group that was begun three times and never finished is
explained document by document, with a note of each; a document whose worker died twice over it becomes an
error.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from slalom.api import Explainer
from slalom.corpus.rows import Outcome, documents_table, tokens_table
from slalom.corpus.schema import Document, Group
from slalom.corpus.store import Part, Store
from slalom.errors import InputError, ModelError, SlalomError, StoppedError
from slalom.files import decode, put, to_json
from slalom.models.text.texts import check_text
from slalom.models.torch.batches import give_back

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


PROBE = "a good film"
"""Settings that cannot explain this cannot explain anything: then the run ends instead of the documents."""


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know; it travels to other machines."""

    output: str
    fingerprint: str
    model: str | None
    access: dict[str, Any]
    """What an Explainer is made with, beside the model."""
    call: dict[str, Any]
    """What it is called with."""
    threads: int = 1
    keep_text: bool = False
    tokens: bool = False


class Worker:
    """A model that explains groups and writes their parts."""

    def __init__(self, job: Job):
        self.job = job
        self.store = Store(job.output)
        self.explainer = Explainer(job.model, **job.access)
        with threads(job.threads):
            if job.access.get("endpoint") is None:  # it is tried on its first document, which costs less
                self._probe()

    def __call__(self, group: Group) -> Part:
        """Explain a group and write its part, unless it is written already."""
        done = self.store.part(group.number, self.job.fingerprint)
        if done is not None:
            return done
        attempts = Attempts(self.store, group)
        try:
            with threads(self.job.threads):
                outcomes = self._outcomes(group, attempts)
        except BaseException:
            attempts.forget()  # interrupted, not dead
            raise
        job = self.job
        table = documents_table(group.documents, outcomes, job.fingerprint, job.keep_text)
        by_token = tokens_table(group.documents, outcomes, job.fingerprint) if job.tokens else None
        self.store.write_part(group.number, table, by_token)
        attempts.forget()
        give_back()
        return Part(len(outcomes), sum(isinstance(outcome, Exception) for outcome in outcomes))

    def _outcomes(self, group: Group, attempts: Attempts) -> list[Outcome]:
        """The explanation or the error of each document."""
        texts = [_text(one) for one in group.documents]
        good = [text for text in texts if isinstance(text, str)]
        if attempts.careful:
            return [attempts.guarded(place, text, self._one) for place, text in enumerate(texts)]
        found = iter(self._together(good))
        return [next(found) if isinstance(text, str) else text for text in texts]

    def _together(self, texts: list[str]) -> Sequence[Outcome]:
        try:
            return self.explainer(texts, **self.job.call) if texts else []
        except StoppedError:
            raise
        except Exception:  # noqa: BLE001
            # One of them cannot be explained: the others must not suffer from it.
            return [self._one(text) for text in texts]

    def _one(self, text: str) -> Outcome:
        try:
            return self.explainer(text, **self.job.call)
        except StoppedError:  # no document could be explained any more
            raise
        except Exception as error:  # noqa: BLE001
            return error

    def _probe(self) -> None:
        try:
            self.explainer(PROBE, **self.job.call)
        except SlalomError as error:
            raise type(error)(f"no document can be explained with these settings: {error}") from error
        except Exception:  # noqa: BLE001
            return  # this text is not for every tokenizer; a document that fails tells its own error


def _text(one: Document) -> str | InputError:
    if one.text is None:
        return InputError(one.problem or "there is no text")
    try:
        text = decode(one.text, "the text")
        check_text(text, "both")
    except InputError as error:
        return error
    return text


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Threads of the model and of linear algebra inside.

    Sums over more threads round differently, so the number is part of a run.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with threadpool_limits(number, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
