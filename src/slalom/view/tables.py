"""What every view of a corpus shows: a table of token types for each label, and short lists beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import cast

import numpy as np

from slalom.explanation import Scores
from slalom.files import plain
from slalom.tokens import BoolArray, FloatArray, IntArray
from slalom.view.csv import table as as_csv
from slalom.view.text import label, visible

Column = tuple[str, ...] | IntArray | FloatArray

_SMALL = 0.03
"""Scores below this part of the largest move nothing, however sure they are."""
SURE = 2.0
"""Standard errors by which a score must differ from zero to be counted on."""
UNSTABLE = 0.1
"""Share of documents with the rarer sign from which a token's sign is called unstable."""


@dataclass(frozen=True, eq=False)
class Table:
    """Token types and what they say about one label, the strongest first."""

    label: str
    about: str
    """What the scores are about, in a few words."""
    size: int
    """Documents that take part."""
    ranking: str
    tokens: tuple[str, ...]
    documents: IntArray
    occurrences: IntArray
    scores: Mapping[str, FloatArray]
    """By name, the mean over documents."""
    stderr: Mapping[str, FloatArray]
    between: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    """Standard deviation between documents; empty where each type has one score for the whole corpus."""
    opposite: FloatArray | None = None
    """Share of the documents with the rarer sign, where that sign is clear."""
    hidden: int = 0
    """Types that occur in too few documents to be shown."""

    def __post_init__(self) -> None:
        for name in ("scores", "stderr", "between"):
            object.__setattr__(self, name, Scores(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.tokens)

    def record(self, row: int) -> dict[str, object]:
        """One row by column name."""
        return {name: column[row] for name, column in self.columns().items()}

    def columns(self) -> dict[str, Column]:
        """All columns by name, the token first."""
        found: dict[str, Column] = {"token": self.tokens}
        found |= {"documents": self.documents, "occurrences": self.occurrences}
        for name, scores in self.scores.items():
            found |= {name: scores, f"{name}_stderr": self.stderr[name]}
            if name in self.between:
                found[f"{name}_between"] = self.between[name]
        if self.opposite is not None:
            found["opposite"] = self.opposite
        return found


@dataclass(frozen=True)
class Section:
    """A short list beside the tables: documents, reasons."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Context:
    """A word where it stands: what is before it, itself, what is behind it."""

    before: str
    word: str
    after: str
    document: str
    """The id of its document."""
    row: int


@dataclass(frozen=True)
class Document:
    """A document that a page can show: its words, each with its share of the strongest score."""

    id: str
    target: str
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Report:
    """A view of a corpus, ready to be shown: same for the terminal, the page and the files."""

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    contexts: Mapping[tuple[str, str], tuple[Context, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[Context, ...]]
    )
    """Where words stand, by label (empty for every label) and token."""
    documents: Mapping[int, Document] = field(default_factory=dict[int, Document])
    """By row, the documents that `contexts` are taken from."""

    def context(self, table: Table, row: int) -> tuple[Context, ...]:
        """Where the token of a row stands."""
        token = table.tokens[row]
        return self.contexts.get((table.label, token)) or self.contexts.get(("", token), ())


NAMED = 12
"""Words on either side of a label that a page names one by one."""
_FREQUENT = 0.02
"""Of the documents, from which a word is frequent."""


@cache
def _function_words() -> frozenset[str]:
    """English words without content of their own; negations are not among them."""
    return frozenset(files("slalom.view").joinpath("assets", "function_words.txt").read_text("utf-8").split())


def sides(table: Table, count: int = NAMED) -> tuple[list[int], list[int]]:
    """Rows of the strongest words that speak for the label, and against it."""
    scores = np.nan_to_num(table.scores[table.ranking])
    clear = _strong(table)
    return tuple(np.flatnonzero(chosen & clear)[:count].tolist() for chosen in (scores > 0, scores < 0))  # type: ignore[return-value]


def spurious(table: Table, count: int = NAMED) -> list[int]:
    """Candidates: strong for sure, frequent, and no content words: marks, numbers, function words."""
    strong = np.flatnonzero(_strong(table))
    least = max(2.0, _FREQUENT * table.size)
    rows = map(int, strong[: max(len(strong) // 2, 4 * count)])
    return [row for row in rows if table.documents[row] >= least and not _content(table.tokens[row])][:count]


def _strong(table: Table) -> BoolArray:
    """For sure of a sign, and not small beside the strongest."""
    scores = np.nan_to_num(table.scores[table.ranking])
    clear = sure(scores, np.nan_to_num(table.stderr[table.ranking])) > 0
    return clear & (np.abs(scores) >= _SMALL * np.abs(scores).max(initial=0.0))


def _content(token: str) -> bool:
    word = token.strip().lower().lstrip("…")
    letters = sum(character.isalpha() for character in word)
    return letters > 0 and word not in _function_words() and (letters > 1 or ord(word[0]) > 0x24F)


def told(report: Report) -> list[str]:
    """What a reader should take away, in sentences."""
    found: list[str] = []
    for table in report.tables:
        towards, against = ([_quoted(table.tokens[row]) for row in rows[:3]] for rows in sides(table))
        parts = [f"for it mainly by {_listed(towards)}"] if towards else []
        parts += [f"against it by {_listed(against)}"] if against else []
        if parts:
            found.append(f"{visible(table.label)}: the model is moved {', '.join(parts)}.")
        odd = [_quoted(table.tokens[row]) for row in spurious(table, 5)]
        if odd:
            found.append(f"Strong and frequent, but no content: {_listed(odd)}. Look at these first.")
    return found


def _quoted(token: str) -> str:
    return f"“{label(token)}”"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def least_count(documents: int) -> int:
    """In how many documents a token must stand to be shown, unless told otherwise: few in a small corpus."""
    return 1 if documents < 10 else min(max(2, round(documents**0.5 / 6)), 20)


def sure(scores: FloatArray, errors: FloatArray) -> FloatArray:
    """The part of |score| that its uncertainty leaves: |score| − 2 standard errors, not below zero."""
    return np.nan_to_num(np.maximum(np.abs(scores) - SURE * errors, 0.0), nan=0.0)


def order(scores: FloatArray, errors: FloatArray, documents: IntArray) -> IntArray:
    """Strongest first: by what is sure of the score, then by its size, then by documents."""
    size = np.nan_to_num(np.abs(scores), nan=0.0)
    return np.lexsort((-documents, -size, -sure(scores, errors)))


def unstable(table: Table) -> list[int]:
    """Rows of types that count more than an average token, and whose sign depends on the document."""
    if table.opposite is None or "importance" not in table.scores:
        return []
    importance, error = table.scores["importance"], table.stderr["importance"]
    lower = importance - SURE * np.nan_to_num(error, nan=np.inf)
    chosen = np.flatnonzero((lower > 0) & (table.opposite >= UNSTABLE))
    return chosen[np.argsort(-importance[chosen], kind="stable")].tolist()


def to_csv(tables: tuple[Table, ...]) -> str:
    """Every row of every table, with the label in front."""
    names = list(dict.fromkeys(name for table in tables for name in table.columns()))
    return as_csv(["label", "rank", *names], (row for table in tables for row in _csv_rows(table, names)))


def _csv_rows(table: Table, names: list[str]) -> Iterator[list[object]]:
    columns = {name: cast(list[object], plain(column)) for name, column in table.columns().items()}
    for row in range(len(table)):
        yield [table.label, row + 1, *(columns[name][row] if name in columns else None for name in names)]


def to_record(table: Table) -> dict[str, object]:
    """A table in JSON's own types."""
    parts: dict[str, object] = {
        "label": table.label,
        "about": table.about,
        "documents": table.size,
        "ranking": table.ranking,
    }
    rows = [plain(table.record(row)) for row in range(len(table))]
    return parts | {
        "hidden": table.hidden,
        "tokens": rows,
        "unstable": [table.tokens[i] for i in unstable(table)],
    }
