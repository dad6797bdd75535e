"""The closed-form gradient of the one-layer classifier against autograd."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from slalom.theory.attention_layer import AttentionLayer
from slalom.theory.attributions import readings
from slalom.theory.layer import attention_average, attention_max, gradient, gradient_as_key, layer, look
from theory_layers import ids_of, make

TEXT = "a good film with a very good cast and plot"
KINDS: list[dict[str, Any]] = [
    {"positions": positions, "read_out": read_out, "skip": skip}
    for positions, read_out, skip in product((True, False), ("cls", "mean"), (False, True))
]


def by_autograd(model: AttentionLayer, ids: list[int]) -> np.ndarray:
    embeds = model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    model(inputs_embeds=embeds).logits[0, 1].backward()
    assert embeds.grad is not None
    return embeds.grad[0].numpy()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("heads", [1, 6])
def test_gradient_equals_autograd_at_every_position(kind: dict[str, Any], heads: int) -> None:
    model, tokenizer = make(num_attention_heads=heads, **kind)
    ids = ids_of(tokenizer, TEXT)
    np.testing.assert_allclose(gradient(look(layer(model), ids)), by_autograd(model, ids), atol=1e-12)


@pytest.mark.parametrize("read_out", ["cls", "mean"])
def test_gradient_with_the_papers_sizes_and_filling(read_out: str) -> None:
    model, tokenizer = make(
        hidden_size=128,
        attention_size=64,
        value_size=64,
        num_attention_heads=6,
        max_position_embeddings=64,
        pad_to_max=True,
        read_out=read_out,
    )
    ids = ids_of(tokenizer, TEXT)
    filled = ids + [model.config.unk_token_id] * (64 - len(ids))
    difference = gradient(look(layer(model), ids)) - by_autograd(model, filled)
    assert np.abs(difference).max() < 1e-12


def test_only_the_read_outs_own_term_separates_the_published_formula_from_autograd() -> None:
    model, tokenizer = make()
    ids = ids_of(tokenizer, TEXT)
    difference = np.abs(gradient_as_key(look(layer(model), ids)) - by_autograd(model, ids)).max(axis=1)
    assert difference[1:].max() < 1e-12
    assert difference[0] > 1e-3  # at [CLS] the published formula is wrong


def test_readings() -> None:
    model, tokenizer = make()
    seen = look(layer(model), ids_of(tokenizer, TEXT))
    g, read = gradient(seen), readings(seen)
    for t in range(len(g)):
        assert read.average[t] == pytest.approx(sum(g[t]) / len(g[t]))
        assert read.l1[t] == pytest.approx(np.linalg.norm(g[t], 1))
        assert read.l2[t] == pytest.approx(np.linalg.norm(g[t], 2))
        assert read.times_input[t] == pytest.approx(np.dot(g[t], seen.embeddings[t]))


def test_attention_readings_come_from_the_row_of_cls() -> None:
    model, tokenizer = make()
    ids = ids_of(tokenizer, TEXT)
    row = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions[0][0, :, 0].detach().numpy()
    seen = look(layer(model), ids)
    np.testing.assert_allclose(attention_average(seen), row.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(attention_max(seen), row.max(axis=0), atol=1e-12)
    assert attention_average(seen).sum() == pytest.approx(1.0)
