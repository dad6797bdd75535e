"""Cheaper forward passes: other ways to compute what a module computes, each held against the module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from slalom.errors import InputError
from slalom.tokens import FloatArray, IntArray

EngineName = Literal["eager", "lean", "compile", "onnx", "openvino", "openvino-int8", "autocast", "bf16"]
ENGINES: tuple[str, ...] = get_args(EngineName)

Raw = Callable[[IntArray, IntArray], FloatArray]
"""(B, L) ids and token types → (B, k) answers."""


@dataclass(frozen=True, eq=False)
class Made:
    """An engine that was made for a module."""

    answer: Raw
    facts: Mapping[str, object] = field(default_factory=dict)
    """What the report says of how it was made."""


@dataclass(frozen=True)
class Kind:
    """What there is to know about an engine before it is made."""

    file: str
    """The module of this package whose `make(forward, batches) -> Made` makes it."""
    tolerance: float
    """The largest deviation from the original, as a share of the spread of the original's logits."""
    live: bool = False
    """Whether it computes with the module's own weights, so that a change of them reaches it."""
    light: bool = False
    """Whether it is made in no time: anew for every set of queries, from the module as it is then."""


KINDS: dict[str, Kind] = {
    "lean": Kind("lean", 1e-4, live=True, light=True),
    "compile": Kind("compiled", 1e-3, live=True),
    "onnx": Kind("onnx", 1e-3),
    "openvino": Kind("openvino", 1e-3),
    "openvino-int8": Kind("openvino_int8", 0.1),
    "autocast": Kind("autocast", 0.05, live=True),
    "bf16": Kind("bf16", 0.05),
}
"""Every engine but "eager", which is the module itself. Where none is named, see default.py."""


def check_engine(name: str | None, tolerance: float | None) -> None:
    """Refuses a tolerance that has nothing to judge."""
    if tolerance is not None and name in (None, "eager"):
        raise InputError("engine_tolerance judges an engine; choose one, such as engine='onnx'")
