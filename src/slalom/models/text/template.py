"""The fixed part of a model's input, and the id sequences that queries become in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from slalom.errors import InputError
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
    frame = _frame_of(tokens, queries)
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
    given = numbers[_laid_out(tokens, queries, sizes).target]
    return np.bincount(entry, given, minlength=len(queries.positions)).astype(float)


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
    before, between, after = (len(part) for part in tokens.frame.fixed)
    lengths = end - begin
    offsets = np.r_[0, np.cumsum(lengths.sum(axis=0) + before + between + after)]
    slots = np.stack([offsets[:-1] + before, offsets[:-1] + before + lengths[0] + between])

    start = slots[segment, rows] + running[segment, np.arange(len(size))] - begin[segment, rows]
    return _Layout(offsets, slots, _ranges(start, size))


def _ranges(starts: IntArray, sizes: IntArray) -> IntArray:
    """start, start + 1, … of every range, one after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)


def _frame_of(tokens: Tokens, queries: Perturbations) -> Frame:
    if not isinstance(tokens.frame, Frame):
        raise InputError("these tokens were made by another kind of model; use this model's tokenize()")
    check_queries(tokens, queries)
    return tokens.frame


def check_queries(tokens: Tokens, queries: Perturbations) -> None:
    """Refuses queries that are not about these tokens."""
    positions, n = queries.positions, len(tokens)
    if queries.size != n or (len(positions) and (positions.min() < 0 or positions.max() >= n)):
        raise InputError(f"the queries are about a text of {queries.size} tokens, this text has {n}")


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
