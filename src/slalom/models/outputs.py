"""Reading a model's answers: what its numbers are, and what its labels are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logit

from slalom.errors import InputError, ModelError
from slalom.models.protocol import Activation
from slalom.tokens import FloatArray

Output = Literal["logits", "log_odds", "probabilities", "multilabel"]

CLIP = 1e-12
"""Probabilities are clipped here before their logarithm is taken."""
SUM_TOLERANCE = 1e-3
"""How far the sum of a row of probabilities may be from one."""


@dataclass(frozen=True)
class Reading:
    """How (N, width) answers become (N, K) logits."""

    output: Output
    width: int
    labels: tuple[str, ...]
    guessed: bool = False

    @property
    def activation(self) -> Activation:
        return "sigmoid" if self.output == "multilabel" else "softmax"

    def logits(self, answers: FloatArray) -> FloatArray:
        """(N, K) logits; refuses answers of another shape or kind than the first ones."""
        if answers.shape[1] != self.width:
            raise ModelError(f"the model answered with {answers.shape[1]} columns, {self.width} expected")
        if self.output == "probabilities":
            return self._from_probabilities(answers)
        if self.output == "log_odds":
            return np.c_[np.zeros(len(answers)), answers]
        return answers

    def _from_probabilities(self, answers: FloatArray) -> FloatArray:
        if np.any((answers < -SUM_TOLERANCE) | (answers > 1 + SUM_TOLERANCE)):
            hint = "; the first answers looked like probabilities, pass output='logits'" * self.guessed
            raise ModelError(f"a probability outside 0…1: {answers.min():.4g} … {answers.max():.4g}{hint}")
        if self.width == 1:
            return np.c_[np.zeros(len(answers)), logit(np.clip(answers, CLIP, 1 - CLIP))]
        return np.log(np.maximum(answers, CLIP))


def reading(
    answers: FloatArray, output: Output | None = None, labels: Sequence[str] | None = None
) -> Reading:
    """How to read these answers (N, k) and those that follow.

    One column is a log-odds; rows that are non-negative and sum to one are probabilities; anything else
    is logits. `output` says it instead.
    """
    kind = output or _guess(answers)
    return declared(kind, answers.shape[1], labels, guessed=output is None)


def declared(output: Output, width: int, labels: Sequence[str] | None, guessed: bool = False) -> Reading:
    """How to read answers of known kind and width."""
    if output == "logits" and width == 1:
        output = "log_odds"
    if output == "log_odds" and width != 1:
        raise InputError(f"output='log_odds' means one number for each text; the model gives {width}")
    return Reading(output, width, name_labels(output, width, labels), guessed)


def _guess(answers: FloatArray) -> Output:
    if answers.shape[1] == 1:
        return "log_odds"
    sums = np.abs(answers.sum(axis=1) - 1)
    return "probabilities" if np.all(answers >= 0) and np.all(sums <= SUM_TOLERANCE) else "logits"


def name_labels(output: Output, width: int, labels: Sequence[str] | None) -> tuple[str, ...]:
    """The K label names; a single log-odds or probability has two labels, named by one name or by two."""
    count = 2 if width == 1 and output != "multilabel" else width
    if labels is None:
        return tuple(map(str, range(count)))
    names = tuple(map(str, labels))
    if count == 2 and width == 1 and len(names) == 1:
        return f"not {names[0]}", names[0]
    if len(names) != count or len(set(names)) != count:
        raise InputError(f"labels must name the model's {count} classes once each; got {list(names)}")
    return names


def to_array(answers: Any, count: int) -> FloatArray:
    """(count, k) numbers from what a function returned: lists, arrays or tensors."""
    numbers = _numbers(answers)
    if numbers.dtype.kind not in "fiu" or numbers.ndim not in (1, 2) or len(numbers) != count:
        raise ModelError(
            f"the function must return one number or one row of numbers for each of the {count} texts; "
            f"it returned {_describe(answers, numbers)}"
        )
    if numbers.ndim == 2 and numbers.shape[1] == 0:
        raise ModelError("the function returned rows without any number")
    return numbers.astype(float).reshape(count, -1)


def _numbers(answers: Any) -> np.ndarray:
    try:
        if isinstance(answers, (list, tuple)):
            answers = [_plain(row) for row in answers]
        return np.asarray(_plain(answers))
    except (TypeError, ValueError, RuntimeError):
        return np.empty(0, dtype=object)


def _plain(numbers: Any) -> Any:
    """A tensor as lists, so that torch need not be imported here; anything else as it is."""
    return numbers.detach().cpu().tolist() if hasattr(numbers, "detach") else numbers


def _describe(answers: Any, numbers: np.ndarray) -> str:
    kind = type(answers).__name__
    if numbers.dtype.kind in "fiub":
        return f"{kind} of shape {numbers.shape} and dtype {numbers.dtype}"
    shown = repr(answers)
    return f"{kind}: {shown[:80]}{'…' if len(shown) > 80 else ''}"


def config_labels(config: Any, count: int) -> list[str]:
    """The label names of a Hugging Face config, with their number where a name stands twice."""
    given: Mapping[Any, str] = getattr(config, "id2label", None) or {}
    names = [str(given.get(i, given.get(str(i), i))) for i in range(count)]
    return [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names)]
