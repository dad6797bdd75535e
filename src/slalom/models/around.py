"""A model seen through another one, which passes everything on and changes what it must."""

from __future__ import annotations

from typing import Literal

from slalom.models.protocol import Activation, Model, Text
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

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return self._model.logits(tokens, perturbations)
