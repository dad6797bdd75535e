"""From a text to Tokens with a tokenizer, and from queries to the id sequences that a model takes.

What is explained stands in slots; all else that the model reads is the fixed frame around them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models.protocol import Explain, Span, Text, Tokenizer
from slalom.models.text import (
    align,
    check_queries,
    check_text,
    first_visible,
    join_texts,
    readable,
    word_numbers,
)
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, IntArray, Tokens

Three = tuple[IntArray, IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class Frame:
    """Fixed ids, slot of the first text, fixed ids, slot of the second text, fixed ids.

    Fixed are special tokens and, in a pair of which one text is explained, the other text.
    """

    fixed: Three
    fixed_types: Three
    """The token types of the fixed ids."""
    slot_types: tuple[int, int]
    """The token type of what stands in each slot."""
    limit: int | None = None
    """The longest sequence the model takes."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Ragged id sequences: number r is `ids[offsets[r]:offsets[r + 1]]`."""

    ids: IntArray
    types: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: IntArray) -> Sequences:
        lengths = self.lengths[rows]
        index = _ranges(self.offsets[rows], lengths)
        return Sequences(self.ids[index], self.types[index], np.r_[0, np.cumsum(lengths)])

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)


def joined(parts: list[Sequences]) -> Sequences:
    """The sequences of all parts, one after the other."""
    lengths = np.concatenate([part.lengths for part in parts])
    ids, types = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "types"))
    return Sequences(ids, types, np.r_[0, np.cumsum(lengths)])


def assemble(tokens: Tokens, queries: Perturbations) -> Sequences:
    """The id sequence of every query: its tokens in their order there, each in the slot of its text."""
    frame = frame_of(tokens)
    check_queries(tokens, queries)
    sizes = _sizes(tokens)
    layout = _laid_out(tokens, queries, sizes)
    offsets, slots, target = layout.offsets, layout.slots, layout.target
    size = sizes[queries.positions]
    pieces = np.fromiter(chain.from_iterable(tokens.pieces), np.int64)
    ids, types = np.empty((2, offsets[-1]), np.int64)
    ids[target] = pieces[_ranges((np.cumsum(sizes) - sizes)[queries.positions], size)]
    segment = tokens.segments[queries.positions]
    types[target] = np.repeat(np.array(frame.slot_types)[segment], size)
    _, between, after = (len(part) for part in frame.fixed)
    for part, kind, at in zip(
        frame.fixed, frame.fixed_types, (offsets[:-1], slots[1] - between, offsets[1:] - after), strict=True
    ):
        where = at[:, None] + np.arange(len(part))
        ids[where], types[where] = part, kind
    sequences = Sequences(ids, types, offsets)
    _check_lengths(sequences.lengths, frame.limit)
    return sequences


def per_entry(tokens: Tokens, queries: Perturbations, numbers: FloatArray) -> FloatArray:
    """Numbers of the ids of `assemble`, summed over the pieces of each entry of `queries.positions`."""
    sizes = _sizes(tokens)
    entry = np.repeat(np.arange(len(queries.positions)), sizes[queries.positions])
    every = numbers[_laid_out(tokens, queries, sizes).target]
    return np.bincount(entry, every, minlength=len(queries.positions)).astype(float)


@dataclass(frozen=True, eq=False)
class _Layout:
    offsets: IntArray
    slots: IntArray
    """(2, N) where the slots of both texts begin."""
    target: IntArray
    """Where the pieces of every entry of every query go, one after the other."""


def _sizes(tokens: Tokens) -> IntArray:
    return np.fromiter(map(len, tokens.pieces), np.int64, len(tokens))


def _laid_out(tokens: Tokens, queries: Perturbations, sizes: IntArray) -> _Layout:
    rows, segment = queries.rows, tokens.segments[queries.positions]
    size = sizes[queries.positions]

    # Running lengths of the first and of the second text's tokens over all entries of all queries.
    running = np.zeros((2, len(size) + 1), np.int64)
    for text in (0, 1):
        np.cumsum(size * (segment == text), out=running[text, 1:])
    begin, end = running[:, queries.offsets[:-1]], running[:, queries.offsets[1:]]
    before, between, after = (len(part) for part in frame_of(tokens).fixed)
    lengths = end - begin
    offsets = np.r_[0, np.cumsum(lengths.sum(axis=0) + before + between + after)]
    slots = np.stack([offsets[:-1] + before, offsets[:-1] + before + lengths[0] + between])

    start = slots[segment, rows] + running[segment, np.arange(len(size))] - begin[segment, rows]
    return _Layout(offsets, slots, _ranges(start, size))


def _ranges(starts: IntArray, sizes: IntArray) -> IntArray:
    """start, start + 1, … of every range, one after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)


def frame_of(tokens: Tokens) -> Frame:
    """What is fixed around the tokens of a model with ids."""
    if not isinstance(tokens.frame, Frame):
        raise InputError("these tokens were made by another kind of model; use this model's tokenize()")
    return tokens.frame


def _check_lengths(lengths: IntArray, limit: int | None) -> None:
    if len(lengths) == 0:
        return
    if lengths.min() == 0:
        raise InputError(
            "an empty query cannot be asked: this model's tokenizer adds no special tokens, so nothing "
            "would be left to read; ask with at least one token"
        )
    if limit is not None and lengths.max() > limit:
        raise InputError(f"a query has {lengths.max()} tokens with special tokens; the model takes {limit}")


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
            ends[side] = first_visible(texts[side], encoded.spans[int(dropped[0])])
    parts: list[str] = []
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


UNLIMITED = 10**9
"""Tokenizers without a limit carry an absurdly large one."""
_READ = 100_000
"""Characters of a text that are read to begin with, where the model has a limit."""
_PER_TOKEN = 16
"""And this many for every token that the model takes."""


def tokenizer_limit(tokenizer: Tokenizer) -> int | None:
    """The longest input the tokenizer declares, if it declares one."""
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit is not None and 0 < limit < UNLIMITED else None


def encode(tokenizer: Tokenizer, text: Text, explain: Explain = "both", limit: int | None = None) -> Tokens:
    """The tokens to explain, with everything else the model reads as their frame."""
    whole, sides = check_text(text, explain)
    texts, encoded = _read(tokenizer, whole, limit)
    return tokens_of(tokenizer, encoded, texts, sides, limit, [len(part) for part in whole])


def tokens_of(
    tokenizer: Tokenizer,
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
        shown = readable(tokenizer, texts[side], encoded.ids[places], [encoded.spans[i] for i in places])
        strings += shown.strings
        spans += [(low + starts[side], high + starts[side]) for low, high in shown.spans]
        words += (word_numbers(texts[side], shown.origins) + (words[-1] + 1 if words else 0)).tolist()
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


def _unknown(tokenizer: Tokenizer, ids: IntArray) -> tuple[int, ...]:
    """Where the tokenizer had no token for what stands there."""
    one = getattr(tokenizer, "unk_token_id", None)
    return () if one is None else tuple(np.flatnonzero(ids == one).tolist())


def _read(tokenizer: Tokenizer, texts: tuple[str, ...], limit: int | None) -> tuple[tuple[str, ...], Encoded]:
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


def _encode_fast(tokenizer: Tokenizer, texts: tuple[str, ...]) -> Encoded:
    encoding = tokenizer(*texts, truncation=False, padding=False, return_offsets_mapping=True, verbose=False)
    owner = [-1 if side is None else side for side in encoding.sequence_ids(0)]
    types = encoding.get("token_type_ids")
    return _encoded(encoding["input_ids"], types, owner, encoding["offset_mapping"])


def _encode_slow(tokenizer: Tokenizer, texts: tuple[str, ...]) -> Encoded:
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
    ids, types = (_around(numbers, first, second) for numbers in (encoded.ids, encoded.types))
    return Frame(ids, types, (slots[0], slots[1]), limit)


def _around(array: IntArray, first: Span, second: Span) -> Three:
    return array[: first[0]], array[first[1] : second[0]], array[second[1] :]


def _slot(places: IntArray | None) -> Span | None:
    return None if places is None or len(places) == 0 else (int(places[0]), int(places[-1]) + 1)
