"""Repeated tokens: what transformers of any depth cannot tell apart (Prop. 4.1, Cor. 4.2; maths 4).

Without positions and special tokens [τ], [τ, τ], [τ, τ, τ] … get one output, so no non-constant additive
model can be represented. The proof needs only that equal tokens have equal values: it also covers stacks
whose positions enter the attention scores and nothing else (rotary, ALiBi), which have that blind spot with
positions switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from slalom.errors import InputError
from slalom.tokens import FloatArray

Kind = Literal["encoder", "decoder", "rotary", "alibi"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "rotary", "alibi")


def random_stack(
    kind: Kind, *, layers: int = 2, heads: int = 2, width: int = 32, vocabulary: int = 50, seed: int = 0
) -> nn.Module:
    """A sequence classifier with random weights in double precision.

    encoder: BERT, which reads the first token; decoder: GPT-2, rotary: Llama, alibi: BLOOM read the last.
    """
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _MAKERS[kind](layers, heads, width, vocabulary).double().eval()
        for weight in model.parameters():
            # The customary initial weights are so small that a stack does next to nothing.
            torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if weight.ndim > 1 else 1.0)
    return model


def _encoder(layers: int, heads: int, width: int, vocabulary: int) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
    )


def _decoder(layers: int, heads: int, width: int, vocabulary: int) -> nn.Module:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    return GPT2ForSequenceClassification(
        GPT2Config(
            vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads, bos_token_id=0, eos_token_id=0
        )
    )


def _rotary(layers: int, heads: int, width: int, vocabulary: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    return LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
    )


def _alibi(layers: int, heads: int, width: int, vocabulary: int) -> nn.Module:
    from transformers import BloomConfig, BloomForSequenceClassification

    return BloomForSequenceClassification(
        BloomConfig(vocab_size=vocabulary, hidden_size=width, n_layer=layers, n_head=heads)
    )


_MAKERS: dict[Kind, Callable[[int, int, int, int], nn.Module]] = {
    "encoder": _encoder,
    "decoder": _decoder,
    "rotary": _rotary,
    "alibi": _alibi,
}


@torch.no_grad()
def repeats(
    model: Any,
    tokens: Sequence[int],
    lengths: Sequence[int],
    *,
    prefix: Sequence[int] = (),
    suffix: Sequence[int] = (),
    positions: bool = True,
) -> FloatArray:
    """(tokens, lengths) the log-odds of each token repeated, between special tokens if they are given.

    positions: False tells every token that it stands at position 0.
    """
    result = np.empty((len(tokens), len(lengths)))
    for i, token in enumerate(tokens):
        for j, length in enumerate(lengths):
            ids = torch.tensor([[*prefix, *[token] * length, *suffix]])
            extra = {} if positions else {"position_ids": torch.zeros_like(ids)}
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits[0].double()
            result[i, j] = logits[0] if len(logits) == 1 else logits[1] - logits[0]
    return result


def frame(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that a tokenizer sets before and behind a text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    own = [i for i, mark in enumerate(special) if not mark]
    if not own:
        raise InputError("the tokenizer makes nothing but special tokens of 'a'; its frame cannot be seen")
    return tuple(ids[: own[0]]), tuple(ids[own[-1] + 1 :])


@dataclass(frozen=True)
class Drift:
    """How far repeated tokens move the log-odds."""

    largest: float
    """The largest distance between two lengths of one token."""
    share: float
    """The root mean square of such distances over the spread between tokens; that of an additive model grows
    with the number of copies without bound."""


def drift(log_odds: FloatArray) -> Drift:
    """Of what `repeats` gives."""
    moved = np.ptp(log_odds, axis=1)
    spread = float(log_odds.mean(axis=1).std())
    return Drift(float(moved.max()), float(np.sqrt((moved**2).mean())) / spread if spread > 0 else np.inf)
