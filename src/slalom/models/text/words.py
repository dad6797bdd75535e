"""A text as words, and queries about them as texts again: what a function over texts is asked with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slalom.errors import InputError
from slalom.models.protocol import Text
from slalom.models.text.template import check_queries
from slalom.models.text.texts import Explain, check_text, is_unspaced, join_texts, split_words
from slalom.perturb import Perturbations
from slalom.tokens import Tokens


@dataclass(frozen=True)
class WordFrame:
    """The texts around the words."""

    texts: tuple[str, ...]
    """The text, or both texts of a pair; one that is not explained stands in every query as it is."""
    sides: tuple[int, ...]
    """Which of them are explained."""


def words(text: Text, explain: Explain = "both") -> Tokens:
    """The words of a text as tokens; equal words have equal ids."""
    texts, sides = check_text(text, explain)
    joined, starts = join_texts(texts)
    strings: list[str] = []
    spans: list[tuple[int, int]] = []
    segments: list[int] = []
    for side in sides:
        part, places = texts[side], split_words(texts[side])
        strings += [part[low:high] for low, high in places]
        spans += [(starts[side] + low, starts[side] + high) for low, high in places]
        segments += [side] * len(places)
    ids: dict[str, int] = {}
    return Tokens(
        text=joined,
        strings=tuple(strings),
        spans=np.array(spans, np.int64),
        pieces=tuple((ids.setdefault(string, len(ids)),) for string in strings),
        words=np.arange(len(strings)),
        segments=np.array(segments, np.int64),
        frame=WordFrame(texts, sides),
    )


def write(tokens: Tokens, queries: Perturbations) -> list[str] | list[tuple[str, ...]]:
    """The text (or the pair of texts) of every query.

    Words that stood next to each other in that order keep what stood between them; others are joined
    by a single space, or by nothing in scripts that write no spaces.
    """
    frame = tokens.frame
    if not isinstance(frame, WordFrame):
        raise InputError("these tokens were made by another kind of model; use this model's tokenize()")
    check_queries(tokens, queries)
    segments = tokens.segments.tolist()
    positions, offsets = queries.positions.tolist(), queries.offsets.tolist()
    rows = [positions[low:high] for low, high in pairwise(offsets)]
    one = _writer(tokens.strings, segments, _gaps(tokens, frame))
    if len(frame.texts) == 1:
        return [one(row) for row in rows]
    return [
        tuple(
            one([i for i in row if segments[i] == side]) if side in frame.sides else text
            for side, text in enumerate(frame.texts)
        )
        for row in rows
    ]


def _gaps(tokens: Tokens, frame: WordFrame) -> list[tuple[str, str]]:
    """What stands between each word and the one before it, or the start of its text; and behind it."""
    gaps: list[tuple[str, str]] = []
    _, starts = join_texts(frame.texts)
    for side in frame.sides:
        part, places = frame.texts[side], tokens.spans[tokens.segments == side] - starts[side]
        borders = [0, *places.ravel().tolist(), len(part)]
        between = [part[low:high] for low, high in zip(borders[::2], borders[1::2], strict=True)]
        gaps += pairwise(between)
    return gaps


def _writer(
    strings: tuple[str, ...], segments: list[int], gaps: list[tuple[str, str]]
) -> Callable[[list[int]], str]:
    borders = [i for i in range(1, len(segments)) if segments[i] != segments[i - 1]]
    first, last = {0, *borders}, {*(i - 1 for i in borders), len(segments) - 1}

    def between(left: int, right: int) -> str:
        if right == left + 1:
            return gaps[left][1]
        return "" if is_unspaced(strings[left][-1]) and is_unspaced(strings[right][0]) else " "

    def one(row: list[int]) -> str:
        if not row:
            return ""
        parts = [gaps[row[0]][0] if row[0] in first else "", strings[row[0]]]
        for left, right in pairwise(row):
            parts += [between(left, right), strings[right]]
        return "".join([*parts, gaps[row[-1]][1] if row[-1] in last else ""])

    return one
