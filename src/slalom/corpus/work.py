"""Explaining one group: what a worker does, on its own or as one of many.

Groups whose worker died: a document that ends its worker every time must not hold up all others.

Before a group is explained, a note says so. A group that was begun three times and never finished is
explained document by document, with a note of each; a document whose worker died twice over it becomes an
error.

What is written about a document is its explanation or its error, as rows of the output's tables.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slalom.api import Explainer
from slalom.corpus import schema
from slalom.corpus.schema import CorpusDocument, DocumentGroup
from slalom.corpus.store import CorpusFolder, Part
from slalom.errors import InputError, ModelError, SlalomError, StoppedError
from slalom.explanation import Explanation
from slalom.files import Record, decode, put, to_json
from slalom.models.text import check_text
from slalom.models.torch import give_back

if TYPE_CHECKING:
    import pyarrow

Outcome = Explanation | Exception


def documents_table(
    documents: Sequence[CorpusDocument], outcomes: Sequence[Outcome], fingerprint: str, keep_text: bool
) -> pyarrow.Table:
    """One row for each document, in the order given."""
    rows = [_row(one, outcome, keep_text) for one, outcome in zip(documents, outcomes, strict=True)]
    errors = sum(isinstance(outcome, Exception) for outcome in outcomes)
    return _table(rows, schema.documents(), fingerprint, errors)


def tokens_table(
    documents: Sequence[CorpusDocument], outcomes: Sequence[Outcome], fingerprint: str
) -> pyarrow.Table:
    """One row for each token of the documents that were explained."""
    rows: list[Record] = []
    for one, outcome in zip(documents, outcomes, strict=True):
        if isinstance(outcome, Explanation):
            rows += _token_rows(one, outcome.shown)
    return _table(rows, schema.tokens(), fingerprint, 0)


def _table(rows: list[Record], of: pyarrow.Schema, fingerprint: str, errors: int) -> pyarrow.Table:
    own = {schema.FINGERPRINT_KEY: fingerprint.encode(), schema.ERRORS_KEY: str(errors).encode()}
    return schema.arrow().Table.from_pylist(rows, schema=of.with_metadata({**(of.metadata or {}), **own}))


def _row(one: CorpusDocument, outcome: Outcome, keep_text: bool) -> Record:
    row: Record = {"row": one.row, "id": one.id, "text_hash": one.digest}
    if isinstance(outcome, Exception):
        return row | {"status": schema.ERROR, "error": message(outcome)}
    own, shown = {"text": outcome.text if keep_text else None, "status": schema.OK}, outcome.shown
    return row | own | _said(shown) | _scores(shown) | _measured(shown)


def message(error: Exception) -> str:
    """An error in one line; the type is named where the error is not one of this library."""
    text = " ".join(str(error).split())
    text = text if isinstance(error, SlalomError) else f"{type(error).__name__}: {text}"
    return text.encode("utf-8", "replace").decode("utf-8")


def _said(explanation: Explanation) -> Record:
    tokens, chances = explanation.tokens, explanation.probabilities
    return {
        "method": explanation.method,
        "prediction": explanation.prediction,
        "probability": float(chances.max()),
        "target": explanation.target,
        "target_probability": float(chances[explanation.labels.index(explanation.target)]),
        "output": explanation.output,
        "tokens": [_unicode(token) for token in tokens.strings],
        "starts": tokens.spans[:, 0],
        "ends": tokens.spans[:, 1],
        "types": tokens.inverse,
        "notes": list(explanation.notes),
    }


def _scores(explanation: Explanation) -> Record:
    own = {column: explanation.scores.get(name) for name, column in schema.SCORES.items()}
    errors = {
        f"{column}_stderr": explanation.stderr.get(name)
        for name, column in schema.SCORES.items()
        if column in schema.STDERR
    }
    other = explanation.ranking not in schema.SCORES
    return {
        "ranking": schema.ATTRIBUTION if other else schema.SCORES[explanation.ranking],
        **own,
        **errors,
        schema.ATTRIBUTION: explanation.score() if other else None,
    }


def _measured(explanation: Explanation) -> Record:
    cost = explanation.cost
    return {
        **{name: explanation.fidelity.get(name) for name in (*schema.FIDELITY, *schema.INTERVAL)},
        "order_certainty": explanation.settings.get("order_certainty"),
        "queries": cost.queries,
        "query_tokens": cost.tokens,
        "seconds": cost.seconds,
        "model_seconds": cost.model_seconds,
    }


def _token_rows(one: CorpusDocument, explanation: Explanation) -> list[Record]:
    tokens = explanation.tokens
    columns: Record = {
        "position": range(len(tokens)),
        "token": [_unicode(token) for token in tokens.strings],
        "start": tokens.spans[:, 0],
        "end": tokens.spans[:, 1],
        "type": tokens.inverse,
        **{name: explanation.scores[name] for name in schema.SCORES if name in explanation.scores},
        **{f"{n}_stderr": a for n, a in explanation.stderr.items() if schema.SCORES.get(n) in schema.STDERR},
    }
    if explanation.ranking not in schema.SCORES:
        columns[schema.ATTRIBUTION] = explanation.score()
    shared = {"row": one.row, "id": one.id, "target": explanation.target}
    return [
        shared | dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _unicode(token: str) -> str:
    return token.encode("utf-8", "replace").decode("utf-8")


_TOGETHER = 3
"""Attempts at the whole group."""
_ALONE = 2
"""Attempts at one document of a group that failed as a whole."""


class Attempts:
    """The note about one group."""

    def __init__(self, store: CorpusFolder, group: DocumentGroup):
        self._store, self._name = store, f".attempts-{group.number:06d}.json"
        try:
            self._note: Record = store.read_json(self._name) or {}
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
class CorpusJob:
    """All that a worker needs to know; it travels to other machines."""

    output: str
    fingerprint: str
    model: str | None
    access: Record
    """What an Explainer is made with, beside the model."""
    call: Record
    """What it is called with."""
    threads: int = 1
    keep_text: bool = False
    tokens: bool = False


class Worker:
    """A model that explains groups and writes their parts."""

    def __init__(self, job: CorpusJob):
        self.job = job
        self.store = CorpusFolder(job.output)
        self.explainer = Explainer(job.model, **job.access)
        with threads(job.threads):
            if job.access.get("endpoint") is None:  # it is tried on its first document, which costs less
                self._probe()

    def __call__(self, group: DocumentGroup) -> Part:
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

    def _outcomes(self, group: DocumentGroup, attempts: Attempts) -> list[Outcome]:
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


def _text(one: CorpusDocument) -> str | InputError:
    if one.text is None:
        return InputError(one.problem or "there is no text")
    try:
        text = decode(one.text, "the text")
        check_text(text, "both")
    except InputError as error:
        return error
    return text


@contextmanager
def threads(number: int) -> Generator[None]:
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
