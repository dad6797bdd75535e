from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom import designs
from slalom.perturb import Perturbations

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 9999)
Rng = np.random.Generator

RANDOM: dict[str, Callable[[int, Rng], Perturbations]] = {
    "short": lambda n, rng: designs.short(np.arange(n), n, 30, (1, 2, 3), rng),
    "spans": lambda n, rng: designs.spans(n, 30, 8, rng),
    "scattered": lambda n, rng: designs.scattered(n, 30, 12, rng),
    "blocks": lambda n, rng: designs.blocks(n, 5, 6, rng),
    "deletions": lambda n, rng: designs.deletions(n, 30, 5, rng),
    "subsets": lambda n, rng: designs.subsets(n, 30, rng),
}
IN_ORDER = ("spans", "scattered", "blocks", "deletions", "subsets")


def rows_of(queries: Perturbations) -> list[list[int]]:
    ends = queries.offsets[1:]
    return [queries.positions[a:b].tolist() for a, b in zip(queries.offsets[:-1], ends, strict=True)]


def left_out(queries: Perturbations) -> np.ndarray:
    return queries.counts().toarray() == 0


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 9, 40])
def test_every_design_asks_about_tokens_of_the_text(name: str, n: int):
    queries = RANDOM[name](n, np.random.default_rng(n))
    assert queries.size == n
    assert queries.lengths.min() >= 1
    assert queries.positions.min() >= 0
    assert queries.positions.max() < n


@pytest.mark.parametrize("name", IN_ORDER)
@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_copies_of_the_text_keep_its_order_and_repeat_nothing(name: str, n: int):
    for row in rows_of(RANDOM[name](n, np.random.default_rng(1))):
        assert row == sorted(set(row))


@pytest.mark.parametrize("name", RANDOM)
def test_the_seed_decides(name: str):
    draw = RANDOM[name]
    first, again, other = (rows_of(draw(20, np.random.default_rng(seed))) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", ["short", "spans", "scattered", "deletions"])
def test_one_token(name: str):
    queries = RANDOM[name](1, np.random.default_rng(0))
    assert set(queries.positions.tolist()) == {0}
    assert queries.lengths.min() >= 1


def test_singles_are_the_first_of_each_type():
    queries = designs.singles(np.array([0, 1, 4]), 6)
    assert rows_of(queries) == [[0], [1], [4]]
    assert queries.size == 6


@EXAMPLES
@given(st.integers(1, 30), st.integers(0, 100), SEEDS)
def test_balanced_is_equally_often(n: int, count: int, seed: int):
    drawn = designs.balanced(n, count, np.random.default_rng(seed))
    assert len(drawn) == count
    times = np.bincount(drawn, minlength=n)
    assert len(times) == n
    assert times.max() - times.min() <= 1


@EXAMPLES
@given(st.integers(1, 25), st.integers(1, 60), SEEDS)
def test_short_sequences(d: int, count: int, seed: int):
    first = np.arange(d) * 2
    queries = designs.short(first, 2 * d, count, (2, 3), np.random.default_rng(seed))
    assert len(queries) == count
    assert set(queries.lengths.tolist()) <= {2, 3}
    assert set(queries.positions.tolist()) <= set(first.tolist())
    times = np.bincount(queries.positions // 2, minlength=d)
    assert times.max() - times.min() <= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 40), st.integers(1, 60), st.integers(2, 5), st.integers(0, 9))
def test_picked_sequences_keep_the_order_and_use_every_token_alike(
    n: int, count: int, length: int, seed: int
):
    drawn = designs.picked(n, count, length, np.random.default_rng(seed))
    rows = drawn.positions.reshape(count, length)
    assert (np.diff(rows, axis=1) >= 0).all()
    assert np.ptp(np.bincount(drawn.positions, minlength=n)) <= 1


def test_short_lengths_are_all_drawn():
    queries = designs.short(np.arange(5), 5, 300, (1, 2, 4), np.random.default_rng(0))
    times = np.bincount(queries.lengths)
    assert times[[1, 2, 4]].min() > 70
    assert times[3] == 0


@EXAMPLES
@given(st.integers(1, 40), st.integers(2, 10), SEEDS)
def test_spans_are_stretches(n: int, longest: int, seed: int):
    queries = designs.spans(n, 25, longest, np.random.default_rng(seed))
    assert len(queries) == 25
    for row in rows_of(queries):
        assert row == list(range(row[0], row[0] + len(row)))
        assert min(2, n) <= len(row) <= min(longest, n)


def test_spans_reach_both_ends():
    rows = rows_of(designs.spans(6, 400, 3, np.random.default_rng(0)))
    assert {tuple(row) for row in rows} == {tuple(range(a, a + k)) for k in (2, 3) for a in range(7 - k)}


@EXAMPLES
@given(st.integers(2, 60), st.integers(4, 40), SEEDS)
def test_scattered_sizes(n: int, longest: int, seed: int):
    queries = designs.scattered(n, 40, longest, np.random.default_rng(seed))
    assert len(queries) == 40
    assert queries.lengths.min() >= min(4, n - 1)
    assert queries.lengths.max() <= min(longest, n - 1)


def test_scattered_sizes_are_log_uniform():
    """As many queries of 4 … 7 tokens as of 8 … 15 and of 16 … 31."""
    lengths = designs.scattered(100, 6000, 31, np.random.default_rng(0)).lengths
    octaves = np.bincount(np.log2(lengths).astype(int))[2:]
    np.testing.assert_allclose(octaves, 2000, rtol=0.06)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_leave_one_out(n: int):
    assert rows_of(designs.leave_one_out(n)) == [[j for j in range(n) if j != i] for i in range(n)]


@EXAMPLES
@given(st.integers(2, 40), st.integers(1, 8), st.integers(1, 4), SEEDS)
def test_every_pass_of_blocks_leaves_each_token_out_once(n: int, size: int, covers: int, seed: int):
    queries = designs.blocks(n, size, covers, np.random.default_rng(seed))
    out = left_out(queries)
    assert out.sum(axis=1).max() <= size
    assert not out.all(axis=1).any()
    passes = out.reshape(covers, -1, n)
    np.testing.assert_array_equal(passes.sum(axis=1), np.ones((covers, n)))


def test_blocks_are_not_stretches():
    """Random blocks: two neighbours are together no more often than two strangers."""
    out = left_out(designs.blocks(30, 5, 400, np.random.default_rng(0))).astype(float)
    together = out.T @ out / 400
    strangers = together[~np.eye(30, dtype=bool)].mean()
    assert strangers == pytest.approx(4 / 29)
    assert np.diag(together, 1).mean() == pytest.approx(strangers, rel=0.1)


@EXAMPLES
@given(st.integers(1, 30), st.integers(0, 8), SEEDS)
def test_deletions_leave_out_up_to_so_many(n: int, most: int, seed: int):
    out = left_out(designs.deletions(n, 50, most, np.random.default_rng(seed)))
    assert len(out) == 50
    assert out.sum(axis=1).max() <= min(most, n - 1)


def test_deletions_and_subsets_are_uniform_in_how_many():
    out = left_out(designs.deletions(20, 6000, 5, np.random.default_rng(0)))
    np.testing.assert_allclose(np.bincount(out.sum(axis=1)), 1000, rtol=0.12)
    out = left_out(designs.subsets(7, 6000, np.random.default_rng(0)))
    np.testing.assert_allclose(np.bincount(out.sum(axis=1)), [0, *[1000] * 6], rtol=0.12)
    np.testing.assert_allclose(out.mean(axis=0), 0.5, atol=0.03)
