"""Cheaper forward passes: other ways to compute what a module computes, each held against the module.

One file here is one engine or a few: nothing else registers them. Such a module has

    ENGINES      by name what there is to know of an engine before it is made, the fields of `Kind`
    make_NAME    (forward) → Made for each of them, `-` written as `_`; one that is `calibrated` is given the
                 batches that it is tried on, too: (forward, batches) → Made

Another package brings engines by an entry point of the group `slalom.engines` that names such a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import cast

from slalom.checks import shown
from slalom.errors import InputError
from slalom.files import Record
from slalom.models.torch import Packed
from slalom.registry import Registry
from slalom.tokens import FloatArray, IntArray

EngineName = str
"""One of `engine_names()`."""
EAGER = "eager"
"""The module itself."""
REGISTRY = Registry("engine", __name__, "ENGINES", "slalom.engines")

Report = Record
"""The name of what answered, its deviation, the spread and the tolerance; what the engine says of itself."""
Raw = Callable[[IntArray, IntArray], FloatArray]
"""(B, L) ids and token types → (B, k) answers."""


@dataclass(frozen=True, eq=False)
class Made:
    """An engine that was made for a module."""

    answer: Raw
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the report says of how it was made."""
    packed: Packed | None = None
    """The same for batches of several lengths at once."""


@dataclass(frozen=True)
class Kind:
    """What there is to know about an engine before it is made."""

    tolerance: float
    """The largest deviation from the original, as a share of the spread of the original's logits."""
    live: bool = False
    """Whether it computes with the module's own weights, so that a change of them reaches it."""
    light: bool = False
    """Whether it is made in no time: anew for every set of queries, from the module as it is then."""
    calibrated: bool = False
    """Whether it is made with a look at batches of ids."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """How an engine is made."""

    kind: Kind
    make: Callable[..., Made]


def engine_names() -> tuple[str, ...]:
    """Every engine that can be asked for. Where none is, `engine.Default` chooses."""
    return EAGER, *(name for entry in REGISTRY.names() for name in _declared(entry))


def recipe(name: str) -> Recipe:
    """How an engine is made, by its name."""
    entry = next(entry for entry in REGISTRY.names() if name in _declared(entry))
    return recipe_in(REGISTRY.module(entry), name)


def recipe_in(module: ModuleType, name: str) -> Recipe:
    """The same in a module that is known."""
    return Recipe(Kind(**module.ENGINES[name]), getattr(module, f"make_{name.replace('-', '_')}"))


def check_engine(name: str | None, tolerance: float | None) -> None:
    """Refuses an engine that is not there, and a tolerance that has nothing to judge."""
    if name not in (None, EAGER) and name not in (known := engine_names()):
        words = ", ".join(map(repr, known))
        raise InputError(f"engine must be {words} or None; got {shown(name)}")
    if tolerance is not None and name in (None, EAGER):
        raise InputError("engine_tolerance judges an engine; choose one, such as engine='onnx'")


def _declared(entry: str) -> list[str]:
    engines = REGISTRY.header(entry).said["ENGINES"]
    if not isinstance(engines, Mapping):
        raise ImportError(f"ENGINES of {entry!r} must be written out: {{'name': {{'tolerance': 0.001}}}}")
    return [str(name) for name in cast(Mapping[object, object], engines)]
