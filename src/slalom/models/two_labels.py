"""One label rather than another: of any model, the two labels that a question is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom.checks import shown
from slalom.errors import InputError
from slalom.models.protocol import Activation, Basic, Model, Question, Tokenizer, TorchAccess
from slalom.models.proxy import Proxy
from slalom.models.target import label_index
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

if TYPE_CHECKING:
    from torch import Tensor, nn

Pair = tuple[str | int, str | int]


class TwoLabels(Proxy):
    """A model that knows two labels only. Its log-odds are the difference of their logits in the model.

    Of classes that exclude each other, these are the log-odds between the two; of independent labels, the
    difference of the labels' log-odds.
    """

    def __init__(self, model: Basic, rather: int, than: int):
        super().__init__(model)
        self.columns = [than, rather]

    @property
    def activation(self) -> Activation:
        return "softmax"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self._model.labels[column] for column in self.columns)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return self._model.logits(tokens, perturbations)[:, self.columns]

    @property
    def shares_batches(self) -> bool:
        return self._model.shares_batches

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        return [logits[:, self.columns] for logits in self._model.logits_of_many(questions)]

    @property
    def torch(self) -> TorchAccess | None:
        access = self._model.torch
        return None if access is None else _TwoColumns(access, *self.columns)

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        every = np.zeros(len(self._model.labels))
        every[self.columns] = weights
        logits, slopes = super().gradients(tokens, perturbations, every)
        return logits[:, self.columns], slopes

    def notes(self, tokens: Tokens) -> tuple[str, ...]:
        than, rather = self.labels
        own = (
            f"Explained is why {rather!r} rather than {than!r}: scores are the log-odds between the two, and "
            "probabilities are of these two alone."
        )
        return (own, *super().notes(tokens))


@dataclass(frozen=True)
class _TwoColumns:
    """A torch module of which two labels are read."""

    access: TorchAccess
    than: int
    rather: int

    @property
    def module(self) -> nn.Module:
        return self.access.module

    @property
    def tokenizer(self) -> Tokenizer:
        return self.access.tokenizer

    @property
    def with_types(self) -> bool:
        return self.access.with_types

    @property
    def batch_tokens(self) -> int:
        return self.access.batch_tokens

    def tensor_logits(self, answers: Tensor) -> Tensor:
        return self.access.tensor_logits(answers)[:, [self.than, self.rather]]

    def like(self, module: nn.Module) -> Model:
        return TwoLabels(self.access.like(module), self.rather, self.than)

    def alone(self) -> Model:
        return TwoLabels(self.access.alone(), self.rather, self.than)


def two_labels(model: Model, target: Any) -> tuple[Model, Any]:
    """The model and the target to explain; for a pair of labels, the model of these two, and the first one.

    A pair is a tuple, or a string with a colon between two labels, where no label has that name itself.
    """
    if isinstance(target, str):
        target = _split(model.labels, target)
    if not isinstance(target, tuple):
        return model, target
    if len(target) != 2:
        raise InputError(f"target must be a label, or a pair of labels; got {shown(target)}")
    rather, than = (label_index(model.labels, one) for one in target)
    if rather == than:
        raise InputError(f"target must be two different labels; got {shown(target)}")
    return TwoLabels(model, rather, than), model.labels[rather]


def _split(labels: Sequence[str], target: str) -> str | tuple[str, str]:
    """The one way to read a string as two labels, if it is no label and there is one."""
    folded = {label.lower() for label in labels}
    if target.lower() in folded or ":" not in target:
        return target
    places = [place for place, letter in enumerate(target) if letter == ":"]
    pairs = [(target[:place].strip(), target[place + 1 :].strip()) for place in places]
    known = [pair for pair in pairs if all(one.lower() in folded for one in pair)]
    return known[0] if len(known) == 1 else target
