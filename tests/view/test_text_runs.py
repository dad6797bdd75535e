from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import HOSTILE, tokens_of
from slalom.tokens import Tokens
from slalom.view import label, runs, strength, visible


def placed(text: str, spans: list[tuple[int, int]], **more: object) -> Tokens:
    n = len(spans)
    strings = tuple(text[a:b] for a, b in spans)
    parts = {"words": np.arange(n), "segments": np.zeros(n), "pieces": tuple((i,) for i in range(n))}
    return Tokens(text=text, strings=strings, spans=np.array(spans).reshape(-1, 2), **(parts | more))  # type: ignore[arg-type]


def shapes(tokens: Tokens) -> list[tuple[str, tuple[int, ...]]]:
    return [(run.text, run.positions) for run in runs(tokens)]


def test_runs_are_the_tokens_and_what_lies_between():
    assert shapes(tokens_of(" a, b ")) == [
        (" ", ()),
        ("a", (0,)),
        (",", (1,)),
        (" ", ()),
        ("b", (2,)),
        (" ", ()),
    ]


def test_tokens_that_share_a_character_share_a_run():
    assert shapes(placed("a 👍 b", [(0, 1), (2, 3), (2, 3), (2, 3), (4, 5)])) == [
        ("a", (0,)),
        (" ", ()),
        ("👍", (1, 2, 3)),
        (" ", ()),
        ("b", (4,)),
    ]


def test_overlapping_and_empty_spans():
    assert shapes(placed("abc", [(0, 0), (0, 2), (1, 3), (3, 3)])) == [("ab", (1,)), ("c", (2, 3))]


def test_the_blank_before_a_word_is_not_part_of_it():
    assert shapes(placed("a bc  ", [(0, 1), (1, 4), (4, 6)])) == [
        ("a", (0,)),
        (" ", ()),
        ("bc", (1,)),
        ("  ", (2,)),
    ]


def test_what_the_model_did_not_read_is_cut():
    tokens = placed("one two three", [(0, 3), (4, 7)], cut=8)
    assert [(run.text, run.cut) for run in runs(tokens)][-2:] == [(" ", False), ("three", True)]


def test_the_first_text_of_a_pair_can_be_cut_alone():
    tokens = placed("one two\nnext text", [(0, 3), (8, 12), (13, 17)], cut=4, segments=np.array([0, 1, 1]))
    assert [run.text for run in runs(tokens) if run.cut] == ["two\n"]


@given(st.text(max_size=40), st.data())
def test_runs_join_to_the_text(text: str, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    tokens = placed(text, list(zip(cuts[::2], cuts[1::2], strict=False)))
    found = runs(tokens)
    assert "".join(run.text for run in found) == text
    assert sorted({i for run in found for i in run.positions}) == [i for run in found for i in run.positions]


@given(st.text(max_size=30))
def test_nothing_visible_can_steer_a_terminal(text: str):
    shown = visible(text + "\x1b\x9b\u202e\ud800")
    harmful = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not [c for c in shown if unicodedata.category(c) in harmful and c not in "\u200c\u200d"]


def test_signs_for_what_must_not_be_obeyed():
    assert visible("a\x1b[31m\x7f\x9b\u202e\n") == "a␛[31m␡⟨U+009B⟩⟨U+202E⟩␊"
    assert visible("a\nb\tc", keep="\n") == "a\nb␉c"
    assert visible(HOSTILE["emoji"]) == HOSTILE["emoji"]


@pytest.mark.parametrize(
    ("token", "shown"), [(" the", "the"), ("  ", "␣␣"), ("\n", "␊"), ("", "∅"), ("x\n", "x")]
)
def test_labels_stand_on_one_line(token: str, shown: str):
    assert label(token) == shown


def test_strength_is_a_share_of_the_largest():
    np.testing.assert_allclose(strength(np.array([1.0, -4.0, np.nan, np.inf])), [0.25, -1.0, 0.0, 0.0])
    np.testing.assert_array_equal(strength(np.zeros(2)), [0.0, 0.0])
    assert len(strength(np.zeros(0))) == 0
