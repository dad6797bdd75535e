from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.perturb import Perturbations, from_keep, from_rows, join, whole

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
SIZE = 6
ROWS = st.lists(st.lists(st.integers(0, SIZE - 1), max_size=5), max_size=8)


def rows_of(queries: Perturbations) -> list[list[int]]:
    return [
        queries.positions[a:b].tolist()
        for a, b in zip(queries.offsets[:-1], queries.offsets[1:], strict=True)
    ]


@EXAMPLES
@given(ROWS)
def test_rows_come_back(rows):
    queries = from_rows(rows, SIZE)
    assert rows_of(queries) == rows
    assert len(queries) == len(rows)
    assert queries.lengths.tolist() == [len(row) for row in rows]
    assert queries.rows.tolist() == [r for r, row in enumerate(rows) for _ in row]


@EXAMPLES
@given(ROWS)
def test_every_row_is_held_by_one_that_begins_with_it_and_that_no_other_begins_with(rows):
    holders = from_rows(rows, SIZE).holders.tolist()
    for row, held_by in zip(rows, holders, strict=True):
        assert rows[held_by][: len(row)] == row
        assert holders[held_by] == held_by
        assert not any(len(r) > len(rows[held_by]) and r[: len(rows[held_by])] == rows[held_by] for r in rows)


@EXAMPLES
@given(ROWS)
def test_counts_by_position_and_by_type(rows):
    queries = from_rows(rows, SIZE)
    assert queries.counts().toarray().tolist() == [[row.count(i) for i in range(SIZE)] for row in rows]
    inverse = np.array([0, 1, 0, 2, 1, 0])
    by_type = [[sum(inverse[p] == t for p in row) for t in range(3)] for row in rows]
    assert queries.counts(inverse).toarray().tolist() == by_type
    wider = queries.counts(inverse, 5).toarray()
    assert wider.shape == (len(rows), 5)
    assert wider[:, :3].tolist() == by_type
    assert not wider[:, 3:].any()


@EXAMPLES
@given(ROWS, st.data())
def test_slicing_is_that_of_a_list(rows, data):
    queries = from_rows(rows, SIZE)
    a, b = data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9))
    step = data.draw(st.sampled_from([1, 2, -1]))
    assert rows_of(queries[a:b:step]) == rows[a:b:step]
    if rows:
        index = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
        chosen = queries[np.array(index, dtype=np.int64)]
        assert rows_of(chosen) == [rows[i] for i in index]
        assert chosen.size == SIZE
        mask = np.array([len(row) > 1 for row in rows])
        assert rows_of(queries[mask]) == [row for row in rows if len(row) > 1]


@EXAMPLES
@given(ROWS, ROWS)
def test_join_is_concatenation(left, right):
    joined = join([from_rows(left, SIZE), from_rows(right, SIZE)])
    assert rows_of(joined) == left + right
    assert joined.size == SIZE


@EXAMPLES
@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=6))
def test_keep_masks(keep):
    queries = from_keep(np.array(keep))
    assert rows_of(queries) == [[i for i, kept in enumerate(row) if kept] for row in keep]
    np.testing.assert_array_equal(queries.counts().toarray(), np.array(keep, dtype=float))


def test_whole_and_read_only():
    assert rows_of(whole(3)) == [[0, 1, 2]]
    source = np.arange(3)
    queries = Perturbations(source, np.array([0, 3]), 3)
    source[0] = 2
    assert rows_of(queries) == [[0, 1, 2]]
    with pytest.raises(ValueError, match="read-only"):
        queries.positions[0] = 1
