"""Black boxes: how their answers are read, and what they are asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, logit, softmax

import zoo
from rounding import same_answers
from slalom.errors import InputError, ModelError
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.models.function import CLIP
from slalom.models.protocol import Model
from slalom.models.proxy import declared
from slalom.models.target import probabilities
from slalom.perturb import from_keep, from_rows, whole

WEIGHTS = {"good": 2.0, "great": 3.0, "bad": -2.0, "not": -1.0}
TEXT = "good food, not bad"


def score(text: str) -> float:
    return sum(WEIGHTS.get(word.strip(","), 0.0) for word in text.split())


def log_odds(texts: list[str]) -> list[float]:
    return [score(text) for text in texts]


def rows(texts: list[str]) -> np.ndarray:
    return np.array([[score(text), len(text), 1.0] for text in texts])


def asked(model: Model, *queries: list[int], text: Any = TEXT) -> np.ndarray:
    tokens = model.tokenize(text)
    return model.logits(tokens, from_rows(queries, len(tokens)))


def test_one_number_is_a_log_odds():
    model = open_model(log_odds)
    answers = asked(model, [0, 1, 2, 3, 4], [0], [4], [3, 4], [])
    np.testing.assert_array_equal(answers, [[0, -1], [0, 2], [0, -2], [0, -3], [0, 0]])
    assert (model.labels, model.activation, model.name) == (("0", "1"), "softmax", "log_odds")
    assert declared(model) is model


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        lambda z: np.array(z, dtype=np.float32),
        lambda z: np.array(z)[:, None],
        lambda z: torch.tensor(z, requires_grad=True),
        lambda z: torch.tensor(z, dtype=torch.bfloat16)[:, None],
        lambda z: [torch.tensor(value) for value in z],
        lambda z: [int(value) for value in z],
    ],
)
def test_forms_of_one_number(form: Any):
    model = open_model(lambda texts: form(log_odds(texts)))
    np.testing.assert_array_equal(asked(model, [0], [4]), [[0, 2], [0, -2]])


def test_rows_that_sum_to_one_are_probabilities():
    model = open_model(lambda texts: softmax(rows(texts), axis=1), labels=["a", "b", "c"])
    tokens = model.tokenize(TEXT)
    answers = model.logits(tokens, whole(5))
    assert model.labels == ("a", "b", "c")
    np.testing.assert_allclose(probabilities(answers, "softmax"), softmax(rows([TEXT]), axis=1))


def test_other_rows_are_logits():
    model = open_model(rows)
    np.testing.assert_array_equal(asked(model, [0], [4]), rows(["good", "bad"]))
    assert model.labels == ("0", "1", "2")


def test_certain_probabilities_are_clipped():
    model = open_model(lambda texts: [[1.0, 0.0]] * len(texts))
    np.testing.assert_allclose(asked(model, [0]), [[0, np.log(CLIP)]])
    single = open_model(lambda texts: [0.0] * len(texts), output="probabilities")
    np.testing.assert_allclose(asked(single, [0]), [[0, logit(CLIP)]])


def test_output_says_what_the_numbers_are():
    single = open_model(lambda texts: expit(log_odds(texts)), output="probabilities")
    np.testing.assert_allclose(asked(single, [0], [4]), [[0, 2], [0, -2]])
    same = open_model(lambda texts: [[0.25, 0.75]] * len(texts), output="logits")
    np.testing.assert_array_equal(asked(same, [0]), [[0.25, 0.75]])
    several = open_model(rows, output="multilabel")
    np.testing.assert_array_equal(asked(several, [0]), rows(["good"]))
    assert several.activation == "sigmoid"
    one = open_model(log_odds, output="multilabel", labels=["toxic"])
    np.testing.assert_array_equal(asked(one, [0]), [[2]])
    assert (one.labels, one.activation) == (("toxic",), "sigmoid")
    with pytest.raises(InputError, match="one number for each text; the model gives 3"):
        open_model(rows, output="log_odds").tokenize(TEXT)


def test_label_names():
    model = open_model(log_odds, labels=["positive"])
    assert model.labels == ("positive",)
    model.tokenize(TEXT)
    assert model.labels == ("not positive", "positive")
    for wrong in (["a"], ["a", "b"], ["a", "b", "b"]):
        with pytest.raises(InputError, match="name the model's 3 classes"):
            open_model(rows, labels=wrong).tokenize(TEXT)


def test_the_reading_stays_as_it_was_decided():
    uneven = open_model(lambda texts: [[0.5, 0.5] if "," in t or "not" in t else [-3.0, 3.0] for t in texts])
    with pytest.raises(ModelError, match=r"outside 0…1: -3 … 3; the first answers looked like probabilities"):
        asked(uneven, [0])
    told = open_model(lambda texts: [[-3.0, 3.0]] * len(texts), output="probabilities")
    with pytest.raises(ModelError, match=r"outside 0…1: -3 … 3$"):
        told.tokenize(TEXT)
    growing = open_model(lambda texts: np.ones((len(texts), max(map(len, texts)))))
    with pytest.raises(ModelError, match="columns, 18 expected"):
        asked(growing, [0])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "NoneType: None"),
        ("good", "str: 'good'"),
        ([1.0], r"list of shape \(1,\)"),
        ([[[1.0]]] * 3, r"list of shape \(3, 1, 1\)"),
        (["a", "b", "c"], r"list: \['a', 'b', 'c'\]"),
        ([True, False, True], "dtype bool"),
        ([[1.0], [1.0, 2.0], [3.0]], "list: "),
        ([{"label": "good", "score": 0.5}] * 3, "list: "),
        (np.zeros((3, 0)), "without any number"),
        (np.zeros(3, complex), "ndarray"),
        (3.0, "float"),
    ],
)
def test_unusable_answers_are_named(answer: Any, message: str):
    with pytest.raises(ModelError, match=message):
        open_model(lambda texts: answer).tokenize(TEXT)


def test_a_function_that_raises():
    def broken(texts: list[str]) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(ModelError, match=r"failed on \d texts: ConnectionError: no route") as caught:
        open_model(broken).tokenize(TEXT)
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_nan_is_reported_where_it_is_asked():
    model = open_model(lambda texts: [float("nan")] * len(texts))
    tokens = model.tokenize(TEXT)
    with pytest.raises(ModelError, match="1 of 1 queries with NaN"):
        Ask(model, tokens).whole()


def test_equal_texts_are_asked_once_in_batches():
    calls: list[list[str]] = []

    def counted(texts: list[str]) -> Any:
        calls.append(list(texts))
        return log_odds(texts)

    model = open_model(counted)
    text = " ".join(f"w{i}" for i in range(100)) + " good good"
    tokens = model.tokenize(text)
    assert len(calls) == 1
    calls.clear()
    queries = from_rows([[i] for i in range(102)] * 3, 102)
    answers = model.logits(tokens, queries)
    assert [len(call) for call in calls] == [64, 37]
    assert len({text for call in calls for text in call}) == 101
    np.testing.assert_array_equal(answers[:, 1], np.tile([0.0] * 100 + [2, 2], 3))
    calls.clear()
    few = open_model(counted, batch_tokens=20)
    few.logits(few.tokenize(text), from_rows([[i, i + 1] for i in range(40)], 102))
    assert [len(call) for call in calls] == [1, 1, 1, 10, 10, 10, 10]


def test_rows_of_changing_width():
    widths = iter([2, 3, 2, 3])
    model = open_model(lambda texts: np.zeros((len(texts), next(widths))) - 1, batch_tokens=1)
    with pytest.raises(ModelError, match="rows of different length"):
        model.tokenize(TEXT)


def test_pairs():
    seen: list[Any] = []

    def entails(pairs: list[tuple[str, str]]) -> Any:
        seen.extend(pairs)
        return [score(a) - score(b) for a, b in pairs]

    model = open_model(entails)
    pair = ("good food", "bad service, great view")
    tokens = model.tokenize(pair)
    keep = np.ones((2, len(tokens)), bool)
    keep[1, [0, 2]] = False
    np.testing.assert_array_equal(model.logits(tokens, from_keep(keep))[:, 1], [1, -3])
    assert ("food", "service, great view") in seen
    context = model.tokenize(pair, "second")
    assert context.strings == ("bad", "service", ",", "great", "view")
    np.testing.assert_array_equal(model.logits(context, from_rows([[], [3]], 5))[:, 1], [2, -1])


@pytest.mark.parametrize("text", ["", "  ", None, "a\ud800", ("a", "")])
def test_bad_texts(text: Any):
    with pytest.raises(InputError):
        open_model(log_odds).tokenize(text)


def test_a_function_over_ids():
    module, tokenizer = zoo.tiny("bert", 3)
    sizes: list[int] = []

    def over_ids(sequences: list[list[int]]) -> Any:
        sizes.append(len(sequences))
        with torch.no_grad():
            return [module(torch.tensor([ids])).logits[0] for ids in sequences]

    black, white = open_model(over_ids, tokenizer, labels=["a", "b", "c"]), open_model(module, tokenizer)
    tokens = black.tokenize(zoo.TEXT)
    assert black.labels == ("a", "b", "c")
    assert tokens.pieces == white.tokenize(zoo.TEXT).pieces
    queries = from_rows([[i, j] for i in range(len(tokens)) for j in (0, 1, 2)], len(tokens))
    sizes.clear()
    same_answers(black.logits(tokens, queries), white.logits(tokens, queries))
    assert len(sizes) == 2  # as many batches as needed, of equal size
    assert max(sizes) <= 64
    assert sum(sizes) < len(queries)
    tokenizer.model_max_length = 8
    with pytest.warns(UserWarning, match="the model takes 8 tokens"):
        assert len(black.tokenize(zoo.TEXT)) == 6


def test_no_queries():
    model = open_model(rows)
    tokens = model.tokenize(TEXT)
    assert model.logits(tokens, from_rows([], 5)).shape == (0, 3)


def test_a_callable_object_has_the_name_of_its_class():
    class Remote:
        def __call__(self, texts: list[str]) -> Any:
            return log_odds(texts)

    assert open_model(Remote()).name == "Remote"
