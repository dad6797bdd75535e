"""What to ask the model: perturbed copies of a text, made of its own tokens."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from slalom.checks import check
from slalom.errors import InputError
from slalom.tokens import FloatArray, IntArray, frozen

Counts = FloatArray | sparse.csr_array
"""(N, units) how often each unit stands in each of N queries."""


@dataclass(frozen=True, eq=False)
class Perturbations:
    """N queries as positions of the explained text, ragged and without padding.

    Row r is `positions[offsets[r]:offsets[r + 1]]`: the tokens that stand in the query, in their
    order there. A position may stand in a row several times; an empty row is the empty text.
    """

    positions: IntArray
    offsets: IntArray
    size: int
    """Number of tokens in the explained text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", frozen(self.positions, np.int64))
        object.__setattr__(self, "offsets", frozen(self.offsets, np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | IntArray) -> Perturbations:
        chosen = np.arange(len(self))[rows]
        lengths = self.lengths[chosen]
        offsets = np.r_[0, np.cumsum(lengths)]
        index = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Perturbations(self.positions[index], offsets, self.size)

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def rows(self) -> IntArray:
        """The row of every entry of `positions`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def holders(self) -> IntArray:
        """(N,) a row that begins with each row and is no other's beginning; itself, where none is longer."""
        return holders(self.positions, self.offsets)

    def counts(self, units: IntArray | None = None, n_units: int | None = None) -> sparse.csr_array:
        """How often every unit stands in every query (N × n_units); `units` maps positions to units."""
        columns = self.positions if units is None else np.asarray(units)[self.positions]
        width = n_units if n_units is not None else (self.size if units is None else int(np.max(units)) + 1)
        data = np.ones(len(columns))
        result = sparse.csr_array((data, (self.rows, columns)), shape=(len(self), width))
        result.sum_duplicates()
        return result


def holders(numbers: IntArray, offsets: IntArray) -> IntArray:
    """(N,) for ragged rows of numbers, a row that begins with each row and is no other's beginning."""
    width = np.dtype(">i8").itemsize  # as bytes in this order, numbers compare as they do themselves
    flat, ends = numbers.astype(">i8").tobytes(), (offsets * width).tolist()
    rows = [flat[low:high] for low, high in pairwise(ends)]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    holder = np.arange(len(rows))
    for one, after in reversed(list(pairwise(order))):
        if rows[after].startswith(rows[one]):
            holder[one] = holder[after]
    return holder


def dense(counts: Counts) -> FloatArray:
    """Counts as an array."""
    return counts.toarray() if isinstance(counts, sparse.csr_array) else np.asarray(counts)


def from_rows(rows: Iterable[Sequence[int] | IntArray], size: int) -> Perturbations:
    """Queries from lists of positions."""
    arrays = [np.asarray(row, dtype=np.int64) for row in rows]
    flat = np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
    return Perturbations(flat, np.r_[0, np.cumsum([len(a) for a in arrays], dtype=np.int64)], size)


def from_keep(keep: np.ndarray) -> Perturbations:
    """Queries from a table of which positions are kept.

    Args:
        keep: (N, n) True where a token stays; one row for each query, in the order of the text.

    Returns:
        The queries, which an `Ask` takes.

    Example:
        >>> import numpy as np
        >>> from slalom.perturb import from_keep
        >>> queries = from_keep(np.array([[True, False, True], [False, True, True]]))
        >>> len(queries), queries.positions.tolist()
        (2, [0, 2, 1, 2])
    """
    keep = np.asarray(keep, dtype=bool)
    _, columns = np.nonzero(keep)
    return Perturbations(columns, np.r_[0, np.cumsum(keep.sum(axis=1))], keep.shape[1])


def join(parts: Sequence[Perturbations]) -> Perturbations:
    """Several sets of queries as one."""
    positions = np.concatenate([p.positions for p in parts])
    lengths = np.concatenate([p.lengths for p in parts])
    return Perturbations(positions, np.r_[0, np.cumsum(lengths)], parts[0].size)


def whole(n: int) -> Perturbations:
    """The text as it is."""
    return Perturbations(np.arange(n), np.array([0, n]), n)


def places_moved(counts: FloatArray, most: int, sizes: FloatArray | None = None) -> IntArray:
    """(N, n) by how many places each token of a copy has moved, up to `most`; 0 for what is gone."""
    gone = (counts <= 0) if sizes is None else (counts <= 0) * sizes
    return np.minimum(np.cumsum(gone, axis=1) * (counts > 0), most).astype(np.int64)


def kept_counts(kept: Iterable[int] | Iterable[bool], n: int) -> FloatArray:
    """(n,) how often each token stands, from a boolean for each or from positions."""
    wanted = f"kept must hold booleans or positions from 0 to {n - 1}"
    try:
        given = np.asarray(kept if isinstance(kept, np.ndarray) else list(check("kept", kept, Iterable)))
    except ValueError as error:
        raise InputError(f"{wanted}; got sequences of several lengths") from error
    if given.dtype == bool:
        if given.shape != (n,):
            raise InputError(f"kept has {given.size} booleans, but the text has {n} tokens")
        return given.astype(float)
    whole_numbers = given.ndim == 1 and np.issubdtype(given.dtype, np.integer)
    if given.size and (not whole_numbers or given.min() < 0 or given.max() >= n):
        raise InputError(f"{wanted}; got {given.tolist()[:5] if given.ndim else given}")
    return np.bincount(given.astype(np.int64), minlength=n).astype(float)
