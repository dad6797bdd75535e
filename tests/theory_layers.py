"""Random one-layer classifiers for the tests of the theory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from slalom.theory.attention_layer import AttentionLayer, AttentionLayerConfig, word_tokenizer
from slalom.theory.layer import Masked

WORDS = (
    *("the", "a", "film", "is", "was", "plot", "cast", "with", "of", "it"),
    *("good", "bad", "great", "dull", "not", "very"),
)


def make(
    words: tuple[str, ...] = WORDS, seed: int = 0, **options: Any
) -> tuple[AttentionLayer, PreTrainedTokenizerFast]:
    """A layer with random weights in double precision, and its tokenizer."""
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "hidden_size": 12,
        "attention_size": 5,
        "value_size": 4,
        "num_attention_heads": 3,
        "max_position_embeddings": 20,
        "initializer_range": 1.0,
    }
    config = AttentionLayerConfig(vocab_size=len(words) + 3, **{**sizes, **options})
    model = AttentionLayer(config).double().eval()
    if model.skip is not None:
        torch.nn.init.normal_(model.skip)
    return model, word_tokenizer(words, config.max_position_embeddings)


def ids_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """The ids of a text, [CLS] first."""
    return tokenizer(text)["input_ids"]  # type: ignore[return-value]


def random_document(d: int, heads: int = 2, fixed: float = 1.0, spread: float = 1.0, seed: int = 0) -> Masked:
    """The sums of a layer whose words have log-normal weights."""
    rng = np.random.default_rng(seed)
    g, g_h = np.exp(spread * rng.normal(size=(heads, d))), np.exp(0.3 * spread * rng.normal(size=(heads, d)))
    v, v_h, v_0 = rng.normal(size=(heads, d)), 0.3 * rng.normal(size=(heads, d)), rng.normal(size=heads)
    mass = np.full(heads, fixed)
    return Masked(g, g * v, g_h, g_h * v_h, mass, mass * v_0, 0.25, np.arange(1, d + 1))
