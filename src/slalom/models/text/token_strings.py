"""Tokens as a person reads them: strings and places in the text, whatever the tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slalom.models.text.texts import Span

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


def readable(tokenizer: Any, text: str, ids: Iterable[int], spans: Sequence[Span]) -> Readable:
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


def _decoded(tokenizer: Any, piece: str) -> str:
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
