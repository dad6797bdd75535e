"""The log-odds that a causal language model gives a certain answer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from slalom.errors import InputError
from slalom.models.prompt import Prompt
from slalom.models.prompted import answer_reader
from slalom.models.prompting import Prompting
from slalom.models.protocol import Activation, Explain, Facts, Question, Text, Tokenizer
from slalom.models.proxy import BlackBox
from slalom.models.torch.forward import evaluating
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

_LEAST = 1e-7
"""The smallest probability, in single precision, that the model says anything but the answer."""


class AnswerModel(BlackBox):
    """Whether a causal model gives *this* answer to a prompt, as a `Model` that can be explained.

        model = AnswerModel(causal, tokenizer, "{text}\\n\\nQuestion: Who?\\nAnswer:", "Ada Lovelace")
        tokens = model.tokenize(context)
        model.answer_log_probabilities(tokens, perturbations)  # (N, m): of each token of the answer
        model.logits(tokens, perturbations)  # (N, 2): 0 and log p / (1 - p) of the whole answer

    The prompt is fixed; queries leave out tokens of the text (group them to sentences or sources first). All
    queries are answered in batches of one length, with shared beginnings and, where the model allows it, with
    soft-removal gradients. `part` is a range of the answer's tokens (`answer_spans` has their places in the
    answer): only these are scored, given the ones before them. `chat` applies the tokenizer's chat template;
    by default where there is one. `access` is batch_tokens, engine, engine_tolerance, name, as ever.
    """

    activation: Activation = "softmax"
    labels = ("another answer", "this answer")

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        prompt: Prompt,
        answer: str,
        *,
        chat: bool | None = None,
        part: tuple[int, int] | None = None,
        **access: Any,
    ):
        self.answer = answer
        self._prompting = Prompting(tokenizer, prompt, chat)
        ids = self._prompting.answer_ids(answer)
        low, high = part or (0, len(ids))
        if not 0 <= low < high <= len(ids):
            raise InputError(f"part must be a range within the {len(ids)} tokens of the answer; got {part}")
        self.answer_ids = tuple(ids)
        self.part = low, high
        self._reader = answer_reader(module, self._prompting, ids, **access)

    @cached_property
    def answer_spans(self) -> list[tuple[int, int]]:
        """Where each token of the answer stands in it."""
        ends = [len(self.tokenizer.decode(self.answer_ids[: i + 1])) for i in range(len(self.answer_ids))]
        blank = max(0, ends[-1] - len(self.answer))  # the space in front that continues the prompt
        places = [min(max(0, end - blank), len(self.answer)) for end in ends]
        return list(zip([0, *places[:-1]], places, strict=True))

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def by_id(self) -> bool:
        return True

    @property
    def tokenizer(self) -> Tokenizer:
        return self._prompting.tokenizer

    @property
    def facts(self) -> Facts:
        return self._reader.facts

    @property
    def shares_batches(self) -> bool:
        return True

    @property
    def batch_tokens(self) -> int:
        return self._reader.batch_tokens

    @property
    def differentiable(self) -> str | None:
        """Why there are no soft-removal gradients; None if there are."""
        return self._reader.differentiable

    def embeddings(self, tokens: Tokens) -> FloatArray | None:
        return self._reader.embeddings(tokens)

    def of_part(self, low: int, high: int) -> AnswerModel:
        """The same model, asked for a part of the same answer; they share batches' tuning and checks."""
        other = copy.copy(self)
        if not 0 <= low < high <= len(self.answer_ids):
            raise InputError(f"the answer has {len(self.answer_ids)} tokens; got the part {low} to {high}")
        other.part = low, high
        return other

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens of the text; the prompt and the answer are their frame."""
        return self._reader.tokenize(text, explain)

    def answer_log_probabilities(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, m) log-probabilities of the answer's tokens, each given the prompt and the tokens before it.

        Their sum over a row is the log-probability of the whole answer to that query. `part` plays no role.
        """
        return self._reader.logits(tokens, perturbations)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, 2): 0, and the log-odds of the answer (of its part) as a whole."""
        return self.logits_of_many([(tokens, perturbations)])[0]

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        """The same of queries about several texts, which share batches."""
        return [self.log_odds(found) for found in self._reader.logits_of_many(questions)]

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, 2) logits, and the soft-removal gradient of logits @ weights by log λ of each entry."""
        chosen = np.zeros(len(self.answer_ids))
        chosen[slice(*self.part)] = 1.0
        found, slopes = self._reader.gradients(tokens, perturbations, chosen)
        others = np.maximum(-np.expm1(found[:, slice(*self.part)].sum(axis=1)), _LEAST)
        return self.log_odds(found), weights[1] * slopes / others[perturbations.rows]

    def log_odds(self, found: FloatArray) -> FloatArray:
        """(N, 2) from the log-probabilities (N, m) of the answer's tokens."""
        log_probability = found[:, slice(*self.part)].sum(axis=1)
        others = np.maximum(-np.expm1(log_probability), _LEAST)
        return np.c_[np.zeros(len(found)), log_probability - np.log(others)]


@torch.inference_mode()
def generate(
    module: nn.Module,
    tokenizer: Any,
    prompt: Prompt,
    text: str,
    *,
    chat: bool | None = None,
    max_new_tokens: int = 64,
) -> str:
    """What a causal model answers to a prompt about a text, without chance."""
    prompting = Prompting(tokenizer, prompt, chat)
    device = next(module.parameters()).device
    ids = torch.from_numpy(prompting.encode(text).ids)[None].to(device)
    model: Any = module
    with evaluating(module):
        found = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            pad_token_id=tokenizer.pad_token_id
            if tokenizer.pad_token_id is not None
            else tokenizer.eos_token_id,
        )
    return tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True).strip()
