"""The directory that keeps an evaluation through a kill.

A finished document is one line of `documents.jsonl`, written at once and flushed to the disk; `settings.json`
says what was measured with what, so that another run continues only what it would have measured itself.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from slalom import outside
from slalom.data.dataset import Document
from slalom.errors import InputError
from slalom.evaluate.document import EvaluationPlan
from slalom.evaluate.results import PARQUETS, CurvePoint, Finished, Measurement, Results, Spent
from slalom.files import (
    Record,
    check_same,
    from_json,
    number,
    plain,
    read_text,
    to_json,
    versions,
    write_text,
)
from slalom.models.protocol import Model

FORMAT, VERSION = "slalom-evaluation", 1
SETTINGS, LINES, TABLE, LOCK = "settings.json", "documents.jsonl", "table.md", ".lock"


def load(out: str | os.PathLike[str]) -> Results:
    """The results that a directory holds, finished or not; in the order in which documents were finished."""
    settings = _settings(Path(out))
    if settings is None:
        raise InputError(f"{os.fspath(out)!r} holds no evaluation: there is no {SETTINGS}")
    lines = Path(out) / LINES
    return Results(settings, tuple(_read(lines.read_bytes())[0]) if lines.exists() else ())


class BusyError(InputError):
    """Another run is writing to the directory."""


class EvaluationFolder:
    """A directory of finished documents, open for more. One process at a time writes to it."""

    def __init__(self, out: str | os.PathLike[str], settings: Record, *, fresh: bool = False):
        self.out = Path(out)
        self.settings = plain(settings)
        self._lock = ExitStack()
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            self._lock.enter_context(locked(self.out))
            self._file = self._open(fresh)
        except OSError as error:
            raise InputError(f"cannot write to {os.fspath(out)!r}: {error.strerror or error}") from error
        if fresh:
            self._file.truncate(0)
            for name in (TABLE, *PARQUETS):
                (self.out / name).unlink(missing_ok=True)
        write_text(
            self.out / SETTINGS, to_json({"format": FORMAT, "version": VERSION, **self.settings}) + "\n"
        )
        self._file.seek(0)
        found, whole = _read(self._file.read())
        self._file.truncate(whole)  # what a kill left half-written
        self.finished = {document.key: document for document in found}
        self._mark = time.perf_counter()

    def _open(self, fresh: bool) -> BinaryIO:
        """The file of documents, checked under the lock: another run may just have begun here."""
        try:
            _check(self.out, self.settings, fresh)
            return (self.out / LINES).open("a+b")
        except BaseException:
            self._lock.close()
            raise

    def add(self, document: Finished) -> None:
        """Keep a finished document: once this returns, a kill cannot take it away."""
        now = time.perf_counter()
        document = replace(document, wall=now - self._mark)
        self._mark = now
        self._file.seek(0, os.SEEK_END)
        self._file.write((to_json(asdict(document), indent=None) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.finished[document.key] = document

    def __enter__(self) -> EvaluationFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.close()  # its file stays: who waits for one that is removed shuts nobody out


def _settings(out: Path) -> Record | None:
    where = out / SETTINGS
    if not where.exists():
        return None
    document = from_json(read_text(where), repr(str(where)))
    if (document.pop("format", None), document.pop("version", None)) != (FORMAT, VERSION):
        raise InputError(f"{str(where)!r} was not written by this version of `slalom evaluate`")
    return document


def _check(out: Path, settings: Record, fresh: bool) -> None:
    """Refuse a directory that holds another evaluation, or files that are none of ours."""
    there = _settings(out)
    if there is None:
        strange = [name for name in (LINES, TABLE, *PARQUETS) if (out / name).exists()]
        if strange:
            raise InputError(f"{str(out)!r} holds {strange[0]} of something else; choose another --out")
        return
    if not fresh:
        check_same(there, settings, f"{str(out)!r} holds an evaluation with other settings")


@contextmanager
def locked(out: Path) -> Generator[None]:
    """Inside, the directory is for this process alone; raises a BusyError where it is another one's."""
    lock = FileLock(out / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise BusyError(f"another run is writing to {str(out)!r}; choose another --out") from error
    try:
        yield
    finally:
        lock.release()


def _read(data: bytes) -> tuple[list[Finished], int]:
    """The documents of the whole lines, and how many bytes those lines are."""
    whole = data.rfind(b"\n") + 1
    found = (_line(line) for line in data[:whole].splitlines())
    return [document for document in found if document is not None], whole


def _line(line: bytes) -> Finished | None:
    """The document of a line; None where the line is damaged, so that the document is done again."""
    try:
        record = from_json(line.decode("utf-8"), "a line")
        return Finished(
            record["key"],
            tuple(Measurement(**_numbers(row, "value")) for row in record["measurements"]),
            tuple(Spent(**row) for row in record["spent"]),
            tuple(CurvePoint(**_numbers(row, "probability")) for row in record["points"]),
            number(record["wall"]),
        )
    except (InputError, KeyError, TypeError, ValueError):
        return None


def _numbers(row: Record, name: str) -> Record:
    """A row with its number read back: null is NaN where something was measured."""
    measured = row.get("number", "") is not None
    return {**row, name: number(row[name]) if measured else None}


_PACKAGES = (
    "slalom-xai",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "captum",
    "lime",
    "shap",
    "scikit-learn",
)


def settings(model: Model, plan: EvaluationPlan, source: str, corpus: Sequence[Document] | None) -> Record:
    """Everything that a number in the table depends on, apart from the documents themselves.

    They have keys of their own, so that a run can be continued with more documents.
    """
    methods = {
        one.label: {"method": one.method, **({"score": one.score} if one.score else {}), **one.call}
        | ({"outside": outside.facts(one.method)} if outside.is_outside(one.method) else {})
        for one in plan.variants
    }
    return {
        **here(model),
        "data": source,
        "cut": plan.cut,
        **plan.call,
        "methods": methods,
        "protocols": {name: dict(judge.protocol.good) for name, judge in plan.judges.items()},
        "protocol_options": {
            name: dict(judge.options) for name, judge in plan.judges.items() if judge.options
        },
        "corpus": None
        if corpus is None
        else {"texts": len(corpus), "digest": _digest(map(_content, corpus))},
    }


def here(model: Model) -> Record:
    """What numbers depend on apart from what is measured: the model, and the versions of the packages."""
    facts = {"name": model.name, "weights": _weights(model), **_engine(model), **_facts(model)}
    return {"model": facts, "versions": versions(_PACKAGES)}


def _engine(model: Model) -> dict[str, str]:
    """The engine that was asked for; those of the module's own precision differ by its rounding alone."""
    name = model.facts.engine
    return {} if name is None or name == "eager" else {"engine": name}


def _facts(model: Model) -> Record:
    """What a language model is asked, and where; how its answers are read is found out later."""
    facts: Record = dict(model.facts.settings)
    if "endpoint" in facts:
        facts["endpoint"] = {key: value for key, value in facts["endpoint"].items() if key != "scoring"}
    return facts


def names(documents: Sequence[Document]) -> list[str]:
    """A name for each document that no other one has: its id, or its place."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for place, document in enumerate(documents):
        name = document.id or str(place)
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def key(name: str, document: Document) -> str:
    """A digest of a document: its name, text, label and annotations."""
    return _digest([name, _content(document)])


def _content(document: Document) -> str:
    parts = {"text": document.text, "label": document.label, "words": document.words, "maps": document.maps}
    return to_json(parts, indent=None)


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _weights(model: Model) -> str | None:
    """A digest of a torch model's weights; None for a model that can only be asked."""
    if model.torch is None:
        return None
    import torch

    digest = hashlib.blake2b(digest_size=12)
    for name, tensor in model.torch.module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
