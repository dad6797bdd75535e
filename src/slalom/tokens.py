"""What an explanation is about: the tokens of one text, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from slalom.errors import InputError

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def frozen(array: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """A read-only copy of `array`."""
    result = np.array(array, dtype=dtype)
    result.flags.writeable = False
    return result


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of one text (or of a pair of texts) that take part in an explanation.

    A token is whatever can be left out on its own: a sub-token of the model, or a word (`joined()`). Special
    tokens and other fixed context are none; they stand in `frame`, which only the model that made it reads.
    """

    text: str
    """The text; of a pair, both texts with a line break between them."""
    strings: tuple[str, ...]
    """Each token as a person reads it."""
    spans: IntArray
    """(n, 2) character offsets into `text`."""
    pieces: tuple[tuple[int, ...], ...]
    """The model's ids of each token; one id for a sub-token, several for a word."""
    words: IntArray
    """(n,) which word of the text each token belongs to."""
    segments: IntArray
    """(n,) which text of a pair each token belongs to; all 0 for a single text."""
    frame: object = field(default=None, repr=False)
    cut: int | None = None
    """Offset of the first character beyond the model's limit; None where the whole text is explained."""
    unknown: tuple[int, ...] = ()
    """Positions of tokens that the model's vocabulary lacks; it reads all of them as one and the same."""

    def __post_init__(self) -> None:
        n = len(self.strings)
        for name in ("spans", "words", "segments"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))
        shapes = (self.spans.shape, (len(self.pieces),), self.words.shape, self.segments.shape)
        if shapes != ((n, 2), (n,), (n,), (n,)):
            raise ValueError(f"parts of Tokens differ in length: {n} strings, spans {self.spans.shape}")
        if any(not 0 <= i < n for i in self.unknown):
            raise ValueError(f"unknown tokens at {self.unknown}, but there are {n} tokens")

    def __len__(self) -> int:
        return len(self.strings)

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...

    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        """The token at a place, as a person reads it."""
        return self.strings[place]

    @cached_property
    def inverse(self) -> IntArray:
        """(n,) type of every position; types are numbered by first occurrence."""
        seen: dict[tuple[int, tuple[int, ...]], int] = {}
        keys = zip(self.segments.tolist(), self.pieces, strict=True)
        return frozen([seen.setdefault(key, len(seen)) for key in keys], np.int64)

    @cached_property
    def first(self) -> IntArray:
        """(d,) the first position of every type."""
        return frozen(np.unique(self.inverse, return_index=True)[1], np.int64)

    @property
    def n_types(self) -> int:
        return len(self.first)

    @property
    def types(self) -> tuple[str, ...]:
        """The distinct tokens as strings, in order of first occurrence."""
        return tuple(self.strings[int(i)] for i in self.first)

    def joined(self) -> Tokens:
        """The same text with the sub-tokens of each word joined into one token."""
        return self.grouped(self.words)

    def grouped(self, numbers: IntArray) -> Tokens:
        """The same text with neighbours of one number joined into one token: it stays or goes as a whole."""
        if len(self) == 0:
            return self
        starts = self.starts(numbers)
        ends = np.r_[starts[1:], len(self)]
        spans = np.stack([self.spans[starts, 0], self.spans[ends - 1, 1]], axis=1)
        joined = [
            self.text[lo:hi] or "".join(self.strings[a:b])
            for a, b, (lo, hi) in zip(starts, ends, spans, strict=True)
        ]
        pieces = [
            tuple(i for piece in self.pieces[a:b] for i in piece) for a, b in zip(starts, ends, strict=True)
        ]
        return replace(
            self,
            strings=tuple(joined),
            spans=spans,
            pieces=tuple(pieces),
            words=self.words[starts],
            segments=self.segments[starts],
            unknown=tuple(
                np.unique(np.searchsorted(starts, np.array(self.unknown, int), "right") - 1).tolist()
            ),
        )

    def starts(self, numbers: IntArray) -> IntArray:
        """Where neighbours of one number begin; the texts of a pair do not go together."""
        change = (np.diff(numbers) != 0) | (np.diff(self.segments) != 0)
        return np.r_[0, np.flatnonzero(change) + 1]


_MARKS = ("##", "Ġ", "▁", "Ċ", "</w>")
"""What tokenizers write into a token to say where it stands."""
_SPECIAL = re.compile(r"\[[A-Z0-9_]+\]|<\S+>")
"""Tokens that stand for something else than a part of the text."""


def carried_over(
    tokens: Tokens, strings: Sequence[str], scores: FloatArray, text: str | None = None
) -> FloatArray:
    """(n,) scores of other units of the same text, carried over to its tokens by their characters.

    A unit that covers several tokens is shared out evenly among them, several units in a token add up.
    `text` is the one that the units are of, where the tokens are of its beginning.
    """
    whole = tokens.text if text is None else text
    spans, result = find(whole, strings), np.zeros(len(tokens))
    check_found(whole, strings, spans)
    starts, ends = tokens.spans[:, 0], tokens.spans[:, 1]
    for (low, high), score in zip(spans.tolist(), scores.tolist(), strict=True):
        inside = np.flatnonzero((np.minimum(ends, high) - np.maximum(starts, low)) > 0)
        if len(inside):
            result[inside] += score / len(inside)
    return result


def find(text: str, strings: Sequence[str]) -> IntArray:
    """(N, 2) where strings stand in a text, one after the other, without marks; (0, 0): nowhere."""
    lowered = text.lower() if len(text.lower()) == len(text) else text
    spans, place = np.zeros((len(strings), 2), np.int64), 0
    for number, string in enumerate(strings):
        word = clean(string)
        at = text.find(word, place) if word else -1
        if at < 0 and word:
            at = lowered.find(word.lower(), place)
        if at >= 0:
            place = at + len(word)
            spans[number] = at, place
    return spans


def check_found(text: str, strings: Sequence[str], spans: IntArray) -> None:
    """Refuse units where most of them, special tokens apart, stand nowhere in the text."""
    there = spans[:, 1] > spans[:, 0]
    lost = [s for s, found in zip(strings, there, strict=True) if not found and clean(s) and not special(s)]
    if len(lost) > int(there.sum()) or not there.any():
        named = ", ".join(map(repr, lost[:3] or strings[:3]))
        raise InputError(
            f"most of the tokens do not stand in the text {text[:40]!r}, {named} among them; give the "
            "tokens of this text, in their order and as it writes them"
        )


def special(string: str) -> bool:
    """Whether a token looks like [CLS], <s> or <|endoftext|>."""
    return _SPECIAL.fullmatch(string.strip()) is not None


def clean(string: str) -> str:
    """A token without its tokenizer's marks and blanks."""
    for mark in _MARKS:
        string = string.replace(mark, "") if string != mark else string
    return string.strip()


def own_tokens(text: str, spans: IntArray) -> Tokens:
    """The tokens that stand at `spans`; equal strings are one type."""
    strings = tuple(text[low:high] for low, high in spans.tolist())
    types = {string: i for i, string in enumerate(dict.fromkeys(strings))}
    blank = np.array([i > 0 and spans[i, 0] > spans[i - 1, 1] for i in range(len(spans))], dtype=int)
    pieces = tuple((types[string],) for string in strings)
    return Tokens(text, strings, spans, pieces, np.cumsum(blank), np.zeros(len(spans), int))
