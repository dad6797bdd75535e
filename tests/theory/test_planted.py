from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from slalom.errors import InputError
from slalom.surrogate import Slalom
from slalom.theory.planted import SlalomTransformer, plant, plant_heads, planted_function

WORDS = ("the", "film", "isn't", "great", ",", "is", "it?")


def parameters(k: int, d: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(scale=2, size=d), rng.normal(scale=3, size=(d, k))


def sequences(d: int, n: int = 20) -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, d, rng.integers(1, 13)).tolist() for _ in range(n)]


def logits_of(model: SlalomTransformer, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].numpy()


def test_forward_is_the_formula_for_log_odds():
    s, v = parameters(1)
    model, _ = plant(s, v[:, 0])
    truth = Slalom(v, s)
    for ids in sequences(7):
        np.testing.assert_allclose(logits_of(model, ids), [0.0, truth.output(ids)[0]], atol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_forward_is_the_formula_for_classes(k: int):
    s, v = parameters(k)
    model, _ = plant(s, v)
    truth = Slalom(v - v.mean(axis=1, keepdims=True), s)
    assert model.config.num_labels == k
    for ids in sequences(7):
        logits = logits_of(model, ids)
        np.testing.assert_allclose(logits, truth.output(ids), atol=1e-12)
        assert abs(logits.sum()) < 1e-12


def test_attention_is_the_softmax_of_the_importances():
    s, v = parameters(3)
    model, _ = plant(s, v)
    ids = [0, 3, 3, 6, 1, 0]
    with torch.no_grad():
        attention = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions[0].numpy()
    assert attention.shape == (1, 1, 6, 6)
    expected = np.exp(s[ids]) / np.exp(s[ids]).sum()
    np.testing.assert_allclose(attention[0, 0], np.tile(expected, (6, 1)), atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("heads", "layers"), [(3, 1), (1, 3), (4, 6)])
def test_with_several_heads_and_layers_it_is_the_same_slalom(k: int, heads: int, layers: int, tmp_path):
    """Prop. 5.1: further heads and layers attend, but elsewhere and to no effect."""
    s, v = parameters(k)
    model, _ = plant(s, v, heads=heads, layers=layers)
    alone, _ = plant(s, v)
    for ids in sequences(7):
        np.testing.assert_allclose(logits_of(model, ids), logits_of(alone, ids), atol=1e-12)
    with torch.no_grad():
        attentions = model(input_ids=torch.tensor([[0, 3, 6]]), output_attentions=True).attentions
    assert [a.shape for a in attentions] == [(1, heads, 3, 3)] * layers
    if heads > 1:
        assert (attentions[0][0, 0] - attentions[0][0, 1]).abs().max() > 0.05
    model.save_pretrained(tmp_path)
    again = SlalomTransformer.from_pretrained(tmp_path)
    np.testing.assert_allclose(logits_of(again, [1, 2, 2]), logits_of(model, [1, 2, 2]), atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_several_slaloms_are_heads_of_one_layer(k: int):
    planted = [Slalom(v - (k > 1) * v.mean(axis=1, keepdims=True), s) for s, v in map(parameters, [k] * 3)]
    planted = [Slalom(one.values, np.roll(one.importances, i)) for i, one in enumerate(planted)]
    model, _ = plant_heads(planted, layers=2)
    for ids in sequences(7):
        want = np.mean([one.output(ids) for one in planted], axis=0)
        np.testing.assert_allclose(logits_of(model, ids)[-k:], want, atol=1e-12)


def test_heads_that_no_transformer_has_are_refused():
    s, v = parameters(1)
    with pytest.raises(InputError, match="background"):
        plant_heads([Slalom(v, s, np.zeros(1), 0.0)])
    with pytest.raises(InputError, match="same tokens"):
        plant_heads([Slalom(v, s), Slalom(v[:2], s[:2])])
    with pytest.raises(InputError, match="at least 1"):
        plant(s, v, heads=0)


def test_repeating_a_token_changes_nothing():
    """Prop. 4.1."""
    s, v = parameters(3)
    model, _ = plant(s, v)
    for token in range(7):
        one = logits_of(model, [token])
        for n in (2, 3, 9):
            np.testing.assert_allclose(logits_of(model, [token] * n), one, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side: Any):
    s, v = parameters(1)
    model, tokenizer = plant(s, v, WORDS)
    tokenizer.padding_side = side
    texts = ["the film", "it?", "the film isn't great , is it?"]
    with torch.no_grad():
        together = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.numpy()
    for row, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(row, logits_of(model, tokenizer(text)["input_ids"]), atol=1e-12)


def test_the_tokenizer_adds_nothing():
    _, tokenizer = plant(*parameters(1), WORDS)
    text = "it? the film isn't  great , great"
    encoded = tokenizer(text, return_offsets_mapping=True)
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == text.split()
    assert [text[a:b] for a, b in encoded["offset_mapping"]] == text.split()
    assert encoded["input_ids"] == [WORDS.index(word) for word in text.split()]


@pytest.mark.parametrize("k", [1, 3])
def test_saved_and_loaded_like_any_other_model(k: int, tmp_path):
    s, v = parameters(k)
    model, tokenizer = plant(s, v, WORDS)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    ids = AutoTokenizer.from_pretrained(tmp_path)("great , isn't it?")["input_ids"]
    for loader in (SlalomTransformer, AutoModelForSequenceClassification):
        again = loader.from_pretrained(tmp_path)
        assert isinstance(again, SlalomTransformer)
        assert again.dtype == torch.float64
        np.testing.assert_allclose(logits_of(again, ids), logits_of(model, ids), atol=1e-12)


def test_embeddings_as_inputs_carry_gradients():
    s, v = parameters(1)
    model, _ = plant(s, v)
    ids = torch.tensor([[2, 5, 5]])
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
    output = model(inputs_embeds=embeddings, return_dict=False)[0][0, 1]
    output.backward()
    truth = Slalom(v, s)
    alpha, _ = truth.shares([2, 5, 5])
    assert embeddings.grad is not None
    # Along the coordinates of s and v: α (v − F) and α.
    np.testing.assert_allclose(embeddings.grad[0, :, 1], truth.gradient([2, 5, 5])[:, 0], atol=1e-12)
    np.testing.assert_allclose(embeddings.grad[0, :, 2], alpha, atol=1e-12)


def test_inputs_the_model_refuses():
    model, _ = plant(*parameters(1))
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model()
    for ids, mask in (
        (torch.zeros((1, 0), dtype=torch.int64), None),
        (torch.tensor([[0], [1]]), torch.tensor([[1], [0]])),
    ):
        with pytest.raises(ValueError, match="empty sequence has no value"):
            model(input_ids=ids, attention_mask=mask)


@pytest.mark.parametrize("k", [1, 3])
def test_the_function_and_the_transformer_agree(k: int):
    s, v = parameters(k)
    model, tokenizer = plant(s, v, WORDS)
    function = planted_function(s, v, WORDS)
    texts = [" ".join(WORDS[i] for i in ids) for ids in sequences(7)]
    outputs = function(texts)
    assert outputs.shape == ((20,) if k == 1 else (20, 3))
    for text, output in zip(texts, outputs, strict=True):
        logits = logits_of(model, tokenizer(text)["input_ids"])
        np.testing.assert_allclose(output, logits[1] if k == 1 else logits, atol=1e-12)
    assert len(function([])) == 0


def test_the_function_from_mappings():
    function = planted_function({"good": 1.0, "bad": 0.0}, {"bad": -2.0, "good": 3.0})
    np.testing.assert_allclose(
        function(["good", "bad bad", "bad good"]), [3, -2, (3 * np.e - 2) / (1 + np.e)]
    )
    classes = planted_function({"good": 1.0, "bad": 0.0}, {"bad": [1.0, 3.0], "good": [4.0, 0.0]})
    np.testing.assert_allclose(classes(["bad", "good"]), [[-1, 1], [2, -2]])
    with pytest.raises(InputError, match="outside the planted vocabulary: awful"):
        function(["good awful"])
    with pytest.raises(InputError, match="empty sequence"):
        function([" "])


@pytest.mark.parametrize(
    ("importances", "values", "words", "message"),
    [
        (np.zeros(2), np.zeros(3), None, "one length"),
        (np.zeros(0), np.zeros(0), None, "one length"),
        (np.zeros(2), np.zeros(2), ("a",), "one length"),
        (np.zeros((2, 1)), np.zeros(2), None, "one length"),
        (np.array([0, np.inf]), np.zeros(2), None, "finite"),
        (np.zeros(2), np.zeros(2), ("a", "a"), "distinct"),
        (np.zeros(2), np.zeros(2), ("a", "b c"), "blanks"),
        (np.zeros(2), np.zeros(2), ("a", "[PAD]"), "PAD"),
    ],
)
def test_what_cannot_be_planted(importances, values, words, message):
    with pytest.raises(InputError, match=message):
        plant(importances, values, words)


def test_mappings_must_agree():
    with pytest.raises(InputError, match="both as mappings"):
        planted_function({"a": 0.0}, np.zeros(1))
    with pytest.raises(InputError, match="different words"):
        planted_function({"a": 0.0}, {"b": 0.0})


def test_the_package_alone_imports_no_torch():
    modules = "slalom.theory, slalom.shapley, slalom.fit.ana, slalom.fit.sgd, slalom.fit.linear"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
