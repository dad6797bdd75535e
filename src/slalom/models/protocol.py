"""What an explainer may know about a model, and nothing more."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens

Text = str | tuple[str, str]
"""One text, or a pair of texts (premise and hypothesis, question and passage)."""

Activation = Literal["softmax", "sigmoid"]

BLACK_BOX = "it is a function that can only be asked; give the torch model itself"
"""Why a model that does not speak of gradients has none."""


@runtime_checkable
class Model(Protocol):
    """A text classifier that can be asked about perturbed copies of a text.

    `softmax`: K >= 2 exclusive classes; `sigmoid`: K independent labels (each logit is a log-odds).
    A single log-odds is a two-class softmax with logits (0, z).
    """

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def activation(self) -> Activation: ...

    def tokenize(self, text: Text, explain: Literal["both", "first", "second"] = "both") -> Tokens:
        """The tokens to explain; in a pair, those of the other side become fixed context."""
        ...

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) outputs in the order of the queries. Equal queries are asked once."""
        ...
