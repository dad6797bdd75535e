"""Where the words of a report stand: examples from an explained corpus, or from texts."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from slalom.audit.summary_read import Rows
from slalom.view.tables import Context, Document, Table, sides, spurious, unstable

PER_WORD = 3
_AROUND = 9
"""Tokens on either side of a word."""
_CHARACTERS = 70
"""Of a text on either side of a word."""
_LONGEST = 300
"""Tokens of a document that a page shows."""
_TEXTS = 20_000
"""Texts that are looked through for examples."""

Key = tuple[str, str]


def named(table: Table) -> list[str]:
    """The tokens of a table that a page names one by one."""
    towards, against = sides(table)
    return [
        table.tokens[row]
        for row in dict.fromkeys([*towards, *against, *spurious(table), *unstable(table)[:12]])
    ]


def of_corpus(
    batches: Iterable[Rows],
    key_of: Callable[[dict[str, list[Any]], int], Any],
    wanted: Mapping[Any, tuple[str, list[str]]],
    ranking: int,
) -> tuple[dict[Key, tuple[Context, ...]], dict[int, Document]]:
    """For each wanted (label, tokens) the documents where the tokens are strongest, and these documents."""
    found: dict[Key, list[tuple[float, int, int, Context]]] = {}
    seen: dict[int, Document] = {}
    every = {token for _, tokens in wanted.values() for token in tokens}
    for rows in batches:
        codes = np.array([string in every for string in rows.strings], bool)
        bounds = np.searchsorted(rows.owner, np.arange(len(rows.explained) + 1))
        for at in np.flatnonzero(codes[rows.tokens] if len(rows.tokens) else np.zeros(0, bool)).tolist():
            document = int(rows.explained[rows.owner[at]])
            label, tokens = wanted.get(key_of(rows.single, document), ("", []))
            token = rows.strings[rows.tokens[at]]
            if token not in tokens:
                continue
            place = (int(bounds[rows.owner[at]]), int(bounds[rows.owner[at] + 1]))
            row, size = int(rows.single["row"][document]), abs(float(rows.scores[at, ranking]))
            heap = found.setdefault((label, token), [])
            if any(entry[2] == row for entry in heap) or (len(heap) == PER_WORD and size <= heap[0][0]):
                continue
            entry = (size, -row, row, _context(rows, at, place, document))
            (heapq.heappush if len(heap) < PER_WORD else heapq.heappushpop)(heap, entry)
            if row not in seen:
                seen[row] = _document(rows, place, document, ranking)
    contexts = {key: tuple(entry[3] for entry in sorted(heap, reverse=True)) for key, heap in found.items()}
    used = {context.row for several in contexts.values() for context in several}
    return contexts, {row: document for row, document in seen.items() if row in used}


def _context(rows: Rows, at: int, place: tuple[int, int], document: int) -> Context:
    first, last = max(place[0], at - _AROUND), min(place[1], at + _AROUND + 1)
    before, after = _written(rows, first, at), _written(rows, at + 1, last)
    gap = " " if rows.gaps[at] and at > place[0] else ""
    more = " …" if last < place[1] else ""
    lead = "… " if first > place[0] else ""
    word = rows.strings[rows.tokens[at]].removeprefix("…")
    follows = " " if at + 1 < last and rows.gaps[at + 1] else ""
    return Context(
        f"{lead}{before}{gap}", word, f"{follows}{after}{more}", _id(rows, document), _row(rows, document)
    )


def _document(rows: Rows, place: tuple[int, int], document: int, ranking: int) -> Document:
    words: list[tuple[str, float]] = []
    for at in range(place[0], min(place[1], place[0] + _LONGEST)):
        if rows.gaps[at] and at > place[0]:
            words.append((" ", 0.0))
        words.append(
            (rows.strings[rows.tokens[at]].removeprefix("…"), float(np.nan_to_num(rows.scores[at, ranking])))
        )
    if place[1] - place[0] > _LONGEST:
        words.append((" …", 0.0))
    return Document(_id(rows, document), rows.single["target"][document] or "", tuple(words))


def _written(rows: Rows, first: int, last: int) -> str:
    parts = [
        (" " if rows.gaps[at] and at > first else "") + rows.strings[rows.tokens[at]].removeprefix("…")
        for at in range(first, last)
    ]
    return "".join(parts)


def _row(rows: Rows, document: int) -> int:
    return int(rows.single["row"][document])


def _id(rows: Rows, document: int) -> str:
    given = rows.single["id"][document]
    return str(_row(rows, document)) if given is None else given


def of_texts(texts: Iterable[str], tokens: Iterable[str]) -> dict[Key, tuple[Context, ...]]:
    """The first texts that hold the tokens as words, for whichever label."""
    words = {token.lower(): token for token in tokens if token.strip() and not token.startswith("…")}
    found: dict[str, list[Context]] = {token: [] for token in words.values()}
    if not words:
        return {}
    longest = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(_bounded(word) for word in longest), re.IGNORECASE)
    missing = set(found)
    for row, text in enumerate(texts):
        if row >= _TEXTS or not missing:
            break
        held: set[str] = set()
        for match in pattern.finditer(text):
            token = words.get(match.group().lower())
            if token not in missing or token in held:
                continue
            held.add(token)
            found[token].append(_around(text, match.start(), match.end(), row))
            if len(found[token]) == PER_WORD:
                missing.discard(token)
    return {("", token): tuple(several) for token, several in found.items() if several}


def _bounded(word: str) -> str:
    return rf"(?<!\w){re.escape(word)}(?!\w)" if word[0].isalnum() and word[-1].isalnum() else re.escape(word)


def _around(text: str, start: int, end: int, row: int) -> Context:
    first, last = max(start - _CHARACTERS, 0), min(end + _CHARACTERS, len(text))
    before = ("…" if first else "") + " ".join(text[first:start].split(" "))
    after = " ".join(text[end:last].split(" ")) + ("…" if last < len(text) else "")
    return Context(before, text[start:end], after, f"text {row + 1}", row)
