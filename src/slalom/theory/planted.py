"""Models that are a given SLALOM: the transformer of Prop. 5.1 (maths 4) and a plain function over texts.

They are the best test of an explainer there is: it must give the planted values and importances back.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from slalom.errors import InputError
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray

_PAD = "[PAD]"


class SlalomConfig(PretrainedConfig):
    """Of a `SlalomTransformer`: H SLALOMs with K values need a hidden size of at least 1 + H + (H + 1) K.

    Example:
        >>> SlalomConfig(vocab_size=3).hidden_size
        4
    """

    model_type = "slalom"

    def __init__(
        self,
        vocab_size: int = 1,
        n_values: int = 1,
        hidden_size: int | None = None,
        num_attention_heads: int = 1,
        num_hidden_layers: int = 1,
        **kwargs: object,
    ):
        self.vocab_size = vocab_size
        self.n_values = n_values
        self.hidden_size = 2 + 2 * n_values if hidden_size is None else hidden_size
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        kwargs.setdefault("num_labels", max(n_values, 2))
        super().__init__(**kwargs)  # type: ignore[arg-type]


class _Block(nn.Module):
    """Attention of H heads, each as wide as the state, and a feed-forward part, with residuals."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (_linear(width, heads * width) for _ in range(3))
        self.project = _linear(heads * width, width)
        self.expand, self.contract = _linear(width, 4 * width), _linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """The new states, and the attention (B, heads, T, T)."""
        q, k, v = (
            m(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / x.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
        if x.shape[1] == 0 or torch.isneginf(scores).all(dim=-1).any():
            raise ValueError("an empty sequence has no value under a SLALOM without background")
        attention = scores.softmax(dim=-1)
        x = x + self.project((attention @ v).transpose(1, 2).flatten(2))
        return x + self.contract(torch.relu(self.expand(x))), attention


class SlalomTransformer(PreTrainedModel):
    """Transformer layers without positions and special tokens, in double precision.

    Embedding, attention, projection, feed-forward and head are ordinary weights, with residuals; `plant` sets
    them so that the whole is a SLALOM, `plant_heads` an average of several.
    """

    config_class = SlalomConfig
    config: SlalomConfig

    def __init__(self, config: SlalomConfig):
        super().__init__(config)
        width = config.hidden_size
        self.embedding = nn.Embedding(config.vocab_size, width, dtype=torch.float64)
        first = _Block(width, config.num_attention_heads)
        # The first layer's weights have the names they had when there was no other.
        self.query, self.key, self.value, self.project = first.query, first.key, first.value, first.project
        self.expand, self.contract = first.expand, first.contract
        self.deeper = nn.ModuleList(
            _Block(width, config.num_attention_heads) for _ in range(config.num_hidden_layers - 1)
        )
        self.classifier = _linear(width, config.num_labels or 2)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def _init_weights(self, module: nn.Module) -> None:
        """Weights that are neither loaded nor planted stay zero."""
        for weight in module.parameters(recurse=False):
            nn.init.zeros_(weight)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutput | tuple[object, ...]:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        attentions: list[torch.Tensor] = []
        for block in (self, *self.deeper):
            x, attention = _Block.forward(block, x, attention_mask)  # type: ignore[arg-type]
            attentions.append(attention)
        # All positions ask the same question, so all hold the same answer; the first is read.
        output = SequenceClassifierOutput(
            logits=self.classifier(x[:, 0]),
            attentions=tuple(attentions) if output_attentions else None,  # type: ignore[arg-type]
        )
        return output if return_dict in (None, True) else cast("tuple[object, ...]", output.to_tuple())

    @property
    def heads(self) -> int:
        return self.config.num_attention_heads


# So that a planted directory opens like any other once this module is imported.
AutoConfig.register(SlalomConfig.model_type, SlalomConfig, exist_ok=True)
AutoModelForSequenceClassification.register(SlalomConfig, SlalomTransformer, exist_ok=True)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False, dtype=torch.float64)


def plant(
    importances: FloatArray,
    values: FloatArray,
    words: Sequence[str] | None = None,
    *,
    heads: int = 1,
    layers: int = 1,
) -> tuple[SlalomTransformer, PreTrainedTokenizerFast]:
    """A transformer that is the SLALOM with these importances (d,) and values, and its tokenizer.

    Values (d,) or (d, 1) are log-odds: the logits are (0, F). Values (d, K) give K logits, centred.
    A text is words of the vocabulary with blanks between them ("t0", "t1", … if `words` is not given).
    heads, layers: further heads attend to values and say nothing, further layers pass on what they get, as
    in the paper's proof.

    Example:
        >>> model, tokenizer = plant(np.array([0, np.log(2)]), np.array([3, -1]), ["good", "bad"])
        >>> round(model(**tokenizer("good bad", return_tensors="pt")).logits[0, 1].item(), 4)
        0.3333
    """
    surrogate, names = _planted(importances, values, words)
    return _transformer([surrogate], names, heads, layers)


def plant_heads(
    slaloms: Sequence[Slalom], words: Sequence[str] | None = None, *, layers: int = 1
) -> tuple[SlalomTransformer, PreTrainedTokenizerFast]:
    """A transformer of as many heads as SLALOMs are given, which is their average (maths 3h).

    Example:
        >>> one, other = (Slalom(np.array([3.0, v]), np.zeros(2)) for v in (-1.0, 1.0))
        >>> plant_heads([one, other])[0](torch.tensor([[0, 1]])).logits[0, 1].item()
        1.5
    """
    if any(np.isfinite(one.background_importance) for one in slaloms):
        raise InputError("a transformer without special tokens has no background; give SLALOMs without one")
    planted = [_planted(one.importances, one.values, words) for one in slaloms]
    if not planted or len({one.values.shape for one, _ in planted}) != 1:
        raise InputError("give one SLALOM or more, all over the same tokens and outputs")
    return _transformer([one for one, _ in planted], planted[0][1], len(planted), layers)


def _transformer(
    slaloms: Sequence[Slalom], names: tuple[str, ...], heads: int, layers: int
) -> tuple[SlalomTransformer, PreTrainedTokenizerFast]:
    if heads < len(slaloms) or layers < 1:
        raise InputError(f"heads and layers must be at least 1; got {heads} and {layers}")
    n, (d, k) = len(slaloms), slaloms[0].values.shape
    ids = {word: i for i, word in enumerate([*names, _PAD])}
    width = 1 + n + (n + 1) * k
    config = SlalomConfig(d + 1, k, width, heads, layers, pad_token_id=d, dtype="float64")
    model = SlalomTransformer(config)
    # e(τ) = (1, s_1 … s_n, v_1 … v_n, 0); padding is masked, so only its constant 1 is ever read.
    embedding = np.zeros((d + 1, width))
    embedding[:, 0] = 1.0
    embedding[:d, 1 : 1 + n] = np.transpose([one.importances for one in slaloms])
    embedding[:d, 1 + n : 1 + n + n * k] = np.concatenate([one.values for one in slaloms], axis=1)
    answer = 1 + n + n * k
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.embedding.weight.copy_(torch.from_numpy(embedding))
        maps = [(model.query, model.key), *((block.query, block.key) for block in model.deeper)]
        for depth, (query, key) in enumerate(maps):
            for h in range(heads):
                query.weight[h * width, 0] = width**0.5  # type: ignore[index, union-attr]
                key.weight[h * width, 1 + h if depth == 0 and h < n else 1 + n] = 1.0  # type: ignore[index, union-attr]
        for h in range(n):
            for j in range(k):
                model.value.weight[h * width + j, 1 + n + h * k + j] = 1.0
                model.project.weight[answer + j, h * width + j] = 1.0 / n
        for j in range(k):
            model.classifier.weight[1 if k == 1 else j, answer + j] = 1.0
    return model.eval(), _tokenizer(ids)


def _tokenizer(ids: dict[str, int]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(WordLevel(ids))  # no unknown token: a foreign word is an error
    tokenizer.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=_PAD, model_input_names=["input_ids", "attention_mask"]
    )


def planted_function(
    importances: FloatArray | Mapping[str, float],
    values: FloatArray | Mapping[str, float] | Mapping[str, Sequence[float]],
    words: Sequence[str] | None = None,
) -> Callable[[list[str]], FloatArray]:
    """A black box over texts that is the same SLALOM: (N,) log-odds, or (N, K) centred logits where K ≥ 2.

    Importances and values are arrays in the order of `words`, or mappings from words.

    Example:
        >>> function = planted_function({"good": 0, "bad": np.log(2)}, {"good": 3, "bad": -1})
        >>> function(["good bad"]).round(4).tolist()
        [0.3333]
    """
    if isinstance(importances, Mapping) or isinstance(values, Mapping):
        importances, values, words = _from_mappings(importances, values, words)
    surrogate, names = _planted(importances, values, words)
    ids = {word: i for i, word in enumerate(names)}

    def function(texts: list[str]) -> FloatArray:
        rows = [text.split() for text in texts]
        unknown = sorted({word for row in rows for word in row} - ids.keys())
        if unknown:
            raise InputError(f"words outside the planted vocabulary: {', '.join(unknown[:5])}")
        outputs = [surrogate.output([ids[word] for word in row]) for row in rows]
        result = np.reshape(outputs, (len(rows), surrogate.values.shape[1]))
        return result[:, 0] if result.shape[1] == 1 else result

    return function


def _from_mappings(
    importances: FloatArray | Mapping[str, float],
    values: FloatArray | Mapping[str, float] | Mapping[str, Sequence[float]],
    words: Sequence[str] | None,
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    if not isinstance(importances, Mapping) or not isinstance(values, Mapping):
        raise InputError("give importances and values both as mappings from words, or both as arrays")
    names = tuple(importances if words is None else words)
    if set(names) != set(importances) or set(names) != set(values):
        raise InputError("importances, values and words name different words")
    s = np.array([importances[word] for word in names], dtype=float)
    return s, np.array([values[word] for word in names], dtype=float), names


def _planted(
    importances: FloatArray, values: FloatArray, words: Sequence[str] | None
) -> tuple[Slalom, tuple[str, ...]]:
    s, v = np.asarray(importances, dtype=float), np.asarray(values, dtype=float)
    v = v[:, None] if v.ndim == 1 else v
    names = tuple(f"t{i}" for i in range(len(s))) if words is None else tuple(words)
    if s.ndim != 1 or v.ndim != 2 or not 0 < len(s) == len(v) == len(names):
        raise InputError(
            f"importances {s.shape}, values {v.shape} and {len(names)} words must have one length, at least 1"
        )
    if not (np.isfinite(s).all() and np.isfinite(v).all()):
        raise InputError("planted importances and values must be finite")
    if len({*names, _PAD}) != len(names) + 1 or any(len(word.split()) != 1 for word in names):
        raise InputError(f"words must be distinct, without blanks, and none of them {_PAD}")
    # Two or more classes: only differences between them count, so Σ_k v_k = 0 (maths 1a).
    return Slalom(v if v.shape[1] == 1 else v - v.mean(axis=1, keepdims=True), s), names
