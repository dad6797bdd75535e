from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom import designs
from slalom.perturb import Perturbations, from_rows

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 9999)
Rng = np.random.Generator

RANDOM: dict[str, Callable[[int, Rng], Perturbations]] = {
    "short": lambda n, rng: designs.short(np.arange(n), n, 30, (1, 2, 3), rng),
    "all_scales": lambda n, rng: designs.all_scales(n, 30, 1, max(n - 1, 1), rng),
    "near_text": lambda n, rng: designs.near_text(n, 30, 10, rng),
    "deletions": lambda n, rng: designs.deletions(n, 30, 5, rng),
    "subsets": lambda n, rng: designs.subsets(n, 30, rng),
}
IN_ORDER = ("all_scales", "near_text", "deletions", "subsets")


def rows_of(queries: Perturbations) -> list[list[int]]:
    ends = queries.offsets[1:]
    return [queries.positions[a:b].tolist() for a, b in zip(queries.offsets[:-1], ends, strict=True)]


def left_out(queries: Perturbations) -> np.ndarray:
    return queries.counts().toarray() == 0


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 9, 40, 300])
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


def test_beginnings_grow_by_half_and_are_shorter_than_their_copies():
    copies = from_rows([range(2, 12), range(2), range(1), range(3)], 12)
    firsts = [list(range(2, 2 + size)) for size in (2, 3, 4, 7)]
    assert rows_of(designs.prefixes(copies)) == [*firsts, [0, 1]]
    assert len(designs.prefixes(copies[1:3])) == 0


@pytest.mark.parametrize("name", RANDOM)
def test_the_seed_decides(name: str):
    draw = RANDOM[name]
    first, again, other = (rows_of(draw(20, np.random.default_rng(seed))) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", ["short", "all_scales", "near_text", "deletions"])
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


SIZES = pytest.mark.parametrize("n", [1, 2, 3, 7, 300])


@SIZES
def test_copies_of_all_scales_have_all_sizes(n: int):
    """Log-uniform: as many of 1 as of 2 … 3 and of 4 … 7 tokens, already in few copies."""
    top = max(n - 1, 1)
    lengths = designs.all_scales(n, 120, 1, top, np.random.default_rng(n)).lengths
    assert (len(lengths), lengths.min()) == (120, 1)
    assert 0.95 * top <= lengths.max() <= top
    sizes = np.arange(1, top + 1)
    share = np.log((sizes + 1) / sizes) / np.log(top + 1)
    gap = np.cumsum(np.bincount(lengths, minlength=top + 1)[1:]) / 120 - np.cumsum(share)
    assert np.abs(gap).max() <= 1.0 / 120 + 1e-9


@SIZES
def test_every_third_copy_is_a_stretch(n: int):
    queries = designs.all_scales(n, 90, 1, max(n - 1, 1), np.random.default_rng(0))
    assert all(row == list(range(row[0], row[-1] + 1)) for row in rows_of(queries)[2::3])


@SIZES
def test_all_scales_use_every_token_alike(n: int):
    rows = rows_of(designs.all_scales(n, 300, 1, max(n - 1, 1), np.random.default_rng(1)))
    chosen = [row for at, row in enumerate(rows) if at % 3 != 2]
    times = np.bincount(np.concatenate(chosen), minlength=n)
    assert times.max() <= 1.2 * times.mean() + 1
    assert times.min() >= 0.8 * times.mean() - 1


@pytest.mark.parametrize(("shortest", "longest"), [(2, 32), (16, 299), (5, 5), (4, 1000)])
def test_scales_have_bounds(shortest: int, longest: int):
    lengths = designs.all_scales(300, 60, shortest, longest, np.random.default_rng(2)).lengths
    assert lengths.min() == shortest
    assert min(longest, 300) * 0.9 <= lengths.max() <= longest


@pytest.mark.parametrize("n", [2, 3, 7, 300])
def test_near_text_leaves_little_out(n: int):
    """The first token to go is spread evenly, and all numbers of tokens are left out."""
    most = min(10, n - 1)
    out = left_out(designs.near_text(n, 200, 10, np.random.default_rng(n)))
    assert (out.sum(axis=1).min(), out.sum(axis=1).max()) == (1, most)
    first = np.bincount(np.argmax(out, axis=1) * min(n, 10) // n, minlength=min(n, 10))
    np.testing.assert_allclose(first, 200 / min(n, 10), atol=2 + 200 / n)


def test_a_single_token_cannot_be_left_out():
    assert rows_of(designs.near_text(1, 3, 5, np.random.default_rng(0))) == [[0]] * 3


@pytest.mark.parametrize("n", [2, 3, 10])
def test_leave_one_out(n: int):
    assert rows_of(designs.leave_one_out(n)) == [[j for j in range(n) if j != i] for i in range(n)]


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
