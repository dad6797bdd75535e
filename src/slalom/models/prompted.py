"""Causal language models of transformers that are prompted to classify.

The prompt is the background: it stands around the text in every query, and only tokens of the text are left
out. Answers are read as log-probabilities of what comes next (`AnswerHead`), so that batches, shared
beginnings and soft removal are those of any other decoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
from torch import nn

from slalom.errors import InputError
from slalom.models.answers import AnswerHead
from slalom.models.prompt import Prompt, check_answers
from slalom.models.prompting import Prompting
from slalom.models.protocol import Activation, Explain, Facts, Question, Text, Tokenizer
from slalom.models.proxy import BlackBox
from slalom.models.text.encode import tokens_of
from slalom.models.text.texts import check_text
from slalom.models.torch.module import ModuleModel
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, IntArray, Tokens


def prompted(
    module: nn.Module,
    tokenizer: Any,
    prompt: Prompt,
    labels: Mapping[str, str] | Sequence[str],
    *,
    whole_answers: bool | None = None,
    chat: bool | None = None,
    **access: Any,
) -> PromptedModel | WholeAnswers:
    """A causal model as a classifier: the label whose answer it would give to the prompt.

    Labels are read by the first tokens of their answers, or by whole answers where first tokens coincide and
    where `whole_answers` asks for it.
    """
    answers, prompting = check_answers(labels), Prompting(tokenizer, prompt, chat)
    ids = {label: prompting.answer_ids(answer) for label, answer in answers.items()}
    first = [one[0] for one in ids.values()]
    coincide = len(set(first)) < len(first)
    if whole_answers is False and coincide:
        raise InputError(
            "the answers begin with the same token, which cannot tell them apart; "
            "leave whole_answers out, or choose other answers"
        )
    model: PromptedModel | WholeAnswers
    if coincide or whole_answers:
        model = WholeAnswers(module, prompting, ids, **access)
    else:
        model = PromptedModel(module, prompting, np.array([first], np.int64), tuple(ids), **access)
    model.settings = {"prompt": prompt, "answers": answers}
    return model


class PromptedModel(ModuleModel):
    """A causal model in a prompt, read at its end: labels by the first tokens of their answers.

    `tokens` (m, k) are what is read at the last m places; `said` are the ids that stand behind the prompt.
    """

    def __init__(
        self,
        module: nn.Module,
        prompting: Prompting,
        tokens: IntArray,
        labels: Sequence[str],
        said: Sequence[int] = (),
        **access: Any,
    ):
        head = module if isinstance(module, AnswerHead) else AnswerHead(module, tokens)
        own_name = access.pop("name", None) or _name(head.causal)
        super().__init__(
            head, prompting.tokenizer, output="multilabel", labels=labels, name=own_name, **access
        )
        self._prompting, self._tokens, self._said = prompting, tokens, tuple(said)

    @property
    def activation(self) -> Activation:
        return "softmax"

    def like(self, module: nn.Module) -> PromptedModel:
        access = {key: self._options[key] for key in ("batch_tokens", "name", "engine", "engine_tolerance")}
        other = PromptedModel(module, self._prompting, self._tokens, self.labels, self._said, **access)
        other.settings = self.settings
        return other

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens of the text; the prompt is their frame."""
        tokens = self.framed(_prompted_tokens(self._prompting, text, explain, self._limit, len(self._said)))
        self.check_vocabulary(tokens)
        return tokens

    def framed(self, tokens: Tokens) -> Tokens:
        """The same tokens with what was said behind the prompt."""
        before, between, after = tokens.frame.fixed
        after = np.r_[after, np.array(self._said, np.int64)]
        types = (*tokens.frame.fixed_types[:2], 0 * after)
        frame = replace(tokens.frame, fixed=(before, between, after), fixed_types=types, limit=self._limit)
        return replace(tokens, frame=frame)


def _prompted_tokens(
    prompting: Prompting, text: Text, explain: Explain, limit: int | None, room: int
) -> Tokens:
    """The tokens of a text in its prompt; `room` is left for what is said behind it."""
    (given, *more), _ = check_text(text, explain)
    if more:
        raise InputError("a prompt takes one text; write the other one into the prompt")
    most = None if limit is None else limit - room
    return tokens_of(prompting.tokenizer, prompting.encode(given), (given,), (0,), most, [len(given)])


class WholeAnswers(BlackBox):
    """A prompted model whose labels are read by their whole answers: log P(answer | prompt) of each."""

    def __init__(
        self, module: nn.Module, prompting: Prompting, answers: Mapping[str, list[int]], **access: Any
    ):
        self._readers = [answer_reader(module, prompting, ids, **access) for ids in answers.values()]
        self._longest = max(map(len, answers.values()))
        self._prompting = prompting
        self.settings: Mapping[str, object] = {}
        """What a report says of the prompt."""
        self.labels = tuple(answers)
        self.activation: Activation = "softmax"

    @property
    def name(self) -> str:
        return self._readers[0].name

    @property
    def by_id(self) -> bool:
        return True

    @property
    def tokenizer(self) -> Tokenizer:
        return self._prompting.tokenizer

    @property
    def facts(self) -> Facts:
        return replace(self._readers[0].facts, settings=self.settings)

    @property
    def shares_batches(self) -> bool:
        return True

    @property
    def batch_tokens(self) -> int:
        return self._readers[0].batch_tokens

    @property
    def differentiable(self) -> str | None:
        reasons = (reader.differentiable for reader in self._readers)
        return next((reason for reason in reasons if reason is not None), None)

    def embeddings(self, tokens: Tokens) -> FloatArray | None:
        return self._readers[0].embeddings(tokens)

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens of the text; the prompt is their frame."""
        reader = self._readers[0]
        tokens = _prompted_tokens(self._prompting, text, explain, reader._limit, self._longest)
        reader.check_vocabulary(tokens)
        return tokens

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) log-probabilities of the answers."""
        return self.logits_of_many([(tokens, perturbations)])[0]

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        """The log-probabilities of queries about several texts, which share batches."""
        by_answer = [
            reader.logits_of_many([(reader.framed(tokens), queries) for tokens, queries in questions])
            for reader in self._readers
        ]
        return [
            np.stack([found[i].sum(axis=1) for found in by_answer], axis=1) for i in range(len(questions))
        ]

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, K) log-probabilities, and the soft-removal gradient of these @ weights by each log λ."""
        columns, slopes = [], np.zeros(len(perturbations.positions))
        for reader, weight in zip(self._readers, weights, strict=True):
            each = np.full(len(reader.labels), weight)
            found, own = reader.gradients(reader.framed(tokens), perturbations, each)
            columns.append(found.sum(axis=1))
            slopes = slopes + own
        return np.stack(columns, axis=1), slopes


def answer_reader(module: nn.Module, prompting: Prompting, ids: list[int], **access: Any) -> PromptedModel:
    """A model read by the tokens of one answer: (N, m) log-probabilities, each given those before it."""
    tokens = np.array(ids, np.int64)[:, None]
    return PromptedModel(module, prompting, tokens, [str(i) for i in range(len(ids))], ids[:-1], **access)


def _name(module: nn.Module) -> str:
    path = getattr(getattr(module, "config", None), "name_or_path", None) or ""
    return PurePath(path).name or type(module).__name__
