"""Models in torch: forward passes, gradients, attention weights, and cheaper engines.

What all of them share stands here: each distinct sequence is asked once, in batches of one length that fit a
token budget, which some calls take several of at once; and memory that is free goes back.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from slalom.errors import ModelError
from slalom.models.text.template import Sequences
from slalom.tokens import FloatArray, IntArray

BATCH_TOKENS = 4096
"""Tokens of a batch to begin with."""
MOST_TOKENS = 2**17
_WORTH = 1.25
"""Batches grow if the larger ones answer this much faster; below that the smaller ones save memory."""
_LOOKS = 2
"""Full batches of a size that are timed before it is judged; the first of all also warms the model up."""

Call = Callable[[IntArray, IntArray], FloatArray]
"""(B, L) ids and token types → (B, k) answers."""
Batch = tuple[IntArray, IntArray]
"""(B, L) ids and token types."""
Packed = Callable[[list[Batch]], list[FloatArray]]
"""Batches of several lengths → their answers."""


_log = logging.getLogger(__name__)


class OutOfMemory(ModelError):  # noqa: N818 - a signal between two modules, seen outside as a ModelError
    """A batch did not fit the model's memory."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether this is what a device says when its memory is full."""
    import torch

    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


class Pace:
    """How many tokens a batch of one model holds.

    Where it is not given, it is tuned on work that is to be done anyway: batches are doubled as long as that
    pays and they stay below `most`, and halved for good where one does not fit the memory.
    """

    def __init__(self, tokens: int | None = None, most: int = MOST_TOKENS):
        self.tokens = tokens or BATCH_TOKENS
        self._most = most
        self._settled = tokens is not None
        self._seconds: list[float] = []
        self._best = float("inf")

    def saw(self, tokens: int, seconds: float) -> None:
        """A batch of this many tokens took this long."""
        if self._settled or tokens <= 0.9 * self.tokens:
            return
        self._seconds.append(seconds / tokens)
        if len(self._seconds) < _LOOKS:
            return
        fastest, self._seconds = min(self._seconds), []
        if fastest * _WORTH > self._best:
            self.tokens //= 2
            self._settled = True
        elif 2 * self.tokens > self._most:
            self._settled = True
        else:
            self._best, self.tokens = fastest, 2 * self.tokens

    def too_large(self, fits: int) -> None:
        """A batch was too large for the memory; `fits` tokens may fit."""
        _log.info("a batch was too large for the memory: at most %d tokens from here on", fits)
        self.tokens, self._settled = fits, True


@dataclass(frozen=True, eq=False)
class PackedCall:
    """A call that takes batches of several lengths at once, too: small ones would not fill a processor."""

    one: Call
    packed: Packed

    def __call__(self, ids: IntArray, types: IntArray) -> FloatArray:
        return self.one(ids, types)


@dataclass(frozen=True, eq=False)
class Group:
    """The distinct sequences of one length, and which of them every query is."""

    ids: IntArray
    types: IntArray
    rows: IntArray
    """The queries of this length."""
    inverse: IntArray
    """For each of them, its row in `ids`."""


def groups(sequences: Sequences) -> Iterator[Group]:
    """The sequences by exact length, shortest first: within a group nothing is ever padded."""
    lengths = sequences.lengths
    order = np.argsort(lengths, kind="stable")
    borders = np.flatnonzero(np.diff(lengths[order])) + 1
    for rows in np.split(order, borders) if len(order) else []:
        where = sequences.offsets[rows][:, None] + np.arange(int(lengths[rows[0]]))
        ids, types = sequences.ids[where], sequences.types[where]
        first, inverse = _distinct(np.concatenate([ids, types], axis=1))
        yield Group(ids[first], types[first], rows, inverse)


def _distinct(matrix: IntArray) -> tuple[IntArray, IntArray]:
    """First occurrence of every distinct row, and the distinct row each row is."""
    matrix = np.ascontiguousarray(matrix)
    keys = matrix.view(np.dtype((np.void, matrix.itemsize * matrix.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse


def answer(sequences: Sequences, call: Call, pace: Pace | None = None, rows: int | None = None) -> FloatArray:
    """(N, k) answers in the order of the sequences.

    A batch holds at most as many ids as `pace` says and `rows` sequences, but at least one. Where one
    is too large for the memory, batches are halved from there on.
    """
    result = np.zeros((0, 0))
    for group, answers in answered(sequences, call, pace or Pace(), rows):
        if result.size == 0:
            result = np.empty((len(sequences), answers.shape[1]))
        if answers.shape[1] != result.shape[1]:
            raise ModelError(f"the model answered with {result.shape[1]} and with {answers.shape[1]} columns")
        result[group.rows] = answers[group.inverse]
    return result


def answered(
    sequences: Sequences, call: Call, pace: Pace, rows: int | None
) -> Iterator[tuple[Group, FloatArray]]:
    """The sequences of each length with the answers to the distinct ones, in batches as `answer` makes them.

    Where the call takes several lengths at once, and does not count sequences, small groups go together.
    """
    packed = call.packed if isinstance(call, PackedCall) and rows is None else None
    for together in _packs(groups(sequences), pace.tokens if packed else 0):
        if packed and len(together) > 1:
            try:
                yield from zip(
                    together, packed([(group.ids, group.types) for group in together]), strict=True
                )
                continue
            except OutOfMemory:
                pace.too_large(max(1, pace.tokens // 2))
        for group in together:
            yield group, _answer_group(group, call, pace, rows or len(sequences))


def _packs(groups: Iterator[Group], room: int) -> Iterator[list[Group]]:
    """Groups that have room together, in their order; what has none stands alone."""
    pack: list[Group] = []
    for group in groups:
        if pack and sum(one.ids.size for one in pack) + group.ids.size > room:
            yield pack
            pack = []
        pack.append(group)
    if pack:
        yield pack


def _answer_group(group: Group, call: Call, pace: Pace, rows: int) -> FloatArray:
    """Answers to the distinct sequences of one length."""
    count, length = group.ids.shape
    done: list[FloatArray] = []
    start = 0
    while start < count:
        most = min(rows, max(1, pace.tokens // length))
        size = -(-(count - start) // -(-(count - start) // most))  # no small remainder: equal parts
        chosen = slice(start, start + size)
        began = time.perf_counter()
        try:
            done.append(call(group.ids[chosen], group.types[chosen]))
        except OutOfMemory:
            if size == 1:
                raise
            pace.too_large(length * (size // 2))
            continue
        pace.saw(size * length, time.perf_counter() - began)
        start += size
    return np.concatenate(done)


def give_back() -> None:
    """Return to the system what this process has freed; to be called between pieces of work.

    Batches of many lengths come and go in blocks of many sizes. The C library keeps the gaps between them for
    later, where the next size does not fit: a long run would grow with every text. glibc has a call that
    returns them; elsewhere nothing happens.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], object] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
