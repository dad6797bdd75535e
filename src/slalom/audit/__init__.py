"""The global view of an explained corpus: which tokens carry value and importance, and its limits."""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from slalom.audit.report import LEVELS, general, named, of_corpus, why_bad
from slalom.audit.summary_read import Batch, ExplainedParts, ExplainedRows, Moments, Sums, open_output, read
from slalom.checks import at_least_one, check
from slalom.corpus import schema
from slalom.corpus.schema import DocumentColumns
from slalom.errors import InputError
from slalom.files import Record
from slalom.tokens import IntArray
from slalom.view.tables import Context, ShownDocument, TokenTable, least_count, order

By = Literal["target", "class"]

_BATCH = 2048
_REASONS = 100
"""Different reasons of errors that are counted one by one."""
_STEPS = 100


@dataclass(frozen=True)
class Misfit:
    """A document that the surrogate describes badly."""

    row: int
    id: str
    target: str
    r2: float
    reason: str


@dataclass(frozen=True)
class FailureReason:
    """Documents that could not be explained, by reason."""

    reason: str
    documents: int
    example: str
    """The id of the first of them."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What an explained corpus says as a whole."""

    source: str
    by: By
    min_count: int
    documents: int
    explained: int
    finished: bool
    """Whether the run that explains the corpus has come to its end."""
    tables: tuple[TokenTable, ...]
    levels: dict[str, int]
    """How many documents the surrogate fits well, and how many it does not, by held-out R²."""
    median_r2: float
    """To two digits; NaN where none was measured."""
    misfits: tuple[Misfit, ...]
    """The worst first."""
    failures: tuple[FailureReason, ...]
    """The most frequent first."""
    contexts: Mapping[tuple[str, str], tuple[Context, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[Context, ...]]
    )
    """Where the strongest words stand, by label and token, if that was asked for."""
    examples: Mapping[int, ShownDocument] = field(default_factory=dict[int, ShownDocument])
    """The documents of these examples, by row."""


def summarize(
    output: str | os.PathLike[str],
    *,
    by: By = "target",
    min_count: int | None = None,
    top: int = 20,
    batch: int = _BATCH,
    examples: bool = False,
) -> Summary:
    """Read what `slalom explain-corpus` wrote and sum it up over documents.

    Memory grows with the number of token types; `batch` documents are held at a time.

    Args:
        output: the directory of the explained corpus.
        by: a table for each label that was explained, or for each label that the model predicted.
        min_count: token types in fewer documents of a table are left out; by default 1 to 20, by the size
            of the corpus.
        top: how many badly fitted documents to list.
        batch: documents in memory.
        examples: also find where the strongest words stand, which reads the corpus twice.

    Returns:
        Tables of words with their mean scores and standard errors.

    Raises:
        InputError: where there is no explained corpus, or no document in it could be explained.

    Example:
        >>> import pathlib, tempfile
        >>> from slalom.audit import summarize
        >>> from slalom.corpus import explain_corpus
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     reviews = pathlib.Path(folder, "reviews.csv")
        ...     _ = reviews.write_text("text" + chr(10) + "a great film" + chr(10) + "a great cast")
        ...     _ = explain_corpus(str(reviews), f"{folder}/explained", target="positive")
        ...     summarize(f"{folder}/explained", min_count=1).tables[0].tokens[0]
        'great'
    """
    check("by", by, By)
    at_least_one(min_count=min_count, top=top, batch=batch)
    where = os.fspath(output)
    source = open_output(where)
    seen = _Seen(by, source.names, top)
    for rows in read(source, batch):
        seen.add(rows)
    if seen.explained == 0:
        raise InputError(_nothing(where, seen))
    least = least_count(seen.explained) if min_count is None else min_count
    tables = seen.tables(least)
    contexts, shown = seen.examples(source, tables, batch) if examples else ({}, {})
    return Summary(
        source=where,
        by=by,
        min_count=least,
        documents=seen.documents,
        explained=seen.explained,
        finished=source.finished,
        tables=tables,
        levels=seen.levels,
        median_r2=seen.median_r2(),
        misfits=seen.misfits(),
        failures=seen.failures(),
        contexts=contexts,
        examples=shown,
    )


def _nothing(where: str, seen: _Seen) -> str:
    if seen.documents == 0:
        return f"{where!r} holds no documents; let `slalom explain-corpus` run first"
    reason = next(iter(seen.failures()), None)
    why = f"; most often: {reason.reason}" if reason else ""
    return f"none of the {seen.documents} documents in {where!r} was explained{why}"


@dataclass(eq=False)
class _Seen:
    """What has been read so far."""

    by: By
    names: tuple[str, ...]
    top: int
    documents: int = 0
    explained: int = 0
    r2_counts: IntArray = field(default_factory=lambda: np.zeros(2 * _STEPS + 1, np.int64))
    """Documents by R², from −1 (or less) to 1."""
    levels: dict[str, int] = field(
        default_factory=lambda: {name: 0 for _, name in LEVELS} | {"unmeasured": 0}
    )
    vocabulary: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of the token types, in the order they were met."""
    groups: dict[tuple[str, str], Sums] = field(default_factory=dict[tuple[str, str], Sums])
    sizes: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    ranking: str = ""
    _worst: list[tuple[float, int, Misfit]] = field(default_factory=list[tuple[float, int, Misfit]])
    _failed: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])

    def add(self, rows: ExplainedRows) -> None:
        status = rows.single["status"]
        self.documents += len(status)
        self.explained += len(rows.explained)
        for i in np.setdiff1d(np.arange(len(status)), rows.explained).tolist():
            self._fail(rows.single, i)
        for i in rows.explained.tolist():
            self._fit(rows.single, i)
        self._sum(rows)

    def _sum(self, rows: ExplainedRows) -> None:
        if len(rows.explained) == 0:
            return
        known = self.vocabulary
        numbers = np.array([known.setdefault(string, len(known)) for string in rows.strings], np.int64)
        types = numbers[rows.tokens]
        keys = [self._key(rows.single, i) for i in rows.explained.tolist()]
        self.ranking = self.ranking or rows.single["ranking"][rows.explained[0]] or ""
        codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
        group = np.array([codes[key] for key in keys], np.int64)
        for key, code in codes.items():
            own = group[rows.owner] == code
            sums = self.groups.setdefault(key, Sums(len(self.names), self._signed))
            sums.add(Batch(rows.owner[own], types[own], rows.scores[own], rows.errors[own]))
            self.sizes[key] = self.sizes.get(key, 0) + int((group == code).sum())

    @property
    def _signed(self) -> int:
        """The score whose sign is watched."""
        return self.names.index("value") if "value" in self.names else 0

    def _key(self, single: DocumentColumns, i: int) -> tuple[str, str]:
        target, prediction = single["target"][i] or "", single["prediction"][i] or ""
        return (target, "") if self.by == "target" else (target, prediction)

    def _fail(self, single: DocumentColumns, i: int) -> None:
        said = single["error"][i] or f"no scores, with the status {single['status'][i]!r}"
        reason = general(said)
        if reason not in self._failed and len(self._failed) >= _REASONS:
            reason = "other reasons"
        count, example = self._failed.get(reason, (0, _id(single, i)))
        self._failed[reason] = (count + 1, example)

    def _fit(self, single: DocumentColumns, i: int) -> None:
        r2 = single["r2"][i]
        if r2 is None or math.isnan(r2):
            self.levels["unmeasured"] += 1
            return
        self.levels[next(name for least, name in LEVELS if r2 >= least)] += 1
        self.r2_counts[round((max(r2, -1.0) + 1.0) * _STEPS)] += 1
        if len(self._worst) == self.top and -r2 <= self._worst[0][0]:
            return
        row = int(single["row"][i])
        entry = (-r2, -row, Misfit(row, _id(single, i), single["target"][i] or "", r2, why_bad(single, i)))
        push = heapq.heappush if len(self._worst) < self.top else heapq.heappushpop
        push(self._worst, entry)

    def examples(
        self, source: ExplainedParts, tables: tuple[TokenTable, ...], batch: int
    ) -> tuple[dict[tuple[str, str], tuple[Context, ...]], dict[int, ShownDocument]]:
        """Where the words that a page names stand; the documents are read once more."""
        wanted = {
            key: (table.label, named(table)) for key, table in zip(sorted(self.groups), tables, strict=True)
        }
        ranking = self.names.index(tables[0].ranking)
        return of_corpus(read(source, batch), self._key, wanted, ranking)

    def median_r2(self) -> float:
        total = np.cumsum(self.r2_counts)
        return float(np.searchsorted(total, float(total[-1]) / 2)) / _STEPS - 1.0 if total[-1] else math.nan

    def misfits(self) -> tuple[Misfit, ...]:
        return tuple(misfit for *_, misfit in sorted(self._worst, key=lambda entry: entry[:2], reverse=True))

    def failures(self) -> tuple[FailureReason, ...]:
        found = [FailureReason(reason, count, example) for reason, (count, example) in self._failed.items()]
        return tuple(sorted(found, key=lambda failure: -failure.documents))

    def tables(self, min_count: int) -> tuple[TokenTable, ...]:
        ranking = self.ranking if self.ranking in self.names else self.names[-1]
        ranking = "share" if "share" in self.names else ranking
        strings = tuple(self.vocabulary)
        return tuple(
            _table(
                key,
                self.sizes[key],
                self.groups[key].moments(len(strings)),
                strings,
                self.names,
                ranking,
                min_count,
            )
            for key in sorted(self.groups)
        )


def _table(
    key: tuple[str, str],
    size: int,
    found: Moments,
    strings: tuple[str, ...],
    names: tuple[str, ...],
    ranking: str,
    min_count: int,
) -> TokenTable:
    target, prediction = key
    place = names.index(ranking)
    shown = np.flatnonzero(found.documents >= min_count)
    best = order(found.mean[shown, place], found.stderr[shown, place], found.documents[shown])
    chosen: IntArray = shown[best]
    rarer = np.minimum(found.positive, found.negative)[chosen]
    return TokenTable(
        label=target if prediction in ("", target) else f"{target} (predicted {prediction})",
        about=f"scores speak for {target!r}" + (f", where {prediction!r} is predicted" if prediction else ""),
        size=size,
        ranking=ranking,
        tokens=tuple(strings[int(i)] for i in chosen),
        documents=found.documents[chosen],
        occurrences=found.occurrences[chosen],
        scores={name: found.mean[chosen, k] for k, name in enumerate(names)},
        stderr={name: found.stderr[chosen, k] for k, name in enumerate(names)},
        between={name: found.between[chosen, k] for k, name in enumerate(names)},
        opposite=rarer / np.maximum(found.documents[chosen], 1),
        hidden=int(((found.documents > 0) & (found.documents < min_count)).sum()),
    )


def _id(single: DocumentColumns, i: int) -> str:
    given = single["id"][i]
    return str(single["row"][i]) if given is None else given


def to_record(summary: Summary) -> Record:
    """The summary in JSON's own types."""
    from dataclasses import asdict

    from slalom.view.tables import to_record as table_record

    return {
        "format": "slalom-summary",
        "version": 1,
        "schema_version": schema.VERSION,
        "source": summary.source,
        "by": summary.by,
        "min_count": summary.min_count,
        "documents": summary.documents,
        "explained": summary.explained,
        "finished": summary.finished,
        "fit": summary.levels | {"median_r2": summary.median_r2},
        "misfits": [asdict(misfit) for misfit in summary.misfits],
        "failures": [asdict(failure) for failure in summary.failures],
        "tables": [table_record(table) for table in summary.tables],
    }
