"""Which number of a model's output an explanation is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from slalom.checks import shown
from slalom.errors import InputError
from slalom.models.protocol import Activation, Model
from slalom.tokens import FloatArray


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
