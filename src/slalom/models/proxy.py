"""A model seen through another one, which passes everything on and changes what it must."""

from __future__ import annotations

from typing import Any, Literal

from slalom.models.protocol import BLACK_BOX, Activation, Model, Text
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens


class Around:
    """Is the model that it was given, as far as the protocol goes."""

    def __init__(self, model: Model):
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def labels(self) -> tuple[str, ...]:
        return self._model.labels

    @property
    def activation(self) -> Activation:
        return self._model.activation

    def tokenize(self, text: Text, explain: Literal["both", "first", "second"] = "both") -> Tokens:
        return self._model.tokenize(text, explain)

    @property
    def differentiable(self) -> str | None:
        return getattr(self._model, "differentiable", BLACK_BOX)

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        model: Any = self._model
        return model.gradients(tokens, perturbations, weights)

    @property
    def facts(self) -> dict[str, Any] | None:
        return getattr(self._model, "facts", None)

    def notes(self, tokens: Tokens) -> tuple[str, ...]:
        """What a reader of an explanation of these tokens should know of the model's answers."""
        return getattr(self._model, "notes", lambda _: ())(tokens)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return self._model.logits(tokens, perturbations)
