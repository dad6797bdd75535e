"""What gets a score: tokens, words, sentences, paragraphs, lines, or stretches that the caller names.

A unit is a run of neighbouring tokens, so all that is needed is a number for every token: `Tokens.grouped`
joins those of one number, and a joined token stays or goes as a whole in every query of every method. Words
are another matter: they are small, so the queries and the fit stay with the tokens, and words are read off
the same fit (`Slalom.grouped` is exact).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Literal, cast

import numpy as np

from slalom.checks import shown
from slalom.errors import InputError
from slalom.tokens import IntArray, Tokens

Span = tuple[int, int]
UnitName = Literal["tokens", "words", "sentences", "paragraphs", "lines"]
Units = UnitName | Sequence[Span]

NAMES: tuple[UnitName, ...] = ("tokens", "words", "sentences", "paragraphs", "lines")
SPANS = "spans"
"""What units are called that the caller named by their places."""


def check_units(units: object) -> Units:
    """One of the names, or pairs of offsets in ascending order that do not overlap."""
    if isinstance(units, str):
        if units not in NAMES:
            names = ", ".join(NAMES)
            raise InputError(f"units must be one of {names}, or a list of (start, end); got {shown(units)}")
        return units
    try:
        pairs = [tuple(pair) for pair in cast("Iterable[Iterable[int]]", units)]
    except TypeError:
        pairs = []
    if not pairs or not all(len(pair) == 2 and all(map(_is_whole, pair)) for pair in pairs):
        names = ", ".join(NAMES)
        raise InputError(f"units must be one of {names}, or a list of (start, end); got {shown(units)}")
    flat = [int(place) for pair in pairs for place in pair]
    if flat[0] < 0 or any(low >= high for low, high in pairs) or flat != sorted(flat):
        raise InputError(
            f"spans must be (start, end) with start < end, one behind the other; got {shown(units)}"
        )
    return tuple((int(low), int(high)) for low, high in pairs)


def _is_whole(thing: object) -> bool:
    return not isinstance(thing, bool) and isinstance(thing, Integral)


def name_of(units: Units) -> str:
    """What the units are called."""
    return units if isinstance(units, str) else SPANS


def whole_units(units: Units) -> bool:
    """Whether the queries keep or remove units as a whole; words are read off a fit of tokens."""
    return units not in ("tokens", "words")


def numbers(tokens: Tokens, units: Units) -> IntArray:
    """(n,) the unit of every token. What lies between spans that were given is a unit of its own."""
    if units == "tokens":
        return np.arange(len(tokens))
    if units == "words":
        return tokens.words
    starts = boundaries(tokens.text, units)
    return np.searchsorted(np.array(starts), [_first(tokens, i) for i in range(len(tokens))], "right")


def grouped(tokens: Tokens, units: Units) -> Tokens:
    """The same text with every unit as one token."""
    return tokens.grouped(numbers(tokens, units))


def boundaries(text: str, units: Units) -> list[int]:
    """Where units begin, other than words and tokens."""
    if not isinstance(units, str):
        if units[-1][1] > len(text):
            raise InputError(f"the span {units[-1]} ends beyond the text, which has {len(text)} characters")
        return sorted({place for span in units for place in span})
    find = {"sentences": sentences, "paragraphs": paragraphs, "lines": lines}[units]
    return [low for low, _ in find(text)]


def _first(tokens: Tokens, place: int) -> int:
    """Where a token's first letter stands; some tokenizers count the blank before a word to the word."""
    low, high = tokens.spans[place].tolist()
    return next((i for i in range(low, high) if not tokens.text[i].isspace()), low)


_BREAK = r"(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]|<br\s*/?>)"
_LINE = re.compile(_BREAK)
_PARAGRAPH = re.compile(rf"{_BREAK}(?:[^\S\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*{_BREAK})+|\u2029")


def lines(text: str) -> list[Span]:
    """The lines that hold more than blanks; HTML's <br> breaks a line, too."""
    return _between(text, _LINE)


def paragraphs(text: str) -> list[Span]:
    """What stands between blank lines."""
    return _between(text, _PARAGRAPH)


def _between(text: str, mark: re.Pattern[str]) -> list[Span]:
    ends = [0, *(place for found in mark.finditer(text) for place in found.span()), len(text)]
    return _trimmed(text, [(ends[i], ends[i + 1]) for i in range(0, len(ends), 2)])


def _trimmed(text: str, spans: list[Span]) -> list[Span]:
    """Without blanks at both ends; blank spans go."""
    kept: list[Span] = []
    for low, high in spans:
        inside = text[low:high]
        left = low + len(inside) - len(inside.lstrip())
        if inside.strip():
            kept.append((left, left + len(inside.strip())))
    return kept


# A mark that can end a sentence, what closes behind it, and emoji that comment on it.
_UNSPACED = "。！？｡．"
_ALWAYS = "؟۔।॥።։။។"
_LATIN = ".!?…‼⁇⁈⁉"
_CLOSING = "\"'”’»›)]}」』】》〉）］｝"
_EMOJI = "\u2600-\u27bf\u2b50\u2b55\u2764\ufe0f\u200d\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"
_END = re.compile(
    rf"(?P<mark>[{_LATIN}{_ALWAYS}{_UNSPACED}]+)(?P<closing>[{re.escape(_CLOSING)}]*)(?:[^\S\r\n]*[{_EMOJI}]+)*"
)
_BEFORE = re.compile(r"[^\s\"'“‘«(\[{]*$")
_REACH = 40
"""Characters before a dot that are looked at for an abbreviation, and behind it for a capital."""

_NEVER = (
    " mr mrs ms mx dr prof st mme mlle messrs rev hon gen col capt lt sgt maj cmdr gov sen rep pres e.g i.e "
    "eg ie cf vs approx fig figs vol vols eq sec ch pp ca resp bzw vgl z.b d.h u.a bspw sog evtl "
)
"""After these a sentence goes on."""
_SOMETIMES = (
    " etc inc ltd co corp jr sr bros al dept est a.m p.m u.s u.k u.n d.c ph.d m.d b.a m.a jan feb mar apr "
    "jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun usw "
)
"""After these it goes on where a small letter or a number follows."""
_BEFORE_NUMBER = ("no", "nr", "nos", "p", "art")
"""And after these before a number."""


def sentences(text: str) -> list[Span]:
    """The sentences of a text, by rules: marks of many scripts, abbreviations, initials, quotes, breaks."""
    found: list[Span] = []
    for low, high in paragraphs(text):
        ends = [low]
        for end in _END.finditer(text, low, high):
            if _is_end(text, end, ends[-1], high):
                ends.append(end.end())
        found += pairwise([*ends, high])
    return _trimmed(text, found)


def _is_end(text: str, end: re.Match[str], start: int, last: int) -> bool:
    """Whether a sentence that began at `start` ends here."""
    mark, after = end["mark"], end.end()
    if after >= last:
        return True
    if mark[-1] in _UNSPACED:  # a quote that goes on in its sentence does not end it
        return not end["closing"] or text[after].isspace() or text[after] in "「『“‘（"
    if mark[-1] in _ALWAYS:
        return True
    following = text[after : min(last, after + _REACH)].lstrip()
    if not text[after].isspace() and end.end() == end.end("closing"):
        return False  # a number, an address, a word with a dot inside
    if following[:1].islower() and (end["closing"] or mark[-2:] == ".." or mark[-1] == "…"):
        return False  # “Really?” he asked … and went on
    return mark != "." or not _abbreviated(text, start, end.start(), following)


def _abbreviated(text: str, start: int, dot: int, following: str) -> bool:
    """Whether the dot belongs to what stands before it: an abbreviation, an initial, a number of a list."""
    found = _BEFORE.search(text[max(start, dot - _REACH) : dot])
    word = found[0] if found else ""
    small = word.lower()
    if f" {small} " in _NEVER:
        return True
    if f" {small} " in _SOMETIMES:
        return following[:1].islower() or following[:1].isdigit()
    if small in _BEFORE_NUMBER:
        return following[:1].isdigit()
    if word.isdigit():
        return not text[start : dot - len(word)].strip()
    return _initials(word)


def _initials(word: str) -> bool:
    """J, or J.R; but "I" is a word."""
    letters = word.split(".")
    return word != "I" and all(len(letter) == 1 and letter.isupper() for letter in letters)


def is_punctuation(string: str) -> bool:
    """Whether nothing but punctuation stands there; emoji and signs of money are none."""
    marks = string.strip()
    return bool(marks) and all(unicodedata.category(mark)[0] == "P" for mark in marks)
