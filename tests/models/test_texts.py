"""Words, and texts made of words again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom.errors import InputError
from slalom.models.text import split_words, word_numbers, words, write
from slalom.perturb import from_rows, whole
from slalom.tokens import Tokens


def split(text: str) -> list[str]:
    return [text[low:high] for low, high in split_words(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The food's great, isn’t it?", ["The", "food's", "great", ",", "isn’t", "it", "?"]),
        ("well-made -- 3.5 of 1,000!", ["well-made", "-", "-", "3.5", "of", "1,000", "!"]),
        ("'quoted' end.", ["'", "quoted", "'", "end", "."]),
        ("a.b c", ["a", ".", "b", "c"]),
        ("snake_case é e\u0301", ["snake_case", "é", "e\u0301"]),
        ("日本語 です", ["日", "本", "語", "で", "す"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ภาษาไทย", ["ภาษาไทย"]),
        ("👍🏽 👨‍👩‍👧", ["👍🏽", "👨‍", "👩‍", "👧"]),
        ("$5 (ok)", ["$", "5", "(", "ok", ")"]),
        ("\u0301x", ["\u0301", "x"]),
    ],
)
def test_words(text: str, expected: list[str]):
    assert split(text) == expected


@given(st.text(max_size=40))
def test_words_cover_everything_but_blanks(text: str):
    covered = {i for low, high in split_words(text) for i in range(low, high)}
    assert covered == {i for i, character in enumerate(text) if not character.isspace()}


def test_words_that_share_a_token_are_one_word():
    assert word_numbers("so good...", [(0, 2), (3, 5), (5, 8), (8, 10)]).tolist() == [0, 1, 1, 2]
    assert word_numbers("", [(0, 0)]).tolist() == [0]


def texts(tokens: Tokens, *rows: list[int]) -> list[str] | list[tuple[str, ...]]:
    return write(tokens, from_rows(rows, len(tokens)))


def test_queries_as_texts():
    tokens = words("  Good food,  bad\nservice! ")
    assert tokens.strings == ("Good", "food", ",", "bad", "service", "!")
    assert texts(tokens, [0, 1, 2, 3, 4, 5]) == ["  Good food,  bad\nservice! "]
    assert texts(tokens, [1, 2], [0, 2], [3, 4], [4, 3], [1, 1], []) == [
        "food,",
        "  Good ,",
        "bad\nservice",
        "service bad",
        "food food",
        "",
    ]


def test_scripts_without_spaces_stay_without():
    assert texts(words("日本語 good"), [0, 2], [2, 0], [0, 3]) == ["日語", "語日", "日 good"]


def test_equal_words_have_equal_ids():
    tokens = words("good, very very good")
    assert tokens.inverse.tolist() == [0, 1, 2, 2, 0]
    assert tokens.spans[-1].tolist() == [16, 20]


def test_pairs_as_texts():
    pair = ("good food ", " bad service")
    both = words(pair)
    assert both.text == "good food \n bad service"
    assert [both.text[low:high] for low, high in both.spans] == list(both.strings)
    assert texts(both, [0, 1, 2, 3], [3, 0], [1], [2]) == [
        pair,
        ("good", "service"),
        ("food ", ""),
        ("", " bad"),
    ]
    second = words(pair, "second")
    assert second.strings == ("bad", "service")
    assert texts(second, [1], []) == [("good food ", "service"), ("good food ", "")]
    first = words(pair, "first")
    assert write(first, whole(2)) == [pair]


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.strip() and text.isprintable()))
def test_the_whole_query_is_the_text_itself(text: str):
    tokens = words(text)
    assert write(tokens, whole(len(tokens))) == [text]


def test_tokens_of_another_model_are_refused():
    other = Tokens("a", ("a",), [[0, 1]], ((0,),), [0], [0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="another kind of model"):
        texts(other, [0])
