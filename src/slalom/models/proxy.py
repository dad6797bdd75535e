"""Models that stand for others: what one declares that can only be asked, and one seen through another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from slalom.errors import ModelError
from slalom.models.protocol import (
    BLACK_BOX,
    Activation,
    Basic,
    Explain,
    Facts,
    Model,
    Question,
    Remote,
    Text,
    Tokenizer,
    TorchAccess,
)
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens


class BlackBox:
    """What a model declares that can only be asked; to be inherited and, member by member, overridden."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def by_id(self) -> bool:
        return False

    @property
    def tokenizer(self) -> Tokenizer | None:
        return None

    @property
    def torch(self) -> TorchAccess | None:
        return None

    @property
    def remote(self) -> Remote | None:
        return None

    @property
    def facts(self) -> Facts:
        return Facts()

    def notes(self, tokens: Tokens) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    @property
    def differentiable(self) -> str | None:
        return BLACK_BOX

    def gradients(
        self,
        tokens: Tokens,  # noqa: ARG002
        perturbations: Perturbations,  # noqa: ARG002
        weights: FloatArray,  # noqa: ARG002
    ) -> tuple[FloatArray, FloatArray]:
        raise ModelError(f"this model has no soft-removal gradients: {self.differentiable}")

    def embeddings(self, tokens: Tokens) -> FloatArray | None:  # noqa: ARG002
        return None

    @property
    def shares_batches(self) -> bool:
        return False

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        raise NotImplementedError

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        return [self.logits(*question) for question in questions]

    @property
    def batch_tokens(self) -> int:
        return 0

    def clock(self) -> float:
        return time.perf_counter()


_DECLARED = tuple(name for name in vars(BlackBox) if not name.startswith("_"))


def declared(model: Basic) -> Model:
    """The model with every capability declared; one that does not speak of them can only be asked."""
    if all(hasattr(type(model), name) for name in _DECLARED):
        return cast(Model, model)
    return _Declared(model)


class _Declared(BlackBox):
    """Somebody's model as it is, and for what it does not say, what a black box says."""

    def __init__(self, model: Basic):
        self._model = model

    @property
    def name(self) -> str:
        return str(getattr(self._model, "name", type(self._model).__name__))

    @property
    def labels(self) -> tuple[str, ...]:
        return self._model.labels

    @property
    def activation(self) -> Activation:
        return self._model.activation

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        return self._model.tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return self._model.logits(tokens, perturbations)


class Proxy:
    """A model seen through another one, which passes everything on and changes what it must.

    Whatever changes the logits is asked text by text, unless it says otherwise.
    """

    def __init__(self, model: Basic):
        self._model = declared(model)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def labels(self) -> tuple[str, ...]:
        return self._model.labels

    @property
    def activation(self) -> Activation:
        return self._model.activation

    @property
    def by_id(self) -> bool:
        return self._model.by_id

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._model.tokenizer

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        return self._model.tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return self._model.logits(tokens, perturbations)

    @property
    def torch(self) -> TorchAccess | None:
        return self._model.torch

    @property
    def remote(self) -> Remote | None:
        return self._model.remote

    @property
    def facts(self) -> Facts:
        return self._model.facts

    def notes(self, tokens: Tokens) -> tuple[str, ...]:
        return self._model.notes(tokens)

    @property
    def differentiable(self) -> str | None:
        return self._model.differentiable

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return self._model.gradients(tokens, perturbations, weights)

    def embeddings(self, tokens: Tokens) -> FloatArray | None:
        return self._model.embeddings(tokens)

    @property
    def shares_batches(self) -> bool:
        return False

    def logits_of_many(self, questions: Sequence[Question]) -> list[FloatArray]:
        return [self.logits(*question) for question in questions]

    @property
    def batch_tokens(self) -> int:
        return self._model.batch_tokens

    def clock(self) -> float:
        return self._model.clock()
