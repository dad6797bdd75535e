"""Documents with what people said about them, and how they come from the rows of a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Literal, cast

import numpy as np

from slalom.checks import Seed, at_least_one, check
from slalom.data.tables import Bad, Row, RowTable, splits_of
from slalom.errors import InputError
from slalom.files import Record


@dataclass(frozen=True)
class Document:
    """A text (or a pair of texts), its label and its human annotations, where there are any.

    Args:
        text: the text, or a pair of texts.
        label: the number of its label.
        id: its name.
        words: the words that the annotators saw.
        maps: by name, one 0 or 1 for each of them: "consensus", "majority" and "superset" (Yelp-HAT),
            "rationale" (ERASER movies), "majority" and "union" (HateXplain).

    Raises:
        InputError: where a map does not fit the words.

    Example:
        >>> from slalom.data import Document
        >>> Document("a film", label=1, words=("a", "film"), maps={"rationale": (0, 1)}).label
        1
    """

    text: str | tuple[str, str]
    label: int | None = None
    id: str = ""
    words: tuple[str, ...] | None = None
    maps: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]], hash=False)

    def __post_init__(self) -> None:
        if self.maps and self.words is None:
            raise InputError(f"document {self.id!r} has human maps but not the words they belong to")
        for name, marks in self.maps.items():
            if len(marks) != len(self.words or ()):
                raise InputError(
                    f"document {self.id!r}: the map {name!r} has {len(marks)} marks for "
                    f"{len(self.words or ())} words"
                )


@dataclass(frozen=True)
class Dataset:
    """Documents, the names of their labels, and what had to be left out.

    labels: the name of every label; None where the source has numbers only. skipped: how many rows were
    left out, by reason (`on_bad="skip"`).
    """

    name: str
    documents: Sequence[Document]
    labels: tuple[str, ...] | None = None
    split: str | None = None
    skipped: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, place: int) -> Document:
        return self.documents[place]

    def pairs(self) -> list[tuple[str | tuple[str, str], str | int]]:
        """(text, label) of every labelled document, the label by its name where it has one."""
        names = self.labels
        return [
            (document.text, document.label if names is None else names[document.label])
            for document in self.documents
            if document.label is not None
        ]


def draw(
    documents: Sequence[Document],
    *,
    limit: int | None = None,
    seed: int | None = None,
    balanced: bool = False,
) -> tuple[Document, ...]:
    """Up to `limit` documents: the first ones, or with a `seed` random ones in random order.

    With the same seed, a smaller sample is the beginning of a larger one. `balanced` takes equally many
    of every label, in turn, and leaves out documents without one.

    Example:
        >>> reviews = [Document("great"), Document("fine"), Document("dull")]
        >>> [document.text for document in draw(reviews, limit=2)]
        ['great', 'fine']
    """
    at_least_one(limit=limit)
    check("seed", seed, Seed | None)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(documents))
        documents = [documents[int(place)] for place in order]
    if balanced:
        documents = _in_turn(documents)
    return tuple(documents[:limit])


def _in_turn(documents: Sequence[Document]) -> list[Document]:
    """One document of each label after the other, as many as the rarest label has."""
    groups: dict[int, list[Document]] = {}
    for document in documents:
        if document.label is not None:
            groups.setdefault(document.label, []).append(document)
    if len(groups) < 2:
        raise InputError(f"a balanced sample needs documents of two labels or more; there are {len(groups)}")
    rarest = min(map(len, groups.values()))
    rounds = zip_longest(*(groups[label][:rarest] for label in sorted(groups)))
    return [document for document in chain.from_iterable(rounds) if document is not None]


OnBad = Literal["raise", "skip"]
TextColumn = str | tuple[str, str]

TEXTS = ("text", "sentence", "review", "content", "document", "comment", "post", "tweet", "body")
"""Usual names of the column of the text; the first that is there is taken, by every command."""
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
)
_LABELS = ("label", "labels", "class", "target", "category", "sentiment")
_NAMES = ("label_name", "label_text")
_WORDS = ("words", "tokens")
_MAPS = ("consensus", "majority", "superset", "union", "rationale")


@dataclass(frozen=True)
class Columns:
    """Where a table keeps what a document is made of."""

    text: TextColumn
    label: str | None
    words: str | None
    maps: tuple[str, ...]
    id: str | None
    split: str | None


def choose_columns(table: RowTable, text: TextColumn | None, label: str | None) -> Columns:
    """The columns named by the caller, or the usual ones."""
    here = set(table.columns)
    wanted = (text,) if isinstance(text, str) else (text or ())
    for column in (*wanted, *([label] if label else [])):
        if column not in here:
            raise InputError(f"{table.name} has no column {column!r}; {_listed(table)}")
    return Columns(
        text=text or _guess_text(table),
        label=label or next((name for name in _LABELS if name in here), None),
        words=next((name for name in _WORDS if name in here), None),
        maps=tuple(name for name in _MAPS if name in here),
        id="id" if "id" in here else None,
        split="split" if "split" in here else None,
    )


def _guess_text(table: RowTable) -> TextColumn:
    for name in TEXTS:
        if name in table.columns:
            return name
    for pair in _PAIRS:
        if set(pair) <= set(table.columns):
            return pair
    raise InputError(
        f"{table.name} has no column that looks like the text: name one (text=…); {_listed(table)}"
    )


def _listed(table: RowTable) -> str:
    return f"its columns are {', '.join(table.columns) or 'none'}"


@dataclass(frozen=True)
class Labels:
    """The names of the labels, if they have names; `own` if the values in the column are these names."""

    names: tuple[str, ...] | None
    own: bool = False

    def index(self, value: object) -> int | None:
        """The number of the label that a cell holds; None for no label."""
        plain = _plain(value)
        if plain is None:
            return None
        if self.names is not None and (self.own or isinstance(value, str)) and str(plain) in self.names:
            return self.names.index(str(plain))
        if isinstance(plain, int) and 0 <= plain < (math.inf if self.names is None else len(self.names)):
            return plain
        known = "numbers from 0" if self.names is None else ", ".join(self.names)
        raise InputError(f"the label {value!r:.40} is not one of {known}")


def find_labels(table: RowTable, columns: Columns, given: Sequence[str] | None) -> Labels:
    """The names of the labels: given, declared, written beside the numbers, or the labels themselves."""
    if given is not None or table.labels is not None or columns.label is None:
        return Labels(table.labels if given is None else tuple(given))
    values = [_plain(value) for value in table.values(columns.label)]
    if any(isinstance(value, str) for value in values):
        return Labels(
            tuple(sorted({str(value) for value in values if isinstance(value, str | int)})), own=True
        )
    number = max((value for value in values if isinstance(value, int)), default=-1) + 1
    return Labels(_names_beside(table, columns.label, number))


def _names_beside(table: RowTable, label: str, number: int) -> tuple[str, ...] | None:
    beside = next((name for name in _NAMES if name in table.columns), None)
    if beside is None:
        return None
    pairs = zip(map(_plain, table.values(label)), table.values(beside), strict=True)
    names = {index: name for index, name in pairs if isinstance(index, int) and isinstance(name, str)}
    complete = len(names) == number and min(names, default=0) == 0  # no label is larger than number - 1
    return tuple(names[index] for index in range(number)) if complete else None


def document(row: Row, place: str, name: str, columns: Columns, labels: Labels) -> Document | Bad:
    """The document in a row, or why there is none."""
    if isinstance(row, Bad):
        return row
    try:
        words = _words(row, columns)
        own = row.get(columns.id) if columns.id else None
        return Document(
            text=_text(row, columns.text),
            label=labels.index(row.get(columns.label)) if columns.label else None,
            id=f"{name} {place}" if own is None else str(own),
            words=words,
            maps=_maps(row, columns, words),
        )
    except InputError as error:
        return Bad(str(error))


def _text(row: Record, column: TextColumn) -> str | tuple[str, str]:
    if isinstance(column, str):
        return _string(row.get(column), column)
    first, second = column
    return _string(row.get(first), first), _string(row.get(second), second)


def _string(value: object, column: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise InputError(f"the {column} is null")
    if not isinstance(value, str):
        raise InputError(f"the {column} is of type {type(value).__name__}, not a string")
    if not value.strip():
        raise InputError(f"the {column} is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the {column} holds half a surrogate pair") from error
    return value


def _plain(value: object) -> object:
    """A label as a number where it is one; what has no label (null, -1, an empty cell) as None."""
    if isinstance(value, str):
        value = value.strip()
        # Python refuses to read thousands of digits.
        if value.removeprefix("-").isdecimal() and len(value) < 19:
            value = int(value)
    if isinstance(value, float):
        value = None if math.isnan(value) else int(value) if value.is_integer() else value
    if isinstance(value, bool):
        return int(value)
    return None if value in ("", -1) else value


def _words(row: Record, columns: Columns) -> tuple[str, ...] | None:
    words = row.get(columns.words) if columns.words else None
    if not isinstance(words, list) or not words:  # a CSV cell, or a row without annotations
        return None
    strings = tuple(word for word in cast("list[object]", words) if isinstance(word, str))
    if len(strings) < len(cast("list[object]", words)):
        raise InputError(f"the {columns.words} are not all strings")
    return strings


def _maps(row: Record, columns: Columns, words: tuple[str, ...] | None) -> dict[str, tuple[int, ...]]:
    if words is None or row.get("has_rationale") is False:  # marked by nobody is not marked as unimportant
        return {}
    found = {name: row[name] for name in columns.maps if isinstance(row.get(name), list) and row[name]}
    maps = {name: tuple(cast("list[int]", marks)) for name, marks in found.items()}
    for name, marks in maps.items():
        if not all(mark in (0, 1) for mark in marks):
            raise InputError(f"the map {name} holds something else than 0 and 1")
    return maps


def check_found(
    found: list[Document], skipped: Counter[str], table: RowTable, columns: Columns, split: str | None
) -> None:
    """Refuse a source without a single usable document, and say why there is none."""
    if found:
        return
    if split is not None and not skipped:
        raise InputError(f"{table.name} has no split {split!r}; its splits are {', '.join(splits_of(table))}")
    reasons = "; ".join(f"{number} rows: {reason}" for reason, number in skipped.items())
    raise InputError(
        f"{table.name} holds no usable document (text in {columns.text!r}){': ' if reasons else ''}{reasons}"
    )


def documents(
    table: RowTable,
    columns: Columns,
    names: Labels,
    split: str | None,
    enough: int | None,
    on_bad: OnBad,
) -> tuple[list[Document], Counter[str]]:
    """The documents of a table, `enough` of them, and why rows were skipped."""
    if split is not None and columns.split is None:
        raise InputError(f"{table.name} has no column 'split', so there is no split {split!r}; leave it out")
    found: list[Document] = []
    skipped: Counter[str] = Counter()
    for place, row in table.rows(split):
        if split is not None and not isinstance(row, Bad) and row.get("split") != split:
            continue
        made = document(row, place, table.name, columns, names)
        if not isinstance(made, Bad):
            found.append(made)
        elif on_bad == "skip":
            skipped[made.reason] += 1
        else:
            raise InputError(f"{table.name}, {place}: {made.reason}; correct it, or skip such rows")
        if len(found) == enough:
            break
    return found, skipped
