"""Which explanation is faithful: one file of `protocols` is one protocol; its file name is its public name.

Every protocol module has plain functions of an `Ask` (the model and the tokens that were explained) and an
`Explanation`, and `measure(case, **options)`, which gives its numbers for one `Case`. A module there that
says which of its numbers are GOOD is a protocol; nothing else registers it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from slalom.errors import InputError
from slalom.evaluate import protocols as _package

if TYPE_CHECKING:
    from slalom.evaluate.protocol import Measure

Good = Literal["high", "low"]


@dataclass(frozen=True)
class Protocol:
    """What a list of protocols says about one of them."""

    name: str
    summary: str
    """The first sentence of the module's docstring."""
    needs: str
    """What it needs beside a text, its model and an explanation; `slalom.evaluate.protocol.Needs`."""
    good: Mapping[str, Good]
    """The numbers it can yield for a document, and whether high or low is good."""


def names() -> tuple[str, ...]:
    """The names of all protocols, sorted."""
    found = (info.name for info in pkgutil.iter_modules(_package.__path__) if not info.ispkg)
    return tuple(sorted(name for name in found if not name.startswith("_") and _is_protocol(name)))


def protocols() -> dict[str, Protocol]:
    """All protocols by name."""
    return {name: _describe(name) for name in names()}


def load(name: str) -> Measure:
    """The `measure` function of the protocol called `name`."""
    return _module(name).measure


def options(name: str) -> dict[str, Any]:
    """The options that a protocol's `measure` has beside the case, with their defaults."""
    parameters = list(inspect.signature(load(name)).parameters.values())[1:]
    return {p.name: p.default for p in parameters}


def _module(name: str) -> ModuleType:
    if not _is_protocol(name):
        raise InputError(f"there is no protocol {name!r}; choose one of: {', '.join(names())}")
    return importlib.import_module(f"{_package.__name__}.{name}")


def _describe(name: str) -> Protocol:
    module = _module(name)
    paragraph = " ".join((module.__doc__ or "").split("\n\n", 1)[0].split())
    return Protocol(name, paragraph.split(". ", 1)[0].rstrip("."), module.NEEDS, dict(module.GOOD))


@cache
def _is_protocol(name: str) -> bool:
    """Whether the source says which numbers are GOOD; it is read, not imported."""
    spec = importlib.util.find_spec(f"{_package.__name__}.{name}") if name.isidentifier() else None
    if spec is None or spec.origin is None:
        return False
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == "GOOD" for target in targets):
            return True
    return False
