"""From a text to Tokens with a tokenizer: what is explained, what stands around it, what is left out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models.protocol import Text
from slalom.models.text.template import Frame, Three
from slalom.models.text.texts import Explain, Span, check_text, join_texts, word_numbers
from slalom.models.text.token_strings import align, readable
from slalom.tokens import IntArray, Tokens


@dataclass(frozen=True, eq=False)
class Encoded:
    """The model's whole input for a text: ids, token types, whose they are and where they come from."""

    ids: IntArray
    types: IntArray
    owner: IntArray
    """0 and 1 for tokens of the first and second text, -1 for special tokens."""
    spans: list[Span]
    """Offsets into the text the token belongs to."""


def cut_to(
    limit: int | None, encoded: Encoded, texts: tuple[str, ...], lengths: Sequence[int]
) -> tuple[Encoded, int | None]:
    """The input shortened to the limit, with a warning, and the offset of the first character left out.

    A text is cut at its end; in a pair the longer text is cut, and the shorter one too once both are
    down to half of the room. `lengths` are those of the texts that were given, of which `texts` were read.
    """
    if limit is None or len(encoded.ids) <= limit:
        return encoded, None
    counts = [int(np.sum(encoded.owner == side)) for side in range(len(texts))]
    special = len(encoded.ids) - sum(counts)
    room = limit - special
    if room < len(texts):
        raise ModelError(
            f"the model takes {limit} tokens, of which {special} are special: no room for a text"
        )
    kept = _share(counts, room)
    keep = np.ones(len(encoded.ids), bool)
    ends: dict[int, int] = {}
    for side, count in enumerate(kept):
        dropped = np.flatnonzero(encoded.owner == side)[count:]
        if len(dropped):
            keep[dropped] = False
            ends[side] = _first_visible(texts[side], encoded.spans[dropped[0]])
    parts = []
    for side, end in ends.items():
        name = "the text" if len(texts) == 1 else ("the first text", "the second text")[side]
        count = f"{'more than ' if lengths[side] > len(texts[side]) else ''}{counts[side]}"
        used = f"the first {kept[side]} ({end} of {lengths[side]} characters)"
        parts.append(f"{name} has {count} tokens, only {used} are used")
    message = f"{'; '.join(parts)}: the model takes {limit} tokens, {special} of them special tokens"
    warnings.warn(message, SlalomWarning, stacklevel=5)
    spans = [span for span, stays in zip(encoded.spans, keep, strict=True) if stays]
    start = join_texts(texts)[1]
    shorter = Encoded(encoded.ids[keep], encoded.types[keep], encoded.owner[keep], spans)
    return shorter, min(start[side] + end for side, end in ends.items())


def _share(counts: list[int], room: int) -> list[int]:
    """How many tokens each text keeps."""
    if len(counts) == 1:
        return [room]
    longer = int(counts[1] > counts[0])
    keep = max(room - counts[1 - longer], (room + 1) // 2)
    return [keep, room - keep] if longer == 0 else [room - keep, keep]


def _first_visible(text: str, span: Span) -> int:
    low, high = span
    visible = text[low:high].lstrip()
    return high - len(visible) if visible else low


UNLIMITED = 10**9
"""Tokenizers without a limit carry an absurdly large one."""
_READ = 100_000
"""Characters of a text that are read to begin with, where the model has a limit."""
_PER_TOKEN = 16
"""And this many for every token that the model takes."""


def tokenizer_limit(tokenizer: Any) -> int | None:
    """The longest input the tokenizer declares, if it declares one."""
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit is not None and 0 < limit < UNLIMITED else None


def encode(tokenizer: Any, text: Text, explain: Explain = "both", limit: int | None = None) -> Tokens:
    """The tokens to explain, with everything else the model reads as their frame."""
    given, sides = check_text(text, explain)
    texts, encoded = _read(tokenizer, given, limit)
    return tokens_of(tokenizer, encoded, texts, sides, limit, [len(one) for one in given])


def tokens_of(
    tokenizer: Any,
    encoded: Encoded,
    texts: tuple[str, ...],
    sides: tuple[int, ...],
    limit: int | None,
    lengths: list[int],
) -> Tokens:
    """The tokens of the texts that are explained; everything else that was encoded is their frame.

    `lengths` are those of the texts that were given, of which `texts` were read.
    """
    encoded, cut = cut_to(limit, encoded, texts, lengths)
    own = {side: np.flatnonzero(encoded.owner == side) for side in sides}
    if not any(len(places) for places in own.values()):
        raise InputError(f"the tokenizer finds no token in the text {texts[sides[0]]!r:.60}")
    joined, starts = join_texts(texts)
    strings: list[str] = []
    spans: list[Span] = []
    words: list[int] = []
    for side, places in own.items():
        found = readable(tokenizer, texts[side], encoded.ids[places], [encoded.spans[i] for i in places])
        strings += found.strings
        spans += [(low + starts[side], high + starts[side]) for low, high in found.spans]
        words += (word_numbers(texts[side], found.origins) + (words[-1] + 1 if words else 0)).tolist()
    explained = np.concatenate(list(own.values()))
    return Tokens(
        text=joined,
        strings=tuple(strings),
        spans=np.array(spans, np.int64),
        pieces=tuple((i,) for i in encoded.ids[explained].tolist()),
        words=np.array(words, np.int64),
        segments=encoded.owner[explained],
        frame=_frame(encoded, own, limit),
        cut=cut,
        unknown=_unknown(tokenizer, encoded.ids[explained]),
    )


def _unknown(tokenizer: Any, ids: IntArray) -> tuple[int, ...]:
    """Where the tokenizer had no token for what stands there."""
    one = getattr(tokenizer, "unk_token_id", None)
    return () if one is None else tuple(np.flatnonzero(ids == one).tolist())


def _read(tokenizer: Any, texts: tuple[str, ...], limit: int | None) -> tuple[tuple[str, ...], Encoded]:
    """So much of the texts as holds more tokens than the model takes, and their tokens.

    Of a text of many megabytes the rest would only cost time and memory. What is read goes so far beyond
    what is used that where it ends does not change the tokens before.
    """
    encode_texts = _encode_fast if tokenizer.is_fast else _encode_slow
    reach = max(map(len, texts)) if limit is None else max(_READ, _PER_TOKEN * limit)
    while True:
        parts = tuple(text[:reach] for text in texts)
        encoded = encode_texts(tokenizer, parts)
        cut = (side for side, text in enumerate(texts) if len(text) > reach)
        if limit is None or all(int(np.sum(encoded.owner == side)) >= 2 * limit for side in cut):
            return parts, encoded
        reach *= 4


def _encode_fast(tokenizer: Any, texts: tuple[str, ...]) -> Encoded:
    encoding = tokenizer(*texts, truncation=False, padding=False, return_offsets_mapping=True, verbose=False)
    owner = [-1 if side is None else side for side in encoding.sequence_ids(0)]
    types = encoding.get("token_type_ids")
    return _encoded(encoding["input_ids"], types, owner, encoding["offset_mapping"])


def _encode_slow(tokenizer: Any, texts: tuple[str, ...]) -> Encoded:
    """A tokenizer in Python reports no places: find each text's ids in the whole, its tokens in the text."""
    encoding = tokenizer(*texts, truncation=False, padding=False, verbose=False)
    ids = list(encoding["input_ids"])
    owner, spans, start = [-1] * len(ids), [(0, 0)] * len(ids), 0
    for side, text in enumerate(texts):
        own = list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        at = next((i for i in range(start, len(ids)) if ids[i : i + len(own)] == own), None)
        if at is None:
            raise ModelError(f"{type(tokenizer).__name__} does not keep the tokens of a text together")
        start = at + len(own)
        owner[at:start] = [side] * len(own)
        spans[at:start] = align(text, [tokenizer.decode([i]) for i in own])
    return _encoded(ids, encoding.get("token_type_ids"), owner, spans)


def _encoded(ids: list[int], types: list[int] | None, owner: list[int], spans: list[Span]) -> Encoded:
    types = [0] * len(ids) if types is None else types
    return Encoded(np.array(ids, np.int64), np.array(types, np.int64), np.array(owner, np.int64), list(spans))


def _frame(encoded: Encoded, own: dict[int, IntArray], limit: int | None) -> Frame:
    """Everything around the explained tokens; where the slots are is found, not assumed."""
    first, second = (_slot(own.get(side)) for side in (0, 1))
    if first is None and second is not None:
        first = (second[0], second[0])
    first = first or (0, 0)
    second = second or (len(encoded.ids), len(encoded.ids))
    if first[1] > second[0]:
        raise ModelError("the tokenizer puts the second text of a pair before the first; not supported")
    slots = [int(encoded.types[low]) if low < high else 0 for low, high in (first, second)]
    return Frame(
        _around(encoded.ids, first, second),
        _around(encoded.types, first, second),
        (slots[0], slots[1]),
        limit,
    )


def _around(array: IntArray, first: Span, second: Span) -> Three:
    return array[: first[0]], array[first[1] : second[0]], array[second[1] :]


def _slot(places: IntArray | None) -> Span | None:
    return None if places is None or len(places) == 0 else (int(places[0]), int(places[-1]) + 1)
