"""Which explanation is faithful: protocols judge explanations.

A protocol is a function of a `Case` (a text, its model and an explanation) that a decorator declares one
(`slalom.evaluate.protocol.protocol`): it gives the protocol its name and says which of its numbers are good.
The files of `protocols` hold ours; another package brings one by an entry point of the group
`slalom.protocols`, a program hands over the function, a command line names it `module:function`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import slalom.evaluate.protocols  # noqa: F401 - first, so that the name is the function below from then on
from slalom.registry import Registry, function_named

if TYPE_CHECKING:
    from slalom.evaluate.protocol import Measure, Protocol

REGISTRY = Registry("protocol", "slalom.evaluate.protocols", "@protocol", "slalom.protocols")


def names() -> tuple[str, ...]:
    """The names of all protocols, sorted."""
    return REGISTRY.names()


def protocols() -> dict[str, Protocol]:
    """All protocols by name."""
    return {name: find(name) for name in names()}


def find(judge: str | Measure) -> Protocol:
    """The protocol of this name, or the function's own."""
    from slalom.evaluate.protocol import declared

    if not isinstance(judge, str):
        return declared(judge)
    found = declared(function_named(judge) if ":" in judge else REGISTRY.function(judge))
    return replace(found, name=judge)


def load(name: str) -> Measure:
    """The function of the protocol called `name`."""
    return find(name).measure


def options(name: str) -> dict[str, object]:
    """The options that a protocol has, with their defaults."""
    return find(name).options
