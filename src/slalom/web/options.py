"""The methods a server offers, and how far their options go: as declared, or less where they cost time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from slalom.checks import Allowed, Range
from slalom.errors import InputError
from slalom.explainers import Method, methods, option_ranges, options

_BOUNDS = {
    "batch_size": Range(8, 10_000),
    "epochs": Range(1, 200),
    "length": Range(1, 100),
    "steps": Range(1, 500),
    "most_steps": Range(1, 1_600),
}
_WHOLE = Range(-1_000, 1_000)
"""Whole numbers of all other options."""
_FIELDS = ("granularity", "effort")
"""Options that are fields of a request themselves."""


@cache
def served_methods() -> dict[str, Method]:
    """Not those that read labelled data, which lie in files of the server."""
    return {name: method for name, method in methods().items() if method.needs != "labelled data"}


@cache
def ranges(method: str) -> dict[str, Allowed]:
    """What each of a method's options may be in a request."""
    known = option_ranges(method).items()
    return {name: _narrowed(allowed, _BOUNDS.get(name, _WHOLE)) for name, allowed in known}


def check_options(method: str, given: Mapping[str, Any]) -> None:
    """Refuses what the method, or this server, does not take."""
    known = ranges(method)
    for name, value in given.items():
        if name not in known:
            have = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"the method {method!r} has no option {name!r}; {have}")
        known[name].check(name, value)


@cache
def offered() -> list[dict[str, Any]]:
    """The methods as the API lists them."""
    return [
        {
            "name": method.name,
            "summary": method.summary,
            "needs": method.needs,
            "options": options(method.name),
            "ranges": {name: str(allowed) for name, allowed in ranges(method.name).items()},
        }
        for method in served_methods().values()
    ]


def schema() -> dict[str, Any]:
    """The JSON schema of the options of a request, whichever the method."""
    forms: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for method in served_methods():
        for name, allowed in ranges(method).items():
            if name not in _FIELDS:
                forms.setdefault(name, {})[method] = _schema(allowed)
    properties = {
        name: {"anyOf": _distinct(of_methods), "description": f"Of {', '.join(of_methods)}."}
        for name, of_methods in sorted(forms.items())
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _narrowed(allowed: Allowed, bounds: Range) -> Allowed:
    own = allowed.whole
    if own is None:
        return allowed
    return replace(allowed, whole=Range(max(own.least, bounds.least), min(own.most, bounds.most)))


def _schema(allowed: Allowed) -> list[dict[str, Any]]:
    forms: list[dict[str, Any]] = [{"enum": list(allowed.choices)}] if allowed.choices else []
    for kind, bounds in (("integer", allowed.whole), ("number", allowed.number)):
        if bounds is not None:
            forms.append({"type": kind, "minimum": bounds.least, "maximum": bounds.most})
    return forms


def _distinct(forms: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entries in forms.values():
        found += [entry for entry in entries if entry not in found]
    return found
