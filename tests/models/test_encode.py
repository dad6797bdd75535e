"""Tokens, frames and cuts with tokenizers of all families, also those without offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tokenizers import processors
from transformers import ByT5Tokenizer, CanineTokenizer

import zoo
from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models.text import align
from slalom.models.text.template import assemble, encode, tokenizer_limit
from slalom.perturb import whole
from slalom.tokens import Tokens


def sequence(tokens: Tokens) -> tuple[list[int], list[int]]:
    whole_text = assemble(tokens, whole(len(tokens)))
    return whole_text.ids.tolist(), whole_text.types.tolist()


def test_pieces_of_one_character_share_it():
    tokens = encode(zoo.tokenizer("gpt2"), "a 😀 b")  # pyright: ignore[reportArgumentType]
    places = tokens.spans[[i for i, s in enumerate(tokens.strings) if s == "😀"]].tolist()
    assert places == [[2, 3], [3, 3], [3, 3], [3, 3]]
    assert tokens.joined().strings == ("a", "😀", "b")


def test_characters_that_normalise_to_several():
    tokens = encode(zoo.tokenizer("albert"), "ﬁne ½")  # pyright: ignore[reportArgumentType]
    assert tokens.joined().strings == ("ﬁne", "½")


def test_blanks_that_are_tokens_stay_tokens():
    tokens = encode(zoo.tokenizer("gpt2"), "the\n\nfood")  # pyright: ignore[reportArgumentType]
    assert "\n" in "".join(tokens.strings)
    assert tokens.joined().strings == ("the", "\n\n", "food")


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "xlm-roberta"])
def test_spaces_around_and_between(kind: str):
    text = "  the   food\t was great \n"
    words = encode(zoo.tokenizer(kind), text).joined()  # pyright: ignore[reportArgumentType]
    assert [word for word in words.strings if word.strip()] == ["the", "food", "was", "great"]
    assert all(text[low:high] == word for word, (low, high) in zip(words.strings, words.spans, strict=True))


@pytest.mark.parametrize("make", [ByT5Tokenizer, CanineTokenizer])
def test_tokenizers_without_offsets(make: Any):
    tokenizer = make()
    tokens = encode(tokenizer, "The Café, 日本 😀!")
    assert tokens.joined().strings[:3] == ("The", "Café", ",")
    assert "".join(tokens.joined().strings[3:]) == "日本😀!"
    assert sequence(tokens)[0] == tokenizer("The Café, 日本 😀!")["input_ids"]
    pair = encode(tokenizer, ("so good", "the café"))
    expected = tokenizer("so good", "the café")
    assert sequence(pair)[0] == expected["input_ids"]
    if "token_type_ids" in expected:
        assert sequence(pair)[1] == expected["token_type_ids"]
    assert pair.segments.tolist() == sorted(pair.segments.tolist())
    assert pair.joined().strings == ("so", "good", "the", "café")


def test_alignment_lets_unknown_tokens_share_the_gap():
    assert align("The xyz food", ["the", "[UNK]", "food"]) == [(0, 3), (3, 8), (8, 12)]
    assert align("good xyz", ["good", "[UNK]", "?"]) == [(0, 4), (4, 8), (4, 8)]
    assert align("İ a", ["a"]) == [(2, 3)]


def test_a_tokenizer_that_does_not_keep_a_text_together():
    class Rewriting(ByT5Tokenizer):
        def build_inputs_with_special_tokens(self, token_ids_0: Any, token_ids_1: Any = None) -> Any:
            return [*reversed(token_ids_0), self.eos_token_id]

    with pytest.raises(ModelError, match="together"):
        encode(Rewriting(), "abc")  # pyright: ignore[reportArgumentType]


def test_a_template_with_the_second_text_first_is_refused():
    tokenizer = zoo.tokenizer("bert")
    special = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore
        single="[CLS] $A [SEP]", pair="[CLS] $B:1 [SEP] $A [SEP]", special_tokens=special
    )
    with pytest.raises(ModelError, match="before the first"):
        encode(tokenizer, ("the food", "was great"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("text", ["", "   \n", "\u3000"])
def test_blank_texts_are_refused(text: str):
    with pytest.raises(InputError, match="empty or blank"):
        encode(zoo.tokenizer("bert"), text)  # pyright: ignore[reportArgumentType]


def test_a_text_without_tokens_is_refused():
    with pytest.raises(InputError, match="finds no token"):
        encode(zoo.tokenizer("bert"), "\u200b\ufffd")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("text", [None, 3, b"bytes", ["a", "list"], ("a",), ("a", "b", "c"), ("a", 3)])
def test_what_is_no_text_is_refused(text: Any):
    with pytest.raises(InputError, match="must be a str or a pair of str"):
        encode(zoo.tokenizer("bert"), text)  # pyright: ignore[reportArgumentType]


def test_lone_surrogates_are_refused():
    with pytest.raises(InputError, match="not valid Unicode at character 4"):
        encode(zoo.tokenizer("bert"), "the \udc80 food")  # pyright: ignore[reportArgumentType]


def test_sides_need_a_pair():
    with pytest.raises(InputError, match="needs a pair"):
        encode(zoo.tokenizer("bert"), "the food", "second")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="'both', 'first' or 'second'"):
        encode(zoo.tokenizer("bert"), ("the", "food"), "third")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="blank"):
        encode(zoo.tokenizer("bert"), ("the food", " "), "second")  # pyright: ignore[reportArgumentType]


def test_limits_of_tokenizers():
    tokenizer = zoo.tokenizer("bert")
    assert tokenizer_limit(tokenizer) is None  # pyright: ignore[reportArgumentType]
    tokenizer.model_max_length = 512
    assert tokenizer_limit(tokenizer) == 512  # pyright: ignore[reportArgumentType]


def counts(tokens: Tokens) -> list[int]:
    return [int(np.sum(tokens.segments == side)) for side in (0, 1)]


def test_the_longer_text_of_a_pair_is_cut():
    tokenizer = zoo.tokenizer("bert")
    pair = ("the food", "was great but " * 5)
    n = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in pair]
    with pytest.warns(SlalomWarning, match=r"^the second text has \d+ tokens, only the first 7 ") as caught:
        tokens = encode(tokenizer, pair, limit=n[0] + 3 + 7)  # pyright: ignore[reportArgumentType]
    assert len(caught) == 1
    assert counts(tokens) == [n[0], 7]
    assert tokens.cut is not None
    assert tokens.text[tokens.cut :] == "\n".join(pair)[tokens.spans[-1, 1] :].lstrip()
    expected = tokenizer(*pair, truncation="only_second", max_length=n[0] + 10)
    assert sequence(tokens) == (expected["input_ids"], expected["token_type_ids"])


def test_both_texts_of_a_pair_are_cut_if_both_are_long():
    tokenizer = zoo.tokenizer("bert")
    pair = ("the food was great " * 5, "was great but the food " * 5)
    with pytest.warns(SlalomWarning, match="the first text has .*; the second text has"):
        tokens = encode(tokenizer, pair, limit=23)  # pyright: ignore[reportArgumentType]
    assert counts(tokens) == [10, 10]
    assert tokens.cut is not None
    assert tokens.cut < len(pair[0])
    with pytest.warns(SlalomWarning, match="the first text"):
        first = encode(tokenizer, pair, "first", limit=24)  # pyright: ignore[reportArgumentType]
    assert counts(first) in ([11, 0], [10, 0])
    assert len(sequence(first)[0]) == 24


def test_no_room_for_a_text():
    with pytest.raises(ModelError, match="no room"):
        encode(zoo.tokenizer("bert"), "the food", limit=2)  # pyright: ignore[reportArgumentType]


def test_of_a_very_long_text_only_what_can_be_used_is_read():
    tokenizer = zoo.tokenizer("bert")
    sentence = "the food was great but the service was awful "
    limit = 20
    with pytest.warns(SlalomWarning):
        usual = encode(tokenizer, sentence * 30, limit=limit)  # pyright: ignore[reportArgumentType]
    with pytest.warns(SlalomWarning, match=r"more than \d+ tokens.* of 45000000 characters"):
        tokens = encode(tokenizer, sentence * 1_000_000, limit=limit)  # pyright: ignore[reportArgumentType]
    assert sequence(tokens) == sequence(usual)
    np.testing.assert_array_equal(tokens.spans, usual.spans)
    np.testing.assert_array_equal(tokens.words, usual.words)
    assert tokens.cut == usual.cut
    assert len(tokens.text) == 100_000
    with pytest.warns(SlalomWarning, match=r"the first text has more than .*the second text has more than"):
        pair = encode(tokenizer, (sentence * 10_000, sentence * 10_000), limit=limit)  # pyright: ignore[reportArgumentType]
    assert len(sequence(pair)[0]) == limit
    assert pair.text[: len(sentence)] == pair.text[100_001 : 100_001 + len(sentence)] == sentence


def test_reading_goes_on_until_there_are_tokens():
    tokenizer = zoo.tokenizer("bert")
    text = " " * 1_000_000 + "the food was great " * 1000
    with pytest.warns(SlalomWarning):
        tokens = encode(tokenizer, text, limit=20)  # pyright: ignore[reportArgumentType]
    assert tokens.spans[0].tolist() == [1_000_000, 1_000_003]
    blank = encode(tokenizer, "the food" + " " * 1_000_000, limit=20)  # pyright: ignore[reportArgumentType]
    assert blank.strings == encode(tokenizer, "the food", limit=20).strings  # pyright: ignore[reportArgumentType]
    assert blank.cut is None
