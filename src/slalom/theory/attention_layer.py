"""The one-layer attention classifier of Lopardo, Precioso and Garreau (maths 5), as a Hugging Face model.

    f = (1/K) Σ_heads W_ℓ Σ_t α_t W_v e_t,   α = softmax_t(q·k_t/√d_att),   q asked by [CLS], the first token

No bias, norm or feed-forward part. Two options go beyond the paper: a skip connection, and a read-out that
averages over all positions instead of reading [CLS] alone.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from slalom.errors import InputError

CLS, UNK, PAD = "[CLS]", "<UNK>", "[PAD]"
SPECIAL = (PAD, UNK, CLS)
"""The first words of every vocabulary: their ids are 0, 1 and 2."""

ReadOut = Literal["cls", "mean"]


class AttentionLayerConfig(PretrainedConfig):
    """Sizes and options of an `AttentionLayer`; the defaults are the paper's.

    positions: add sinusoidal positions to the embeddings.
    pad_to_max: fill every text with <UNK> up to `max_position_embeddings`, as the paper does; the filling
        takes part in the attention. Otherwise a text is as long as it is, and padding of batches is masked.
    read_out: the attention that [CLS] gets ("cls"), or that of all positions, averaged ("mean").
    skip: add the embedding itself to what is read, with weights of its own.
    initializer_range: standard deviation of new embeddings; a small one trains better.

    Example:
        >>> AttentionLayerConfig(vocab_size=5).num_attention_heads
        6
    """

    model_type = "slalom-attention-layer"

    def __init__(
        self,
        vocab_size: int = len(SPECIAL),
        hidden_size: int = 128,
        attention_size: int = 64,
        value_size: int = 64,
        num_attention_heads: int = 6,
        max_position_embeddings: int = 256,
        positions: bool = True,
        pad_to_max: bool = False,
        read_out: ReadOut = "cls",
        skip: bool = False,
        initializer_range: float = 0.1,
        **kwargs: object,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.attention_size = attention_size
        self.value_size = value_size
        self.num_attention_heads = num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.positions = positions
        self.pad_to_max = pad_to_max
        self.read_out = read_out
        self.skip = skip
        self.initializer_range = initializer_range
        if read_out not in ("cls", "mean"):
            raise InputError(f"read_out must be 'cls' or 'mean'; got {read_out!r}")
        for name, i in (
            ("pad_token_id", 0),
            ("unk_token_id", 1),
            ("cls_token_id", 2),
            ("num_hidden_layers", 1),
        ):
            kwargs.setdefault(name, i)
        super().__init__(**kwargs)  # type: ignore[arg-type]


class AttentionLayer(PreTrainedModel):
    """The classifier; its two logits are (0, f), so that f is the log-odds of the second class.

    Example:
        >>> AttentionLayer(AttentionLayerConfig(vocab_size=5))(torch.tensor([[2, 3, 4]])).logits.shape
        torch.Size([1, 2])
    """

    config_class = AttentionLayerConfig
    config: AttentionLayerConfig

    def __init__(self, config: AttentionLayerConfig):
        super().__init__(config)
        heads, width = config.num_attention_heads, config.hidden_size
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.query = nn.Parameter(torch.empty(heads, config.attention_size, width))
        self.key = nn.Parameter(torch.empty(heads, config.attention_size, width))
        self.value = nn.Parameter(torch.empty(heads, config.value_size, width))
        self.read = nn.Parameter(torch.empty(heads, config.value_size))
        self.skip = nn.Parameter(torch.empty(width)) if config.skip else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def _init_weights(self, module: nn.Module) -> None:
        """Maps normal with variance 1/inputs, the skip connection zero."""
        for name, weight in module.named_parameters(recurse=False):
            if name == "skip":
                nn.init.zeros_(weight)
            else:
                embeds = module is self.embedding
                nn.init.normal_(
                    weight, std=self.config.initializer_range if embeds else weight.shape[-1] ** -0.5
                )

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutput | tuple[object, ...]:
        """`inputs_embeds` are embeddings without positions; attentions are (B, heads, T, T), [CLS] first."""
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("give either input_ids or inputs_embeds")
        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        e, mask = self._padded(x, attention_mask)
        if self.config.positions:
            e = e + sinusoids(e.shape[1], e.shape[2], self.config.max_position_embeddings).to(e)
        everywhere = bool(output_attentions) or self.config.read_out == "mean"
        attention = self._attend(e, mask, everywhere)
        f = self._read(e, mask, attention)
        logits = torch.stack([torch.zeros_like(f), f], dim=-1)
        output = SequenceClassifierOutput(
            loss=None if labels is None else nn.functional.cross_entropy(logits, labels),  # type: ignore[arg-type]
            logits=logits,  # type: ignore[arg-type]
            attentions=(attention,) if output_attentions else None,  # type: ignore[arg-type]
        )
        return output if return_dict in (None, True) else cast("tuple[object, ...]", output.to_tuple())

    def _padded(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Embeddings with the <UNK> filling, and which positions take part."""
        length, limit = x.shape[1], self.config.max_position_embeddings
        present = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask.bool()
        if length == 0 or not bool(present[:, 0].all()):
            raise InputError("every sequence must begin with its [CLS] token; pad on the right")
        if length > limit and (self.config.positions or self.config.pad_to_max):
            raise InputError(f"the layer has {limit} positions, but a sequence of {length} was given; cut it")
        if not self.config.pad_to_max:
            return x, present
        unknown = self.embedding.weight[self.config.unk_token_id]
        x = torch.where(present[..., None], x, unknown)
        x = torch.cat([x, unknown.expand(len(x), limit - length, -1)], dim=1)
        return x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)

    def _attend(self, e: Tensor, mask: Tensor, everywhere: bool) -> Tensor:
        """(B, heads, R, T): the rows that are asked for, or only that of [CLS]."""
        asking = e if everywhere else e[:, :1]
        q = torch.einsum("brd,had->bhra", asking, self.query)
        scores = torch.einsum("bhra,had->bhrd", q, self.key) @ e[:, None].transpose(-1, -2)
        scores = scores * self.config.attention_size**-0.5
        return scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(dim=-1)

    def _read(self, e: Tensor, mask: Tensor, attention: Tensor) -> Tensor:
        """(B,) f."""
        if self.config.read_out == "cls":
            weights = torch.zeros_like(mask, dtype=e.dtype)
            weights[:, 0] = 1.0
        else:
            weights = mask.to(e.dtype) / mask.sum(dim=1, keepdim=True)
        readers = weights[:, : attention.shape[2]]
        told = torch.einsum("bhrt,br->bht", attention, readers) @ e
        direction = torch.einsum("ho,hod->hd", self.read, self.value) / self.config.num_attention_heads
        f = torch.einsum("bhd,hd->b", told, direction)
        return f if self.skip is None else f + (weights[:, None] @ e)[:, 0] @ self.skip


def sinusoids(length: int, width: int, period: int) -> Tensor:
    """(length, width): coordinates 2i − 1 and 2i of position t are sin and cos of t / period^(2i/width).

    Example:
        >>> sinusoids(length=1, width=2, period=10).round(decimals=4).tolist()  # sin 0.1, cos 0.1
        [[0.0998, 0.995]]
    """
    t = torch.arange(1, length + 1, dtype=torch.float64)[:, None]
    pair = torch.arange(2, width + 2, 2, dtype=torch.float64)
    angle = t / period ** (pair / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


# So that a saved layer opens like any other model once this module is imported.
AutoConfig.register(AttentionLayerConfig.model_type, AttentionLayerConfig, exist_ok=True)
AutoModelForSequenceClassification.register(AttentionLayerConfig, AttentionLayer, exist_ok=True)


def word_tokenizer(words: Sequence[str], max_length: int = 256) -> PreTrainedTokenizerFast:
    """A tokenizer over whole words in lower case: [CLS] before every text, <UNK> for all other words.

    Example:
        >>> word_tokenizer(["good", "film"])("Good film!").input_ids
        [2, 3, 4, 1]
    """
    names = [*SPECIAL, *words]
    if len(set(names)) != len(names):
        raise InputError(f"words must be distinct and none of {', '.join(SPECIAL)}")
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(names)}, unk_token=UNK))
    tokenizer.normalizer = Lowercase()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = BertPreTokenizer()  # type: ignore[assignment]
    tokenizer.post_processor = TemplateProcessing(  # type: ignore[assignment]
        single=f"{CLS} $A", special_tokens=[(CLS, names.index(CLS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNK,
        cls_token=CLS,
        pad_token=PAD,
        padding_side="right",
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
    )
