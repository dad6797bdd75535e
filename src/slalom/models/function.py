"""Black boxes: functions over texts or lists of token ids, and how the numbers of any model are read."""

# pyright: reportMissingTypeStubs=false
# (scipy has no types, or some)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from slalom.errors import InputError, ModelError
from slalom.models.protocol import Activation, Explain, Text, Tokenizer
from slalom.models.proxy import BlackBox
from slalom.models.text import words, write
from slalom.models.text.template import assemble, encode, tokenizer_limit
from slalom.models.torch import BATCH_TOKENS, Pace, answer
from slalom.perturb import Perturbations, from_rows
from slalom.tokens import FloatArray, IntArray, Tokens

ACCEPTS = "a function over a list of texts"
LAST = True

Function = Callable[..., object]
"""Of a list of texts, of pairs of texts, or of lists of ids: one number or a row of them for each."""
Numbers = NDArray[np.generic]

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
    return reading_of(kind, answers.shape[1], labels, guessed=output is None)


def reading_of(output: Output, width: int, labels: Sequence[str] | None, guessed: bool = False) -> Reading:
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


def to_array(answers: object, count: int) -> FloatArray:
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


def _numbers(answers: object) -> Numbers:
    try:
        if isinstance(answers, list | tuple):
            answers = [_plain(row) for row in cast(Sequence[object], answers)]
        return np.asarray(_plain(answers))
    except (TypeError, ValueError, RuntimeError):
        return np.empty(0, dtype=object)


class _Tensor(Protocol):
    def detach(self) -> _Tensor: ...

    def cpu(self) -> _Tensor: ...

    def tolist(self) -> object: ...


def _plain(numbers: object) -> object:
    """A tensor as lists, so that torch need not be imported here; anything else as it is."""
    return cast(_Tensor, numbers).detach().cpu().tolist() if hasattr(numbers, "detach") else numbers


def _describe(answers: object, numbers: Numbers) -> str:
    kind = type(answers).__name__
    if numbers.dtype.kind in "fiub":
        return f"{kind} of shape {numbers.shape} and dtype {numbers.dtype}"
    shown = repr(answers)
    return f"{kind}: {shown[:80]}{'…' if len(shown) > 80 else ''}"


def config_labels(config: object, count: int) -> list[str]:
    """The label names of a Hugging Face config, with their number where a name stands twice."""
    known: Mapping[int | str, str] = getattr(config, "id2label", None) or {}
    names = [str(known.get(i, known.get(str(i), i))) for i in range(count)]
    return [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names)]


BATCH_TEXTS = 64
"""A function is called with at most so many texts at a time."""


class FunctionModel(BlackBox):
    """A function behind the `Model` protocol.

    Without a tokenizer it takes a list of texts (of pairs of texts, where pairs are explained) and is
    explained over words. With one it takes a list of token-id lists, special tokens included.

    How many labels a function has is known only once it has answered. The first `tokenize` therefore asks
    it about the text, its first and its second half, and decides how to read the answers, this time and
    from then on; until then `labels` holds the names given, or nothing.
    """

    def __init__(
        self,
        function: Function,
        tokenizer: Tokenizer | None = None,
        *,
        output: Output | None = None,
        labels: Sequence[str] | None = None,
        batch_tokens: int | None = None,
    ):
        self._tokenizer = tokenizer
        self._function = function
        self._output: Output | None = output
        self._given_labels = tuple(labels) if labels is not None else None
        self._batch_tokens = batch_tokens
        self._reading: Reading | None = None

    @property
    def name(self) -> str:
        return getattr(self._function, "__name__", type(self._function).__name__)

    @property
    def by_id(self) -> bool:
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        return self._reading.labels if self._reading else self._given_labels or ()

    @property
    def activation(self) -> Activation:
        return self._reading.activation if self._reading else "softmax"

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        """The words of a text, or the tokenizer's tokens."""
        if self._tokenizer is None:
            tokens = words(text, explain)
        else:
            tokens = encode(self._tokenizer, text, explain, tokenizer_limit(self._tokenizer))
        if self._reading is None:
            n = len(tokens)
            halves = [range(n), range((n + 1) // 2), range(n // 2, n)]
            self.logits(tokens, from_rows([list(half) for half in halves], n))
        return tokens

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) logits in the order of the queries."""
        if len(perturbations) == 0:
            return np.zeros((0, len(self.labels)))
        over_texts = self._tokenizer is None
        answers = (self._ask_texts if over_texts else self._ask_ids)(tokens, perturbations)
        if self._reading is None:
            self._reading = reading(answers, self._output, self._given_labels)
        return self._reading.logits(answers)

    def _ask_ids(self, tokens: Tokens, queries: Perturbations) -> FloatArray:
        def call(ids: IntArray, types: IntArray) -> FloatArray:  # noqa: ARG001
            return self._call(ids.tolist())

        pace = Pace(self._batch_tokens or BATCH_TOKENS)
        return answer(assemble(tokens, queries), call, pace, BATCH_TEXTS)

    def _ask_texts(self, tokens: Tokens, queries: Perturbations) -> FloatArray:
        texts = write(tokens, queries)
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        asked = list(distinct)
        rows = BATCH_TEXTS
        if self._batch_tokens is not None:
            rows = min(rows, max(1, self._batch_tokens // max(1, queries.lengths.max())))
        parts = [self._call(asked[i : i + rows]) for i in range(0, len(asked), rows)]
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelError("the function returned rows of different length for different batches")
        return np.concatenate(parts)[[distinct[text] for text in texts]]

    def _call(self, inputs: Sequence[str | tuple[str, ...]] | list[list[int]]) -> FloatArray:
        try:
            answers = self._function(inputs)
        except Exception as error:
            message = f"the function failed on {len(inputs)} texts: {type(error).__name__}: {error}"
            raise ModelError(message) from error
        return to_array(answers, len(inputs))


def accepts(model: object) -> bool:
    """Whatever can be called."""
    return callable(model)


def open_kind(
    function: Function,
    tokenizer: Tokenizer | None,
    *,
    output: Output | None = None,
    labels: Sequence[str] | None = None,
    batch_tokens: int | None = None,
) -> FunctionModel:
    """A function as a model."""
    return FunctionModel(function, tokenizer, output=output, labels=labels, batch_tokens=batch_tokens)
