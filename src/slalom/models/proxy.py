"""Models that stand for others: black boxes, a model seen through another one, and one read in windows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np

from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.models.endpoint import Remote
from slalom.models.protocol import (
    Activation,
    Basic,
    Explain,
    Facts,
    Model,
    Question,
    Text,
    Tokenizer,
    TorchAccess,
)
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens
from slalom.units import Units, boundaries, whole_units

BLACK_BOX = "it is a function that can only be asked; give the torch model itself"
"""Why a model that does not speak of gradients has none."""


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
    def decoder(self) -> bool:
        return False

    def answers_prefixes(self, tokens: Tokens) -> bool:  # noqa: ARG002
        return False

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


@dataclass(frozen=True, eq=False)
class _Declared(BlackBox):
    """Somebody's model as it is, and for what it does not say, what a black box says."""

    model: Basic

    @property
    def name(self) -> str:
        return str(getattr(self.model, "name", type(self.model).__name__))

    @property
    def labels(self) -> tuple[str, ...]:
        return self.model.labels

    @property
    def activation(self) -> Activation:
        return self.model.activation

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:
        return self.model.tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        return self.model.logits(tokens, perturbations)


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
    def decoder(self) -> bool:
        return self._model.decoder

    def answers_prefixes(self, tokens: Tokens) -> bool:
        return self._model.answers_prefixes(tokens)

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


_READ = 20_000
"""Characters of the text that are read for the first window."""


@dataclass(frozen=True)
class WindowFrame:
    """Where windows end, and the model's own frame of each."""

    ends: tuple[int, ...]
    """Offsets of the first character behind each window."""
    frames: tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Windowed(_Declared):
    """A model that reads a long text in windows, which end where units end.

    Its logits are the mean of the windows' logits, weighted by their tokens; windows of which nothing is left
    do not take part. Its cost is linear in the length of the text.
    """

    units: Units = "sentences"

    def tokenize(self, text: Text, explain: Explain = "both") -> Tokens:  # noqa: ARG002
        """The tokens of all windows."""
        if not isinstance(text, str):
            raise InputError("a pair of texts is not read in windows; use long='cut'")
        starts = boundaries(text, self.units if whole_units(self.units) else "sentences")
        return _joined(text, list(_read(self.model, text, starts)))

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        """(N, K) the mean of the windows' logits."""
        parts, edges = split(tokens), _edges(tokens)
        total, mass = np.zeros((len(perturbations), len(self.labels))), np.zeros(len(perturbations))
        for part, weight, (low, high) in zip(parts, weights(parts), pairwise(edges), strict=True):
            inside = (perturbations.positions >= low) & (perturbations.positions < high)
            counts = np.bincount(perturbations.rows[inside], minlength=len(perturbations))
            rows = np.flatnonzero(counts)
            own = Perturbations(
                perturbations.positions[inside] - low, np.r_[0, np.cumsum(counts[rows])], high - low
            )
            if len(rows):
                total[rows] += weight * self.model.logits(part, own)
                mass[rows] += weight
        if not mass.all():
            raise InputError("an empty query cannot be asked of a text in windows")
        return total / mass[:, None]


def reader(model: Model, tokens: Tokens) -> Model:
    """The model that answers about these tokens: itself, or window by window."""
    return Windowed(model) if isinstance(tokens.frame, WindowFrame) else model


def split(tokens: Tokens) -> list[Tokens]:
    """The tokens of every window, as the model takes them; a text that is read as a whole is one window."""
    if not isinstance(tokens.frame, WindowFrame):
        return [tokens]
    edges, frames = pairwise(_edges(tokens)), tokens.frame.frames
    return [_part(tokens, low, high, frame) for (low, high), frame in zip(edges, frames, strict=True)]


def weights(parts: Sequence[Tokens]) -> FloatArray:
    """(W,) the windows' shares of the model's tokens."""
    sizes = np.array([sum(map(len, part.pieces)) for part in parts], dtype=float)
    return sizes / sizes.sum()


def _edges(tokens: Tokens) -> list[int]:
    ends = tokens.frame.ends if isinstance(tokens.frame, WindowFrame) else (len(tokens.text),)
    return [0, *map(int, np.searchsorted(tokens.spans[:, 0], ends, "left"))]


def _part(tokens: Tokens, low: int, high: int, frame: object) -> Tokens:
    return replace(
        tokens,
        strings=tokens.strings[low:high],
        spans=tokens.spans[low:high],
        pieces=tokens.pieces[low:high],
        words=tokens.words[low:high],
        segments=tokens.segments[low:high],
        frame=frame,
        unknown=tuple(i - low for i in tokens.unknown if low <= i < high),
    )


def _read(model: Basic, text: str, starts: list[int]) -> Iterator[tuple[int, int, Tokens]]:
    """Start, end and tokens of each window: as many whole units as the model reads."""
    low, reach, borders = 0, _READ, np.array([*starts, len(text)])
    while low < len(text):
        if not text[low:].strip():
            return
        cut = _cut(model, text[low : low + reach])
        if cut is None and low + reach < len(text):
            reach *= 4
            continue
        high = len(text)
        if cut is not None:
            fitting = borders[(borders > low) & (borders <= low + cut)]
            high = int(fitting[-1]) if len(fitting) else low + max(cut, 1)
            reach = 4 * cut
        if text[low:high].strip():
            yield low, high, _quiet(model, text[low:high])
        low = high


def _cut(model: Basic, text: str) -> int | None:
    """How many characters the model reads; None for all of them."""
    return _quiet(model, text).cut if text.strip() else None


def _quiet(model: Basic, text: str) -> Tokens:
    with warnings.catch_warnings():  # that a window is longer than the model reads is what is looked for
        warnings.simplefilter("ignore", SlalomWarning)
        return model.tokenize(text)


def join(tokens: Tokens, parts: Sequence[Tokens]) -> Tokens:
    """The windows of `tokens` together again, after their tokens were grouped."""
    starts = np.cumsum([0, *map(len, parts)])
    return replace(
        tokens,
        strings=tuple(string for part in parts for string in part.strings),
        spans=np.concatenate([part.spans for part in parts]),
        pieces=tuple(piece for part in parts for piece in part.pieces),
        words=np.concatenate([part.words for part in parts]),
        segments=np.concatenate([part.segments for part in parts]),
        unknown=tuple(int(i + low) for part, low in zip(parts, starts, strict=False) for i in part.unknown),
    )


def _joined(text: str, windows: list[tuple[int, int, Tokens]]) -> Tokens:
    if not windows:
        raise InputError(f"the model's tokenizer finds no token in {text[:40]!r}; nothing can be explained")
    parts: list[Tokens] = []
    for low, _, part in windows:
        number = parts[-1].words[-1] + 1 - part.words[0] if parts else 0
        parts.append(replace(part, text=text, spans=part.spans + low, words=part.words + number))
    frame = WindowFrame(tuple(high for _, high, _ in windows), tuple(part.frame for part in parts))
    return join(replace(parts[0], frame=frame, cut=None), parts)
