"""Texts cut to their first tokens, with their annotations."""

from __future__ import annotations

import pytest

from slalom import Explainer
from slalom.data import Document
from slalom.evaluate.document import shorten

TEXT = "An unforgettable, heartwarmingly well-made film. Questionable explanations notwithstanding!"


@pytest.fixture(scope="module")
def model():
    return Explainer().model


def test_a_short_text_stays_as_it_is(model):
    document = Document(TEXT + "  ")
    assert shorten(model, document, 256) is document


def test_at_most_so_many_tokens_and_no_word_is_cut(model):
    whole = model.tokenize(TEXT)
    assert len(whole.joined()) < len(whole), "some word of the text has several tokens"
    ends = {0} | {int(end) for end in whole.joined().spans[:, 1]}
    for most in range(4, len(whole)):
        cut = shorten(model, Document(TEXT, id="d"), most)
        assert TEXT.startswith(cut.text)
        assert len(cut.text) in ends
        assert 0 < len(model.tokenize(cut.text)) <= most
        longer = [end for end in sorted(ends) if end > len(cut.text)]
        assert len(model.tokenize(TEXT[: longer[0]])) > most, "one more word would not have had room"


def test_a_single_long_word_is_cut_where_it_must_be(model):
    cut = shorten(model, Document("xyzzyqwrtplkjhgfdsamnbvcxz" * 3), 5)
    assert 0 < len(model.tokenize(cut.text)) <= 5


def test_annotations_are_cut_with_the_text(model):
    words = tuple(TEXT.split())
    marks = {"majority": tuple(range(len(words)))}
    cut = shorten(model, Document(TEXT, 1, "d", words, marks), 9)
    assert cut.words is not None
    assert 0 < len(cut.words) < len(words)
    assert cut.text == " ".join(cut.words)
    assert cut.words == words[: len(cut.words)]
    assert cut.maps == {"majority": tuple(range(len(cut.words)))}
    assert (cut.label, cut.id) == (1, "d")


def test_the_models_own_limit_counts_without_a_warning():
    from zoo import tiny

    model = Explainer(*tiny("bert")).model
    cut = shorten(model, Document("one two three " * 100), 1000)
    assert 30 < len(model.tokenize(cut.text)) <= 64  # a text that is still too long would warn


def test_of_a_pair_the_longer_text_is_cut_first(model):
    long, short = "good bad " * 20, "good film"
    first, second = shorten(model, Document((long, short)), 10).text
    assert second == short
    assert (len(model.tokenize(first)), long.startswith(first)) == (8, True)
    first, second = shorten(model, Document((long, long)), 10).text
    assert len(model.tokenize(first)) == len(model.tokenize(second)) == 5
