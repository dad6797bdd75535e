"""Texts: what counts as one, its words, tokens as a person reads them, and queries as texts again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import cast

import numpy as np

from slalom.errors import InputError
from slalom.models.protocol import Explain, Span, Text, Tokenizer
from slalom.perturb import Perturbations
from slalom.tokens import IntArray, Tokens

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
    parts = cast(tuple[object, ...], text if isinstance(text, tuple) else (text,))
    texts = tuple(part for part in parts if isinstance(part, str))
    if (pair and len(parts) != 2) or len(texts) < len(parts):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise InputError(f"a text must be a str or a pair of str; got {f'({kinds})' if pair else kinds}")
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


def first_visible(text: str, span: Span) -> int:
    """Where a span begins without the blanks before it."""
    low, high = span
    visible = text[low:high].lstrip()
    return high - len(visible) if visible else low


def join_texts(texts: tuple[str, ...]) -> tuple[str, list[int]]:
    """A pair as one text, and where each of its texts starts there."""
    starts = [0] if len(texts) == 1 else [0, len(texts[0]) + 1]
    return "\n".join(texts), starts


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


def check_queries(tokens: Tokens, queries: Perturbations) -> None:
    """Refuses queries that are not about these tokens."""
    positions, n = queries.positions, len(tokens)
    if queries.size != n or (len(positions) and (positions.min() < 0 or positions.max() >= n)):
        raise InputError(f"the queries are about a text of {queries.size} tokens, this text has {n}")


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


_METASPACE = "▁"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Readable:
    """Strings and places of the tokens of one text."""

    strings: list[str]
    spans: list[Span]
    """In order and without overlap; empty for a further piece of a character that several tokens share."""
    origins: list[Span]
    """The characters each token was made from; those of neighbours may overlap."""


def readable(tokenizer: Tokenizer, text: str, ids: Iterable[int], spans: Sequence[Span]) -> Readable:
    """The tokens of a text; `spans` are the offsets the tokenizer reports."""
    pieces = tokenizer.convert_ids_to_tokens([int(i) for i in ids])
    strings: list[str] = []
    places: list[Span] = []
    origins: list[Span] = []
    reached = 0
    for piece, span in zip(pieces, spans, strict=True):
        low, high = origin = _visible(text, span, piece)
        place = max(low, reached), max(high, reached, low)
        reached = place[1]
        origins.append(origin)
        places.append(place)
        shown = place if place[0] < place[1] else origin
        strings.append(text[slice(*shown)] or _decoded(tokenizer, piece))
    return Readable(strings, places, origins)


def _visible(text: str, span: Span, piece: str) -> Span:
    """The span without the blanks that some tokenizers count to the word behind them.

    A token that only marks the start of a word, made from no character or from the space before the
    word, has an empty span there. Other blanks (line breaks, several spaces) are tokens like any other.
    """
    low, high = span
    inside = text[low:high]
    if inside == " " and text[high : high + 1].strip():
        return high, high
    if not inside.strip():
        return low, high
    if not piece.strip(_METASPACE):
        return low, low
    return low + len(inside) - len(inside.lstrip()), high - len(inside) + len(inside.rstrip())


def _decoded(tokenizer: Tokenizer, piece: str) -> str:
    text = tokenizer.convert_tokens_to_string([piece])
    return text if text.strip() and _REPLACEMENT not in text else piece


def align(text: str, decoded: Sequence[str]) -> list[Span]:
    """Where tokens stand in their text, by searching for them one after the other.

    Tokens that are not found (unknown ones, bytes of a character) share what lies between those found.
    """
    spans: list[Span] = []
    folded, reached = _folded(text), 0
    waiting = 0
    for token in decoded:
        wanted = _folded(token.strip() or token)
        window = reached + len(wanted) + _LOOKAHEAD * (1 + waiting)
        at = folded.find(wanted, reached, window) if wanted else -1
        if at < 0:
            waiting += 1
            continue
        spans += [(reached, at)] * waiting
        reached, waiting = at + len(wanted), 0
        spans.append((at, reached))
    return spans + [(reached, len(text))] * waiting


_LOOKAHEAD = 64
"""How far behind the last token found the next one is looked for."""


def _folded(text: str) -> str:
    """Lower case, character by character, so that offsets stay."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
