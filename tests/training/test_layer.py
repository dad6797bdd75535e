"""The one-layer classifier, trained on a corpus small enough for a test."""

from __future__ import annotations

import numpy as np
import pytest

from slalom.errors import InputError
from slalom_lab.training import Network, TrainSettings
from slalom_lab.training.layer import accuracy, train_layer
from slalom_lab.training.settings import ONE_LAYER
from slalom_lab.training.vocabulary import frequent_words

GOOD, BAD, PLAIN = ("great", "fine"), ("awful", "dull"), ("the", "film", "plot", "was", "a", "cast")


def corpus(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Plain words and one word that decides."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=count)
    texts = []
    for label in labels:
        words = [*rng.choice(PLAIN, size=rng.integers(3, 9)), rng.choice(GOOD if label else BAD)]
        texts.append(" ".join(rng.permutation(words)))
    return texts, labels.tolist()


@pytest.mark.parametrize("filled", [False, True])
def test_it_learns_which_words_decide(filled: bool) -> None:
    model, tokenizer = train_layer(
        *corpus(400, 0), epochs=8, rate=1e-2, batch=32, length=16, width=16, heads=2, filled=filled
    )
    assert not model.training
    assert accuracy(model, tokenizer, *corpus(200, 1)) > 0.95
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert (model.config.attention_size, model.config.value_size, model.config.pad_to_max) == (8, 8, filled)


def test_without_positions_the_order_of_words_does_not_matter() -> None:
    model, tokenizer = train_layer(*corpus(60, 0), epochs=1, length=16, width=8, heads=2, positions=False)
    assert not model.config.positions
    one, other = (
        model(**tokenizer(text, return_tensors="pt")).logits.detach().numpy()
        for text in ("the plot was dull", "dull was the plot")
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_vocabulary_is_the_most_frequent_words() -> None:
    assert frequent_words(["B a, a", "a b c"], 3) == ["a", "b", ","]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="label 0 or 1"):
        train_layer(["a"], [2])
    with pytest.raises(InputError, match="one layer; got layers=2"):
        Network(ONE_LAYER)
    with pytest.raises(InputError, match="only texts of attention-layer are filled"):
        Network("bert", filled=True)


def test_other_models_keep_their_names_in_the_cache() -> None:
    assert "filled" not in TrainSettings(model=Network("bert")).as_dict()["model"]
    assert TrainSettings(model=Network(ONE_LAYER, 1, filled=True)).as_dict()["model"]["filled"]
