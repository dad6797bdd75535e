"""Repeated tokens: what transformers of any depth cannot tell apart (Prop. 4.1, Cor. 4.2; maths 4).

Without positions and special tokens [τ], [τ, τ], [τ, τ, τ] … get one output, so no non-constant additive
model can be represented. The proof needs only that equal tokens have equal values: it also covers stacks
whose positions enter the attention scores and nothing else (rotary, ALiBi), which have that blind spot with
positions switched on.

The remark of section 4.3: a feed-forward part cannot store enough to undo the softmax, given positions.

A network with one hidden ReLU layer that realises every labelling of m points must have 2^m sign patterns on
them. Counting them as Bartlett, Maiorov and Meir (1998) do, with Warren's bound 2 (2e·m·degree/W)^W on the
sign patterns of m polynomials in W variables: each hidden unit splits the points in at most
2 (2e·m/(d + 1))^(d + 1) ways, and with all splits fixed the output is a polynomial of degree 2 in all W
weights. The largest m with

    m ≤ h (1 + (d + 1) log₂(2e·m/(d + 1))) + 1 + W log₂(4e·m/W)

bounds the number of input-output pairs, of the order d·h·log(d·h); sequences number |V|^C.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
from torch import nn

from slalom.errors import InputError
from slalom.tokens import FloatArray

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

Kind = Literal["encoder", "decoder", "rotary", "alibi"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "rotary", "alibi")


def random_stack(
    kind: Kind, *, layers: int = 2, heads: int = 2, width: int = 32, vocabulary: int = 50, seed: int = 0
) -> nn.Module:
    """A sequence classifier with random weights in double precision.

    encoder: BERT, which reads the first token; decoder: GPT-2, rotary: Llama, alibi: BLOOM read the last.

    Example:
        >>> random_stack("rotary", vocabulary=9)(torch.tensor([[1, 2]])).logits.shape
        torch.Size([1, 2])
    """
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    from transformers import AutoModelForSequenceClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = _config(kind, layers, heads, width)
        config.vocab_size = vocabulary
        model = cast("nn.Module", AutoModelForSequenceClassification.from_config(config))
        for weight in model.double().eval().parameters():
            # The customary initial weights are so small that a stack does next to nothing.
            torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if weight.ndim > 1 else 1.0)
    return model


def _config(kind: Kind, layers: int, heads: int, width: int) -> PretrainedConfig:
    from transformers import BertConfig, BloomConfig, GPT2Config, LlamaConfig

    if kind == "decoder":
        return GPT2Config(n_embd=width, n_layer=layers, n_head=heads, bos_token_id=0, eos_token_id=0)
    if kind == "alibi":
        return BloomConfig(hidden_size=width, n_layer=layers, n_head=heads)
    family = BertConfig if kind == "encoder" else LlamaConfig
    return family(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )


@torch.no_grad()
def repeats(
    model: nn.Module,
    tokens: Sequence[int],
    lengths: Sequence[int],
    *,
    prefix: Sequence[int] = (),
    suffix: Sequence[int] = (),
    positions: bool = True,
) -> FloatArray:
    """(tokens, lengths) the log-odds of each token repeated, between special tokens if they are given.

    positions: False tells every token that it stands at position 0.

    Example:
        >>> log_odds = repeats(random_stack("rotary"), tokens=[5], lengths=[1, 2, 3])
        >>> bool(np.ptp(log_odds) < 1e-6)
        True
    """
    result = np.empty((len(tokens), len(lengths)))
    for i, token in enumerate(tokens):
        for j, length in enumerate(lengths):
            ids = torch.tensor([[*prefix, *[token] * length, *suffix]])
            extra = {} if positions else {"position_ids": torch.zeros_like(ids)}
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits[0].double()
            result[i, j] = logits[0] if len(logits) == 1 else logits[1] - logits[0]
    return result


def frame(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that a tokenizer sets before and behind a text.

    Example:
        >>> from slalom.theory.attention_layer import word_tokenizer
        >>> frame(word_tokenizer(["a"]))
        ((2,), ())
    """
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids: list[int] = encoded["input_ids"]  # type: ignore[assignment]
    special: list[int] = encoded["special_tokens_mask"]  # type: ignore[assignment]
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
    """Of what `repeats` gives.

    Example:
        >>> drift(np.array([[1.0, 1.5], [3.0, 3.0]])).largest
        0.5
    """
    moved = np.ptp(log_odds, axis=1)
    spread = float(log_odds.mean(axis=1).std())
    return Drift(float(moved.max()), float(np.sqrt((moved**2).mean())) / spread if spread > 0 else np.inf)
