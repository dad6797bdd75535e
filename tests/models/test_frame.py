"""Assembly and batches against a slow version written with lists."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.errors import InputError, ModelError
from slalom.models.text.template import Frame, assemble, frame_of
from slalom.models.torch import OutOfMemory, Pace, PackedCall, answer, groups
from slalom.perturb import Perturbations, from_rows
from slalom.tokens import Tokens


def make_tokens(pieces: list[tuple[int, ...]], segments: list[int], fixed: list[list[int]]) -> Tokens:
    n = len(pieces)
    parts = tuple(np.array(part, np.int64) for part in fixed)
    types = tuple(np.full(len(part), 5 + i) for i, part in enumerate(parts))
    frame = Frame(parts, types, (3, 4))  # pyright: ignore[reportArgumentType]
    spans = np.stack([np.arange(n), np.arange(n) + 1], axis=1)
    return Tokens("x" * n, ("x",) * n, spans, tuple(pieces), np.arange(n), np.array(segments), frame)


def slow(tokens: Tokens, queries: Perturbations) -> list[tuple[list[int], list[int]]]:
    sequences = []
    for row in range(len(queries)):
        entries = queries.positions[queries.offsets[row] : queries.offsets[row + 1]]
        ids: list[int] = []
        types: list[int] = []
        for part in range(3):
            ids += frame_of(tokens).fixed[part].tolist()
            types += frame_of(tokens).fixed_types[part].tolist()
            for position in entries:
                if tokens.segments[position] == part:
                    ids += tokens.pieces[position]
                    types += [frame_of(tokens).slot_types[part]] * len(tokens.pieces[position])
        sequences.append((ids, types))
    return sequences


ids = st.integers(0, 9)


@st.composite
def asked(draw: st.DrawFn) -> tuple[Tokens, Perturbations]:
    pieces = draw(st.lists(st.lists(ids, min_size=1, max_size=3).map(tuple), min_size=1, max_size=7))
    pair = draw(st.booleans())
    segments = sorted(draw(st.lists(st.integers(0, int(pair)), min_size=len(pieces), max_size=len(pieces))))
    fixed = [draw(st.lists(ids, min_size=i == 0, max_size=3)) for i in range(3)]
    position = st.integers(0, len(pieces) - 1)
    rows = draw(st.lists(st.lists(position, max_size=6), min_size=1, max_size=12))
    return make_tokens(pieces, segments, fixed), from_rows(rows, len(pieces))


@settings(max_examples=150, deadline=None)
@given(asked())
def test_sequences_equal_a_slow_assembly(case: tuple[Tokens, Perturbations]):
    tokens, queries = case
    sequences = assemble(tokens, queries)
    got = [
        (sequences.ids[low:high].tolist(), sequences.types[low:high].tolist())
        for low, high in zip(sequences.offsets, sequences.offsets[1:], strict=False)
    ]
    assert got == slow(tokens, queries)


@settings(max_examples=100, deadline=None)
@given(asked(), st.integers(1, 40), st.integers(1, 5))
def test_every_query_gets_its_own_answer_and_no_sequence_is_asked_twice(
    case: tuple[Tokens, Perturbations], budget: int, rows: int
):
    tokens, queries = case
    seen: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def call(ids: Any, types: Any) -> Any:
        assert ids.shape == types.shape
        assert len(ids) <= rows
        assert len(ids) == 1 or ids.size <= budget
        seen.extend(zip(map(tuple, ids.tolist()), map(tuple, types.tolist()), strict=True))
        weights = np.arange(1, ids.shape[1] + 1)
        return np.stack([ids @ weights, types @ weights**2], axis=1).astype(float)

    answers = answer(assemble(tokens, queries), call, Pace(budget), rows)
    expected = [
        [
            sum((i + 1) * v for i, v in enumerate(ids)),
            sum((i + 1) ** 2 * v for i, v in enumerate(types)),
        ]
        for ids, types in slow(tokens, queries)
    ]
    np.testing.assert_array_equal(answers, expected)
    distinct = {(tuple(ids), tuple(types)) for ids, types in slow(tokens, queries)}
    assert len(seen) == len(set(seen)) == len(distinct)
    lengths = [len(ids) for ids, _ in seen]
    assert lengths == sorted(lengths)


def three_tokens() -> Tokens:
    return make_tokens([(1,), (2,), (3,)], [0, 0, 0], [[7], [], [8]])


def test_a_batch_that_does_not_fit_is_halved_from_there_on():
    tokens = make_tokens([(i,) for i in range(20)], [0] * 20, [[7], [], []])
    sizes: list[int] = []

    def call(ids: Any, types: Any) -> Any:
        sizes.append(len(ids))
        if len(ids) > 3:
            raise OutOfMemory("full")
        return ids[:, 1:2].astype(float)

    answers = answer(assemble(tokens, from_rows([[i] for i in range(20)], 20)), call)
    np.testing.assert_array_equal(answers[:, 0], np.arange(20))
    assert sizes == [20, 10, 5, *[2] * 10]


def several_lengths() -> Any:
    tokens = make_tokens([(i,) for i in range(6)], [0] * 6, [[7], [], []])
    return assemble(tokens, from_rows([list(range(n)) for n in (1, 1, 2, 3, 4, 5, 6)], 6))


def test_small_groups_go_together_where_the_call_takes_several_lengths():
    packs: list[list[tuple[int, ...]]] = []

    def packed(batches: Any) -> Any:
        packs.append([ids.shape for ids, _ in batches])
        return [ids[:, -1:].astype(float) for ids, _ in batches]

    call = PackedCall(lambda ids, _: ids[:, -1:].astype(float), packed)
    answers = answer(several_lengths(), call, Pace(9))
    assert packs == [[(1, 2), (1, 3), (1, 4)]]  # 9 tokens; 5 + 6 have no room together, and stand alone
    np.testing.assert_array_equal(answers[:, 0], [0, 0, 1, 2, 3, 4, 5])
    packs.clear()
    answer(several_lengths(), call, Pace(9), rows=1)
    assert packs == []


def test_packs_that_do_not_fit_are_answered_length_by_length():
    def packed(batches: Any) -> Any:
        raise OutOfMemory("full")

    pace = Pace(100)
    answers = answer(several_lengths(), PackedCall(lambda ids, _: ids[:, -1:].astype(float), packed), pace)
    np.testing.assert_array_equal(answers[:, 0], [0, 0, 1, 2, 3, 4, 5])
    assert pace.tokens == 50


def test_a_single_sequence_that_does_not_fit_is_an_error():
    def call(ids: Any, types: Any) -> Any:
        raise OutOfMemory("full")

    with pytest.raises(ModelError, match="full"):
        answer(assemble(three_tokens(), from_rows([[0], [1]], 3)), call)


def test_answers_of_changing_width_are_refused():
    sequences = assemble(three_tokens(), from_rows([[0], [0, 1]], 3))
    with pytest.raises(ModelError, match="3 and with 4 columns"):
        answer(sequences, lambda ids, _: np.zeros(ids.shape))


def test_no_sequences_no_groups():
    sequences = assemble(three_tokens(), from_rows([], 3))
    assert len(sequences) == 0
    assert list(groups(sequences)) == []


@pytest.mark.parametrize("queries", [from_rows([[0]], 4), from_rows([[3]], 3), from_rows([[-1]], 3)])
def test_queries_about_another_text_are_refused(queries: Perturbations):
    with pytest.raises(InputError, match="this text has 3"):
        assemble(three_tokens(), queries)


def test_tokens_of_another_model_are_refused():
    bare = Tokens("a", ("a",), np.array([[0, 1]]), ((0,),), np.zeros(1, np.int64), np.zeros(1, np.int64))
    with pytest.raises(InputError, match="another kind of model"):
        assemble(bare, from_rows([[0]], 1))


def test_a_thousand_short_queries_take_no_more_steps_than_a_few():
    """Whole arrays at a time: what is done in Python does not grow with the number of queries."""
    n = 255
    tokens = make_tokens([(i % 158,) for i in range(n)], [0] * n, [[7], [], [8]])

    def steps(count: int) -> int:
        queries = from_rows(np.random.default_rng(0).integers(0, n, (count, 3)), n)
        seen: list[str] = []
        sys.setprofile(lambda frame, event, _: seen.append(event))
        try:
            answer(assemble(tokens, queries), lambda ids, _: np.zeros((len(ids), 2)))
        finally:
            sys.setprofile(None)
        return len(seen)

    steps(1)  # what is done once is done
    gc.disable()  # it calls whatever waits for it
    try:
        assert steps(1000) <= steps(10) + 20
    finally:
        gc.enable()


def test_batches_are_equal_parts():
    tokens = make_tokens([(i,) for i in range(9)], [0] * 9, [[7], [], []])
    sizes: list[int] = []

    def call(ids: Any, types: Any) -> Any:
        sizes.append(len(ids))
        return ids[:, 1:2].astype(float)

    answer(assemble(tokens, from_rows([[i] for i in range(9)], 9)), call, Pace(16))
    assert sizes == [5, 4]


@pytest.mark.parametrize(
    ("per_token", "expected"), [({4096: 1.0, 8192: 0.5, 16384: 0.49}, 8192), ({4096: 1.0, 8192: 1.0}, 4096)]
)
def test_batches_grow_as_long_as_that_pays(per_token: dict[int, float], expected: int):
    pace = Pace()
    for _ in range(9):
        pace.saw(10, 99.0)  # a small batch says nothing about large ones
        pace.saw(pace.tokens, pace.tokens * per_token[pace.tokens])
    assert pace.tokens == expected


def test_batches_stay_below_their_most():
    pace = Pace(most=10_000)
    for _ in range(9):
        pace.saw(pace.tokens, 1.0 / pace.tokens)
    assert pace.tokens == 8192


def test_a_size_that_did_not_fit_or_was_given_stays():
    tight, given = Pace(), Pace(100)
    tight.too_large(64)
    for pace in (tight, given):
        for _ in range(9):
            pace.saw(pace.tokens, 1e-9)
    assert (tight.tokens, given.tokens) == (64, 100)
