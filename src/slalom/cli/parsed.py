"""What the words of the command line mean to the library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import typer

from slalom.cli.options import EffortName, EngineChoice

if TYPE_CHECKING:
    from slalom.api import Explainer

_TAKEN = ("target", "method", "budget", "seed", "granularity", "every_class", "explain", "progress")
"""Arguments of an explanation that have a way of their own on the command line."""


def names(given: str | None) -> list[str] | None:
    """A list with commas."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def queries(budget: str) -> int | Literal["auto"]:
    """The value of --budget, which has been checked."""
    return "auto" if budget == "auto" else int(budget)


def granularity(words: bool, types: bool = False) -> Literal["positions", "types", "words"]:
    """What --words and --types ask for."""
    if words and types:
        raise typer.BadParameter("--words and --types exclude each other")
    return "words" if words else "types" if types else "positions"


def explainer(
    model: str | None, device: str | None, engine: EngineChoice | None, tolerance: float | None
) -> Explainer:
    """The model of --model, --device, --engine and --engine-tolerance."""
    from slalom.api import Explainer

    name = engine.value if engine else None
    return Explainer(model, device=device, engine=name, engine_tolerance=tolerance)


def method_options(given: list[str] | None, effort: EffortName | None) -> dict[str, Any]:
    """What --option and --effort hand to the method."""
    named: dict[str, Any] = {} if effort is None else {"effort": effort.value}
    for one in given or []:
        key, _, value = one.partition("=")
        if key in named:
            raise typer.BadParameter(f"the option {key!r} is given twice")
        if key in _TAKEN:
            raise typer.BadParameter(f"{key!r} is not an option of a method; see slalom explain --help")
        named[key] = _value(value)
    return named


def _value(given: str) -> Any:
    """Numbers, true, false and null as JSON has them; anything else is a string."""
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given
