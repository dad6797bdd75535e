"""Explaining one group: what a worker does, on its own or as one of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from slalom.api import Explainer
from slalom.corpus.attempts import Attempts
from slalom.corpus.documents import Document, Group
from slalom.corpus.rows import Outcome, documents_table, tokens_table
from slalom.corpus.store import Part, Store
from slalom.errors import InputError, SlalomError
from slalom.files import decode
from slalom.models.memory import give_back
from slalom.models.texts import check_text

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
        except Exception:
            # One of them cannot be explained: the others must not suffer from it.
            return [self._one(text) for text in texts]

    def _one(self, text: str) -> Outcome:
        try:
            return self.explainer(text, **self.job.call)
        except Exception as error:
            return error

    def _probe(self) -> None:
        try:
            self.explainer(PROBE, **self.job.call)
        except SlalomError as error:
            raise type(error)(f"no document can be explained with these settings: {error}") from error
        except Exception:
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
