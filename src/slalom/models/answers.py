"""A causal language model read as a classifier: what it would say next, of a few given tokens."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from slalom.errors import ModelError
from slalom.tokens import IntArray

_SIZES = ("hidden_size", "num_hidden_layers", "max_position_embeddings", "n_positions", "max_seq_len")


class AnswerHead(nn.Module):
    """Answers a sequence with log-probabilities: at each of its last m places, of k tokens to come next.

    With m = 1, those of the first tokens of k answers. With k = 1, those of the m tokens of one answer, of
    which all but the last stand at the end of the sequence. The causal model inside is used as it is.
    """

    def __init__(self, causal: nn.Module, tokens: IntArray):
        super().__init__()
        self.causal = causal
        self.places = len(tokens)
        """How many places of the end are read: no sequence is shorter."""
        self.register_buffer("tokens", torch.from_numpy(tokens), persistent=False)
        names = inspect.signature(causal.forward).parameters
        self._keep = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in names), None)
        self._named = tuple(names)
        given: Any = getattr(causal, "config", None)
        given = given.get_text_config() if hasattr(given, "get_text_config") else given
        sizes = {name: getattr(given, name) for name in _SIZES if getattr(given, name, None) is not None}
        self.config = SimpleNamespace(num_labels=tokens.size, **sizes)

    def get_input_embeddings(self) -> Any:
        return getattr(self.causal, "get_input_embeddings", lambda: None)()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = False,
        output_attentions: bool | None = None,
    ) -> Any:
        more = {
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
        }
        asked = {name: value for name, value in more.items() if value is not None and name in self._named}
        if output_attentions:
            asked["output_attentions"] = True
        if self._keep is not None:
            asked[self._keep] = self.places
        output = self.causal(input_ids=input_ids, **asked)
        said = getattr(output, "logits", None)
        if not isinstance(said, torch.Tensor) or said.ndim != 3 or said.shape[1] < self.places:
            shape = tuple(said.shape) if isinstance(said, torch.Tensor) else None
            raise ModelError(
                f"{type(self.causal).__name__} gave logits of shape {shape}, not of the next token "
                "at every place; a prompt needs a causal language model"
            )
        odds = said[:, -self.places :].float().log_softmax(dim=-1)
        tokens: Any = self.tokens
        answers = odds.gather(2, tokens[None].expand(len(odds), -1, -1).to(odds.device))
        return SimpleNamespace(
            logits=answers.reshape(len(odds), -1),
            past_key_values=getattr(output, "past_key_values", None),
            attentions=getattr(output, "attentions", None),
        )
