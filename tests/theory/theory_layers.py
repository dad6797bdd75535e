"""Random one-layer classifiers for the tests of the theory."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from slalom.theory.attention_layer import AttentionLayer, AttentionLayerConfig, word_tokenizer

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
