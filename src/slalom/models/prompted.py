"""Causal language models of transformers that are prompted to classify, or to give a certain answer.

The prompt is the background: it stands around the text in every query, and only tokens of the text are left
out. Answers are read as log-probabilities of what comes next (`AnswerHead`), so that batches, shared
beginnings and soft removal are those of any other decoder.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# (torch has no types, or some)
from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol, Unpack, cast

import numpy as np
import torch
from torch import nn

from slalom.errors import InputError
from slalom.models.prompt import Prompt, Prompting, check_answers
from slalom.models.protocol import Activation, Explain, Facts, Question, Text, Tokenizer
from slalom.models.proxy import BlackBox
from slalom.models.text import check_text
from slalom.models.text.template import frame_of, tokens_of
from slalom.models.torch.forward import evaluating
from slalom.models.torch.load import AnswerHead
from slalom.models.torch.module import ModuleModel, ModuleOptions, module_name
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, IntArray, Tokens


def prompted(
    module: nn.Module,
    tokenizer: Tokenizer,
    prompt: Prompt,
    labels: Mapping[str, str] | Sequence[str],
    *,
    whole_answers: bool | None = None,
    chat: bool | None = None,
    **access: Unpack[ModuleOptions],
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
        **access: Unpack[ModuleOptions],
    ):
        head = module if isinstance(module, AnswerHead) else AnswerHead(module, tokens)
        access["name"] = access.get("name") or module_name(head.causal)
        super().__init__(head, prompting.tokenizer, output="multilabel", labels=labels, **access)
        self._prompting, self._tokens, self._said = prompting, tokens, tuple(said)

    @property
    def activation(self) -> Activation:
        return "softmax"

    def like(self, module: nn.Module) -> PromptedModel:
        other = PromptedModel(module, self._prompting, self._tokens, self.labels, self._said, **self._access)
        other.settings = self.settings
        return other

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens of the text; the prompt is their frame."""
        tokens = self.framed(_prompted_tokens(self._prompting, text, explain, self.limit, len(self._said)))
        self.check_vocabulary(tokens)
        return tokens

    def framed(self, tokens: Tokens) -> Tokens:
        """The same tokens with what was said behind the prompt."""
        frame = frame_of(tokens)
        before, between, after = frame.fixed
        after = np.r_[after, np.array(self._said, np.int64)]
        types, fixed = (*frame.fixed_types[:2], 0 * after), (before, between, after)
        return replace(tokens, frame=replace(frame, fixed=fixed, fixed_types=types, limit=self.limit))


def _prompted_tokens(
    prompting: Prompting, text: Text, explain: Explain, limit: int | None, room: int
) -> Tokens:
    """The tokens of a text in its prompt; `room` is left for what is said behind it."""
    (whole, *more), _ = check_text(text, explain)
    if more:
        raise InputError("a prompt takes one text; write the other one into the prompt")
    most = None if limit is None else limit - room
    return tokens_of(prompting.tokenizer, prompting.encode(whole), (whole,), (0,), most, [len(whole)])


class _Answers(BlackBox):
    """Answers to a text in its prompt, which models of one answer each read."""

    def __init__(self, prompting: Prompting, reader: PromptedModel):
        self._prompting, self._reader = prompting, reader
        self.settings: Mapping[str, object] = {}
        """What a report says of the prompt."""

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def decoder(self) -> bool:
        return True

    @property
    def by_id(self) -> bool:
        return True

    @property
    def tokenizer(self) -> Tokenizer:
        return self._prompting.tokenizer

    @property
    def facts(self) -> Facts:
        return replace(self._reader.facts, settings=self.settings)

    def embeddings(self, tokens: Tokens) -> FloatArray | None:
        return self._reader.embeddings(tokens)

    @property
    def shares_batches(self) -> bool:
        return True

    @property
    def batch_tokens(self) -> int:
        return self._reader.batch_tokens


class WholeAnswers(_Answers):
    """A prompted model whose labels are read by their whole answers: log P(answer | prompt) of each."""

    def __init__(
        self,
        module: nn.Module,
        prompting: Prompting,
        answers: Mapping[str, list[int]],
        **access: Unpack[ModuleOptions],
    ):
        self._readers = [answer_reader(module, prompting, ids, **access) for ids in answers.values()]
        self._longest = max(map(len, answers.values()))
        super().__init__(prompting, self._readers[0])
        self.labels = tuple(answers)
        self.activation: Activation = "softmax"

    @property
    def differentiable(self) -> str | None:
        reasons = (reader.differentiable for reader in self._readers)
        return next((reason for reason in reasons if reason is not None), None)

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The tokens of the text; the prompt is their frame."""
        reader = self._reader
        tokens = _prompted_tokens(self._prompting, text, explain, reader.limit, self._longest)
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
            np.stack([logits[i].sum(axis=1) for logits in by_answer], axis=1) for i in range(len(questions))
        ]

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, K) log-probabilities, and the soft-removal gradient of these @ weights by each log λ."""
        columns: list[FloatArray] = []
        slopes = np.zeros(len(perturbations.positions))
        for reader, weight in zip(self._readers, weights, strict=True):
            each = np.full(len(reader.labels), weight)
            logits, own = reader.gradients(reader.framed(tokens), perturbations, each)
            columns.append(logits.sum(axis=1))
            slopes = slopes + own
        return np.stack(columns, axis=1), slopes


def answer_reader(
    module: nn.Module, prompting: Prompting, ids: list[int], **access: Unpack[ModuleOptions]
) -> PromptedModel:
    """A model read by the tokens of one answer: (N, m) log-probabilities, each given those before it."""
    tokens = np.array(ids, np.int64)[:, None]
    return PromptedModel(module, prompting, tokens, [str(i) for i in range(len(ids))], ids[:-1], **access)


_LEAST = 1e-7
"""The smallest probability, in single precision, that the model says anything but the answer."""


class AnswerModel(_Answers):
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
        tokenizer: Tokenizer,
        prompt: Prompt,
        answer: str,
        *,
        chat: bool | None = None,
        part: tuple[int, int] | None = None,
        **access: Unpack[ModuleOptions],
    ):
        self.answer = answer
        prompting = Prompting(tokenizer, prompt, chat)
        ids = prompting.answer_ids(answer)
        low, high = part or (0, len(ids))
        if not 0 <= low < high <= len(ids):
            raise InputError(f"part must be a range within the {len(ids)} tokens of the answer; got {part}")
        self.answer_ids = tuple(ids)
        self.part = low, high
        super().__init__(prompting, answer_reader(module, prompting, ids, **access))

    @cached_property
    def answer_spans(self) -> list[tuple[int, int]]:
        """Where each token of the answer stands in it."""
        ends = [len(self.tokenizer.decode(self.answer_ids[: i + 1])) for i in range(len(self.answer_ids))]
        blank = max(0, ends[-1] - len(self.answer))  # the space in front that continues the prompt
        places = [min(max(0, end - blank), len(self.answer)) for end in ends]
        return list(zip([0, *places[:-1]], places, strict=True))

    @property
    def differentiable(self) -> str | None:
        return self._reader.differentiable

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
        return [self.log_odds(odds) for odds in self._reader.logits_of_many(questions)]

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(N, 2) logits, and the soft-removal gradient of logits @ weights by log λ of each entry."""
        chosen = np.zeros(len(self.answer_ids))
        chosen[slice(*self.part)] = 1.0
        odds, slopes = self._reader.gradients(tokens, perturbations, chosen)
        others = np.maximum(-np.expm1(odds[:, slice(*self.part)].sum(axis=1)), _LEAST)
        return self.log_odds(odds), weights[1] * slopes / others[perturbations.rows]

    def log_odds(self, odds: FloatArray) -> FloatArray:
        """(N, 2) from the log-probabilities (N, m) of the answer's tokens."""
        log_probability = odds[:, slice(*self.part)].sum(axis=1)
        others = np.maximum(-np.expm1(log_probability), _LEAST)
        return np.c_[np.zeros(len(odds)), log_probability - np.log(others)]


class _Generating(Protocol):
    """A causal language model of transformers."""

    def generate(self, **options: torch.Tensor | int | bool | None) -> torch.Tensor: ...


@torch.inference_mode()
def generate(
    module: nn.Module,
    tokenizer: Tokenizer,
    prompt: Prompt,
    text: str,
    *,
    chat: bool | None = None,
    max_new_tokens: int = 64,
) -> str:
    """What a causal model answers to a prompt about a text, without chance."""
    prompting = Prompting(tokenizer, prompt, chat)
    device, padding = next(module.parameters()).device, getattr(tokenizer, "pad_token_id", None)
    ids = torch.from_numpy(prompting.encode(text).ids)[None].to(device)
    with evaluating(module):
        answered = cast(_Generating, module).generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            pad_token_id=getattr(tokenizer, "eos_token_id", None) if padding is None else padding,
        )
    return tokenizer.decode(answered[0, ids.shape[1] :].tolist(), skip_special_tokens=True).strip()
