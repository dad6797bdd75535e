"""Asking each distinct sequence once, in batches of one length that fit a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from slalom.errors import ModelError
from slalom.models.frame import Sequences
from slalom.tokens import FloatArray, IntArray

BATCH_TOKENS = 4096

Call = Callable[[IntArray, IntArray], FloatArray]
"""(B, L) ids and token types → (B, k) answers."""


class OutOfMemory(ModelError):  # noqa: N818 - a signal between two modules, seen outside as a ModelError
    """A batch did not fit the model's memory."""


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


def answer(
    sequences: Sequences, call: Call, tokens: int | None = None, rows: int | None = None
) -> FloatArray:
    """(N, k) answers in the order of the sequences.

    A batch holds at most `tokens` ids and `rows` sequences, but at least one sequence. Where a batch is
    too large for the memory, batches are halved from there on.
    """
    budget = tokens or BATCH_TOKENS
    result = np.zeros((0, 0))
    for group in groups(sequences):
        answers, budget = _answer_group(group, call, budget, rows or len(sequences))
        if result.size == 0:
            result = np.empty((len(sequences), answers.shape[1]))
        if answers.shape[1] != result.shape[1]:
            raise ModelError(f"the model answered with {result.shape[1]} and with {answers.shape[1]} columns")
        result[group.rows] = answers[group.inverse]
    return result


def _answer_group(group: Group, call: Call, budget: int, rows: int) -> tuple[FloatArray, int]:
    count, length = group.ids.shape
    done: list[FloatArray] = []
    start = 0
    while start < count:
        step = min(rows, max(1, budget // length))
        chosen = slice(start, start + step)
        try:
            done.append(call(group.ids[chosen], group.types[chosen]))
        except OutOfMemory:
            size = min(step, count - start)
            if size == 1:
                raise
            budget = length * (size // 2)
            continue
        start += step
    return np.concatenate(done), budget
