"""The one-layer classifier: a Hugging Face model that says what its NumPy twin says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from slalom.errors import InputError
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.perturb import from_keep
from slalom.theory.attention_layer import AttentionLayerConfig, sinusoids, word_tokenizer
from slalom.theory.layer import layer, look
from theory_layers import WORDS, ids_of, make

TEXT = "a good film with a good cast"
KINDS: list[dict[str, Any]] = [
    {},
    {"positions": False},
    {"pad_to_max": True},
    {"read_out": "mean"},
    {"skip": True},
    {"read_out": "mean", "skip": True, "pad_to_max": True},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_model_and_its_numpy_twin_agree(kind: dict[str, Any]) -> None:
    model, tokenizer = make(**kind)
    ids = ids_of(tokenizer, TEXT)
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]), output_attentions=True)
    seen = look(layer(model), ids)
    assert output.logits[0].tolist() == pytest.approx([0.0, seen.output], abs=1e-12)
    rows = seen.attention.shape[1]
    np.testing.assert_allclose(output.attentions[0][0, :, :rows].numpy(), seen.attention, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_padding_of_a_batch_changes_nothing(kind: dict[str, Any]) -> None:
    model, tokenizer = make(**kind)
    texts = [TEXT, "bad", "the plot is not good"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        together = model(**batch).logits
        alone = torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-12, rtol=0)


def test_embeddings_and_labels_are_accepted_as_by_any_hugging_face_model() -> None:
    model, tokenizer = make()
    batch = tokenizer([TEXT, TEXT], return_tensors="pt")
    embeds = model.get_input_embeddings()(batch["input_ids"])
    labels = torch.tensor([0, 1])
    by_ids, by_embeds = model(**batch, labels=labels), model(inputs_embeds=embeds)
    torch.testing.assert_close(by_ids.logits, by_embeds.logits)
    expected = torch.nn.functional.cross_entropy(by_ids.logits, labels)
    assert by_ids.loss.item() == pytest.approx(expected.item())
    assert model(**batch, return_dict=False)[0].equal(by_ids.logits)


def test_positions_are_the_papers() -> None:
    table = sinusoids(5, 6, 32).numpy()
    for t in range(1, 6):
        for i in range(1, 4):  # coordinates are counted from 1: 2i − 1 is a sine, 2i a cosine
            angle = t / 32 ** (2 * i / 6)
            assert table[t - 1, 2 * i - 2] == pytest.approx(np.sin(angle))
            assert table[t - 1, 2 * i - 1] == pytest.approx(np.cos(angle))


def test_a_saved_layer_opens_again(tmp_path: Any) -> None:
    model, tokenizer = make(skip=True)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path, dtype=torch.float64)
    same = AutoTokenizer.from_pretrained(tmp_path)
    batch = same(TEXT, return_tensors="pt")
    assert batch["input_ids"].tolist() == [ids_of(tokenizer, TEXT)]
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits, atol=0, rtol=0)


def test_the_tokenizer_knows_words_and_nothing_else() -> None:
    _, tokenizer = make()
    ids = ids_of(tokenizer, "A Zebra, <UNK> good")
    names = tokenizer.convert_ids_to_tokens(ids)
    assert names == ["[CLS]", "a", "<UNK>", "<UNK>", "<UNK>", "good"]
    with pytest.raises(InputError, match="distinct"):
        word_tokenizer(["a", "a"])


def test_the_librarys_model_access_takes_the_layer() -> None:
    model, tokenizer = make()
    opened = open_model(model, tokenizer)
    tokens = opened.tokenize(TEXT)
    assert tokens.strings == tuple(TEXT.split())
    keep = np.ones((2, len(tokens)), dtype=bool)
    keep[1, 1] = False
    answers = Ask(opened, tokens)(from_keep(keep))
    shorter = ids_of(tokenizer, "a film with a good cast")
    expected = [look(layer(model), ids).output for ids in (ids_of(tokenizer, TEXT), shorter)]
    np.testing.assert_allclose(answers[:, 1], expected, atol=1e-12)


def test_what_the_layer_refuses() -> None:
    model, tokenizer = make(max_position_embeddings=8)
    ids = torch.tensor([ids_of(tokenizer, " ".join(WORDS[:9]))])
    with pytest.raises(InputError, match="8 positions"):
        model(input_ids=ids)
    with pytest.raises(InputError, match="8 positions"):
        look(layer(model), ids[0].numpy())
    with pytest.raises(InputError, match="either"):
        model()
    with pytest.raises(InputError, match="right"):
        model(input_ids=ids[:, :3], attention_mask=torch.tensor([[0, 1, 1]]))
    with pytest.raises(InputError, match="one sequence"):
        look(layer(model), ids.numpy())
    with pytest.raises(InputError, match="read_out"):
        AttentionLayerConfig(read_out="max")  # type: ignore[arg-type]
