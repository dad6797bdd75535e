"""An engine in use: made at the first batch, and held against the module's own answers there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from torch import nn

from slalom.errors import ModelError, SlalomError
from slalom.models.engines import KINDS, Raw
from slalom.models.engines.samples import samples
from slalom.models.inference import Forward, is_out_of_memory, one_by_one
from slalom.tokens import FloatArray, IntArray

Batch = tuple[IntArray, IntArray]


class Engine:
    """Answers in place of a module. It is made anew when the weights it was made from have changed."""

    def __init__(self, name: str, module: nn.Module, tokenizer: Any, tolerance: float | None = None):
        self._name, self._kind = name, KINDS[name]
        self._tolerance = tolerance or self._kind.tolerance
        self._module, self._tokenizer = module, tokenizer
        self._lock = threading.RLock()
        self._raw: Raw | None = None
        self._weights: object = None
        self._failure: str | None = None
        self._report: dict[str, Any] = {"name": name}
        if one_by_one(module):
            raise ModelError(
                f"the engine {name!r} needs batches, and {type(module).__name__} has no pad token and takes "
                "one text at a time; set pad_token_id in its config, or use engine='eager'"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes the engine anew."""
        return type(self), (self._name, self._module, self._tokenizer, self._tolerance)

    @property
    def report(self) -> dict[str, Any]:
        """The engine's name and, from the first batch on, its largest deviation from the original."""
        return dict(self._report)

    def over(self, forward: Forward) -> Raw:
        """The engine as a function of batches, which may fall back on `forward`, the module itself."""
        return partial(self._answer, forward)

    def _answer(self, forward: Forward, ids: IntArray, types: IntArray) -> FloatArray:
        if ids.shape[1] < 2:  # exported and compiled graphs take sequences, not single tokens
            return forward(ids, types)
        raw = self._ready(forward, ids, types)
        try:
            return np.asarray(raw(ids, types), dtype=float)
        except Exception as error:
            if is_out_of_memory(error):
                return forward(ids, types)  # which asks for smaller batches where it fails likewise
            raise ModelError(
                f"the engine {self._name!r} failed on {len(ids)} sequences of {ids.shape[1]} tokens: "
                f"{_first_line(error)}; use engine='eager'"
            ) from error

    def _ready(self, forward: Forward, ids: IntArray, types: IntArray) -> Raw:
        with self._lock:
            weights = None if self._kind.live else _fingerprint(self._module)
            if weights != self._weights:
                self._raw, self._failure = None, None
            if self._failure is not None:
                raise ModelError(self._failure)
            if self._raw is None:
                self._weights = weights
                try:
                    self._raw = self._made(forward, ids, types)
                except ModelError as error:
                    self._failure = str(error)
                    raise
            return self._raw

    def _made(self, forward: Forward, ids: IntArray, types: IntArray) -> Raw:
        batches = [*samples(self._module, self._tokenizer), (ids, types)]
        make = import_module(f"slalom.models.engines.{self._kind.file}").make
        try:
            raw = make(forward, batches)
            pairs = list(_side_by_side(raw, forward, batches))
        except SlalomError:
            raise
        except Exception as error:
            raise ModelError(
                f"the engine {self._name!r} cannot run {type(self._module).__name__}: {_first_line(error)}; "
                "use engine='eager'"
            ) from error
        self._judge(pairs)
        return raw

    def _judge(self, pairs: list[tuple[FloatArray, FloatArray]]) -> None:
        original = np.concatenate([ours for ours, _ in pairs])
        if not np.isfinite(original).all():
            return  # refused, with its reason, by whoever asked
        deviation = max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)
        spread = float(np.ptp(original))
        self._report = {
            "name": self._name,
            "deviation": deviation,
            "spread": spread,
            "tolerance": self._tolerance,
        }
        if not deviation <= self._tolerance * spread:
            raise ModelError(
                f"the engine {self._name!r} deviates from the model by {deviation:.2g} where logits spread "
                f"over {spread:.2g}; at most {self._tolerance:g} of the spread is accepted. "
                "Use engine='eager', or raise engine_tolerance"
            )


def _side_by_side(
    raw: Raw, forward: Forward, batches: list[Batch]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    for ids, types in batches:
        ours, theirs = forward(ids, types), np.asarray(raw(ids, types), dtype=float)
        if ours.shape != theirs.shape:
            raise ModelError(f"the engine answered with shape {theirs.shape}, the model with {ours.shape}")
        yield ours, theirs


def _fingerprint(module: nn.Module) -> object:
    """Changes when a weight is replaced or written to."""
    tensors = [*module.parameters(), *module.buffers()]
    return [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors]


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:300]}" if lines else type(error).__name__
