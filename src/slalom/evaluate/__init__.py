"""Which explanation is faithful: one file of `protocols` is one protocol; its file name is its public name.

Every protocol module has plain functions of an `Ask` (the model and the tokens that were explained) and an
`Explanation`, and `measure(case, **options)`, which gives its numbers for one `Case`. A module there that
says which of its numbers are GOOD is a protocol; nothing else registers it. Another package brings one by an
entry point of the group `slalom.protocols`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import slalom.evaluate.protocols  # noqa: F401 - first, so that the name is the function below from then on
from slalom.registry import Registry

if TYPE_CHECKING:
    from slalom.evaluate.protocol import Measure

Good = Literal["high", "low"]

REGISTRY = Registry("protocol", "slalom.evaluate.protocols", "GOOD", "slalom.protocols")


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
    return REGISTRY.names()


def protocols() -> dict[str, Protocol]:
    """All protocols by name."""
    return {name: _describe(name) for name in names()}


def load(name: str) -> Measure:
    """The `measure` function of the protocol called `name`."""
    return REGISTRY.module(name).measure


def options(name: str) -> dict[str, Any]:
    """The options that a protocol's `measure` has beside the case, with their defaults."""
    parameters = list(inspect.signature(load(name)).parameters.values())[1:]
    return {p.name: p.default for p in parameters}


def _describe(name: str) -> Protocol:
    module = REGISTRY.module(name)
    return Protocol(name, REGISTRY.header(name).summary, module.NEEDS, dict(module.GOOD))
