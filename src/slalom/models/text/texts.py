"""What counts as a text, and the words it is made of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from slalom.errors import InputError
from slalom.models.protocol import Explain, Span, Text
from slalom.tokens import IntArray

_PART = 2**20
"""Characters that are checked at once, so that a long text need not be copied."""

# One letter for the kind of each character: s space, c a character of a script without spaces, d digit,
# w other letter, j joins words, n joins numbers, x extends what stands before it, p anything else.
_WORD = re.compile(r"cx*|[wd][wdx]*(?:(?:j(?=[wd])|(?<=d)n(?=d))[wd][wdx]*)*|[pjnx]x*")
_JOINERS = frozenset("'’‘-‐‑")
_NUMBER_JOINERS = frozenset(".,")
# Ideographs, kana and their extensions; Thai, Lao, Khmer and Burmese runs stay whole.
_UNSPACED = ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    code = ord(character)
    if character.isspace():
        return "s"
    if 0x20000 <= code <= 0x3FFFF or any(low <= code <= high for low, high in _UNSPACED):
        return "c"
    if character in _JOINERS:
        return "j"
    if character in _NUMBER_JOINERS:
        return "n"
    category = unicodedata.category(character)
    if category == "Nd":
        return "d"
    if category[0] in "LN" or category == "Pc":
        return "w"
    return "x" if category[0] == "M" or category in ("Cf", "Sk") else "p"


def is_unspaced(character: str) -> bool:
    """Whether the character belongs to a script that writes no spaces between words."""
    return _kind(character) == "c"


def split_words(text: str) -> list[Span]:
    """Where the words of a text stand.

    A word keeps its inner apostrophes, hyphens and decimal points (`don't`, `well-made`, `3.5`); every
    other mark is a word of its own, and so is every character of a script without spaces.
    """
    kinds = "".join(map(_kind, text))
    return [match.span() for match in _WORD.finditer(kinds)]


def word_numbers(text: str, spans: Sequence[Span]) -> IntArray:
    """The word each token belongs to, from the tokens' places; words that share a token are one word."""
    at = _word_at(text)
    numbers = np.empty(len(spans), np.int64)
    word, reach = -1, -1
    for i, (low, high) in enumerate(spans):
        first, last = _range(at, low, high)
        if first > reach:
            word += 1
        numbers[i], reach = word, max(reach, last)
    return numbers


def _word_at(text: str) -> IntArray:
    """The number of the word or of the run of spaces that every character belongs to."""
    change = np.zeros(len(text) + 1, np.int64)
    for low, high in split_words(text):
        change[low], change[high] = 1, 1
    return np.cumsum(change[:-1])


def _range(at: IntArray, low: int, high: int) -> Span:
    if len(at) == 0:
        return 0, 0
    low = min(low, len(at) - 1)
    return int(at[low]), int(at[max(low, min(high, len(at)) - 1)])


def check_text(text: Text, explain: Explain) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The text or both texts of a pair, and which of them are explained; refuses what cannot be read."""
    if explain not in ("both", "first", "second"):
        raise InputError(f"side must be 'both', 'first' or 'second'; got {explain!r}")
    pair = isinstance(text, tuple)
    texts = text if isinstance(text, tuple) else (text,)
    if (pair and len(texts) != 2) or not all(isinstance(part, str) for part in texts):
        given = ", ".join(type(part).__name__ for part in texts)
        raise InputError(f"a text must be a str or a pair of str; got {f'({given})' if pair else given}")
    if not pair and explain != "both":
        raise InputError(f"side={explain!r} needs a pair of texts; got a single text")
    sides = {"both": tuple(range(len(texts))), "first": (0,), "second": (1,)}[explain]
    for part in texts:
        _check_unicode(part)
    if any(not texts[side] or texts[side].isspace() for side in sides):
        raise InputError(f"the text to explain is empty or blank: {text!r:.60}")
    return texts, sides


def _check_unicode(text: str) -> None:
    for start in range(0, len(text), _PART):
        try:
            text[start : start + _PART].encode("utf-8")
        except UnicodeEncodeError as error:
            place = start + error.start
            raise InputError(
                f"the text is not valid Unicode at character {place} ({text[place]!r}); "
                "decode the bytes with the encoding they were written in"
            ) from error


def join_texts(texts: tuple[str, ...]) -> tuple[str, list[int]]:
    """A pair as one text, and where each of its texts starts there."""
    starts = [0] if len(texts) == 1 else [0, len(texts[0]) + 1]
    return "\n".join(texts), starts
