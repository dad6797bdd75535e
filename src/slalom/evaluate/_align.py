"""From the words that annotators saw to the tokens that a model reads, by character spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slalom.evaluate.protocol import NotApplicable
from slalom.tokens import IntArray, Tokens


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which tokens are judged, and the annotators' word that each of them belongs to."""

    positions: IntArray
    words: IntArray
    aligned: float
    """Share of the words with a letter or digit that have such a token: the model may have cut the text."""


def align(tokens: Tokens, words: Sequence[str]) -> Alignment:
    """Each token with a letter or digit belongs to the word that it shares most characters with.

    Tokens without one (punctuation) and tokens outside all words are dropped.
    """
    spans = _find(tokens.text, words)
    starts, ends = spans[:, 0], spans[:, 1]
    positions, owners = [], []
    for position, (low, high) in enumerate(tokens.spans.tolist()):
        if not _says(tokens.text[low:high]):
            continue
        shared = np.minimum(ends, high) - np.maximum(starts, low)
        if shared.size and shared.max() > 0:
            positions.append(position)
            owners.append(int(shared.argmax()))
    saying = {number for number, word in enumerate(words) if _says(word)}
    if not positions or not saying:
        raise NotApplicable("no token of the text belongs to an annotated word")
    share = len(saying & set(owners)) / len(saying)
    return Alignment(np.array(positions, np.int64), np.array(owners, np.int64), share)


def runs(marks: np.ndarray) -> list[tuple[int, int]]:
    """The [start, end) of every run of marked places."""
    edges = np.flatnonzero(np.diff(np.r_[0, np.asarray(marks, dtype=np.int8), 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _find(text: str, words: Sequence[str]) -> IntArray:
    """(W, 2) where the words stand in the text, one after the other; (0, 0) for one that does not."""
    spans, place = np.zeros((len(words), 2), np.int64), 0
    for number, word in enumerate(words):
        at = text.find(word, place) if word else -1
        if at >= 0:
            place = at + len(word)
            spans[number] = at, place
    return spans


def _says(text: str) -> bool:
    return any(character.isalnum() for character in text)
