"""Which number of a model's output an explanation is about: a label, or one label rather than another."""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# (scipy has no types, or some)
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from slalom.checks import shown
from slalom.errors import InputError
from slalom.models.protocol import Activation, Basic, Model, Question, TorchAccess
from slalom.models.proxy import Proxy
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens


@dataclass(frozen=True)
class Target:
    """One label of a model, and how its score is read off the logits (maths 1, 1a).

    Two exclusive classes: the log-odds of the label. More: its logit, centred over classes.
    Independent labels: the label's own logit, which is its log-odds.
    """

    index: int
    labels: tuple[str, ...]
    activation: Activation

    @property
    def label(self) -> str:
        return self.labels[self.index]

    @property
    def column(self) -> int:
        """The column of the signal that the score is read from."""
        return self.index if self.activation == "softmax" and len(self.labels) > 2 else 0

    @property
    def weights(self) -> FloatArray:
        """(K,) of the logits in that column of the signal."""
        return self.signal(np.eye(len(self.labels)))[:, self.column]

    def signal(self, logits: FloatArray) -> FloatArray:
        """(N, C) what a surrogate is fitted to: every class at once where classes exclude each other."""
        if self.activation == "sigmoid":
            return logits[:, [self.index]]
        if len(self.labels) == 2:
            return logits[:, [1]] - logits[:, [0]]
        return logits - logits.mean(axis=1, keepdims=True)

    def read(self, signal: FloatArray) -> FloatArray:
        """The label's score from (…, C) quantities in units of the signal."""
        if self.activation == "sigmoid":
            return signal[..., 0]
        if len(self.labels) == 2:
            return signal[..., 0] if self.index == 1 else -signal[..., 0]
        return signal[..., self.index]

    def score(self, logits: FloatArray) -> FloatArray:
        """(N,) the label's score."""
        return self.read(self.signal(logits))

    def probability(self, logits: FloatArray) -> FloatArray:
        """(N,) the label's probability."""
        return probabilities(logits, self.activation)[:, self.index]


def probabilities(logits: FloatArray, activation: Activation) -> FloatArray:
    """(N, K) probabilities of all labels."""
    return softmax(logits, axis=1) if activation == "softmax" else expit(logits)


def choose_target(model: Model, wanted: str | int | None, logits: FloatArray) -> Target:
    """The label by name or index; by default the one the model predicts from `logits` (K,)."""
    labels = model.labels
    index = int(np.argmax(logits)) if wanted is None else label_index(labels, wanted)
    return Target(index, labels, model.activation)


def label_index(labels: tuple[str, ...], wanted: str | int) -> int:
    """Which label this is, by name or index."""
    if isinstance(wanted, int) and not isinstance(wanted, bool) and -len(labels) <= wanted < len(labels):
        return wanted % len(labels)
    matches = [i for i, label in enumerate(labels) if label == wanted]
    if not matches and isinstance(wanted, str):
        matches = [i for i, label in enumerate(labels) if label.lower() == wanted.lower()]
    if not matches and isinstance(wanted, str) and wanted.isdigit() and int(wanted) < len(labels):
        matches = [int(wanted)]
    if len(matches) != 1:
        raise InputError(f"the model has no label {shown(wanted)}; choose one of: {', '.join(labels)}")
    return matches[0]


Pair = tuple[str | int, str | int]
Wanted = str | int | Pair | None


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
        from slalom.models.torch.module import TwoColumns

        access = self._model.torch
        return None if access is None else TwoColumns(access, *self.columns)

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


def two_labels(model: Model, target: Wanted) -> tuple[Model, str | int | None]:
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
