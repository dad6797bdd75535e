from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slalom.tokens import Tokens, frozen


def sub_tokens() -> Tokens:
    """unhappy cats , cats — "un" "happy" are one word; `cats` stands twice."""
    return Tokens(
        text="unhappy cats, cats",
        strings=("un", "happy", "cats", ",", "cats"),
        spans=np.array([[0, 2], [2, 7], [8, 12], [12, 13], [14, 18]]),
        pieces=((5,), (6,), (7,), (8,), (7,)),
        words=np.array([0, 0, 1, 2, 3]),
        segments=np.zeros(5, np.int64),
        frame="context",
        cut=18,
    )


def test_types_are_numbered_by_first_occurrence():
    tokens = sub_tokens()
    assert len(tokens) == 5
    assert tokens.inverse.tolist() == [0, 1, 2, 3, 2]
    assert tokens.first.tolist() == [0, 1, 2, 3]
    assert tokens.n_types == 4
    assert tokens.types == ("un", "happy", "cats", ",")
    np.testing.assert_array_equal(tokens.inverse[tokens.first], np.arange(4))


def test_first_occurrences_out_of_alphabetical_order():
    ids = [9, 3, 9, 1, 3, 1, 2]
    n = len(ids)
    tokens = Tokens(
        "x" * n,
        tuple(map(str, ids)),
        np.stack([np.arange(n), np.arange(1, n + 1)], axis=1),
        tuple((i,) for i in ids),
        np.arange(n),
        np.zeros(n, np.int64),
    )
    assert tokens.inverse.tolist() == [0, 1, 0, 2, 1, 2, 3]
    assert tokens.types == ("9", "3", "1", "2")


def test_words_are_joined_sub_tokens():
    words = sub_tokens().joined()
    assert words.strings == ("unhappy", "cats", ",", "cats")
    assert words.pieces == ((5, 6), (7,), (8,), (7,))
    assert words.spans.tolist() == [[0, 7], [8, 12], [12, 13], [14, 18]]
    assert words.words.tolist() == [0, 1, 2, 3]
    assert words.inverse.tolist() == [0, 1, 2, 1]
    assert (words.frame, words.cut, words.text) == ("context", 18, "unhappy cats, cats")


def test_the_sides_of_a_pair_stay_apart():
    tokens = Tokens(
        text="cats\nuncats",
        strings=("cats", "un", "cats"),
        spans=np.array([[0, 4], [5, 7], [7, 11]]),
        pieces=((7,), (5,), (7,)),
        words=np.array([0, 0, 0]),
        segments=np.array([0, 1, 1]),
    )
    assert tokens.inverse.tolist() == [0, 1, 2]
    words = tokens.joined()
    assert words.strings == ("cats", "uncats")
    assert words.segments.tolist() == [0, 1]


def test_no_tokens():
    none = Tokens("", (), np.zeros((0, 2), np.int64), (), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(none) == 0
    assert none.n_types == 0
    assert none.types == ()
    assert none.joined() is none


def test_parts_must_agree_in_length():
    with pytest.raises(ValueError, match="differ in length"):
        Tokens("ab", ("a", "b"), np.zeros((2, 2), np.int64), ((1,),), np.arange(2), np.arange(2))


def test_frozen_copies():
    source = [1, 2]
    array = frozen(source, float)
    assert array.dtype == float
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        sub_tokens().spans[0, 0] = 3


def test_tokens_are_iterated_and_indexed_as_strings():
    tokens = sub_tokens()
    assert [*tokens] == ["un", "happy", "cats", ",", "cats"]
    assert (tokens[0], tokens[-1], tokens[1:3]) == ("un", "cats", ("happy", "cats"))
    assert "happy" in tokens
    with pytest.raises(IndexError):
        tokens[5]


def test_a_word_with_an_unknown_part_is_unknown():
    tokens = replace(sub_tokens(), unknown=(1, 3))
    assert tokens.joined().unknown == (0, 2)
    assert sub_tokens().joined().unknown == ()
    with pytest.raises(ValueError, match="unknown tokens at"):
        replace(sub_tokens(), unknown=(5,))
