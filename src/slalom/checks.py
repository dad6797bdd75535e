"""What an option may be. Its annotation declares it, and this is the one place that checks it.

    Literal["mask", "zero"]                  one of these
    bool                                     True or False
    Annotated[int, Range(1, 100)]            a whole number within these bounds
    Annotated[float, Range(0, 10)]           a number within these bounds
    Sequence[str]                            a list of names
    Sequence[Annotated[float, Range(0, 1)]]  a list of numbers within these bounds, at least one
    Callable, Path, str, …                   an instance of the class
    X | Y | None                             any of them

Numbers of numpy count as Python's. Bounds are included; NaN and infinite numbers lie outside of all bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from slalom.errors import InputError


@dataclass(frozen=True)
class Range:
    """The bounds of a number, both included."""

    least: float = -math.inf
    most: float = math.inf

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most

    def __str__(self) -> str:
        low, high = (f"{n:,}" if isinstance(n, int) else f"{n:g}" for n in (self.least, self.most))
        if abs(self.least) == abs(self.most) == math.inf:
            return ""
        return f" of at least {low}" if self.most == math.inf else f" from {low} to {high}"


MOST_QUERIES = 1_000_000
"""The largest budget: beyond, the queries alone would fill the memory of most machines."""

Budget = Literal["auto"] | Annotated[int, Range(1, MOST_QUERIES)]
Seed = Annotated[int, Range(0, 2**63 - 1)]
Count = Annotated[int, Range(0)]
Positive = Annotated[int, Range(1)]
Drawn = Annotated[int, Range(1, MOST_QUERIES)]
"""How many copies, or versions of them, are drawn at random."""
Share = Annotated[float, Range(0.001, 0.999)]
"""A part of a whole, neither nothing nor all."""


@dataclass(frozen=True)
class Allowed:
    """All that one option may be."""

    choices: tuple[str | bool | None, ...] = ()
    whole: Range | None = None
    number: Range | None = None
    names: bool = False
    """A list of strings, or of whole numbers, which become strings."""
    numbers: Range | None = None
    """A list of numbers."""
    kinds: tuple[type, ...] = ()
    """Classes whose instances are taken as they are."""

    def check(self, name: str, given: object) -> Any:  # noqa: ANN401 - of the kind that is declared
        """What was given, numbers and names in Python's own types; an InputError where it is not allowed."""
        value = self._taken(given)
        if value is _REFUSED:
            raise InputError(f"{name} must be {self}; got {shown(given)}")
        return value

    def _taken(self, given: object) -> object:
        if isinstance(given, str | bool | NoneType):
            plain = isinstance(given, str) and str in self.kinds
            return given if plain or object in self.kinds or given in self.choices else _REFUSED
        if self.whole is not None and isinstance(given, Integral) and int(given) in self.whole:
            return int(given)
        if self.number is not None and isinstance(given, Real) and _float(given) in self.number:
            return float(given)
        if (self.names or self.numbers) and (several := self._several(_listed(given))):
            return several
        return given if isinstance(given, self.kinds) else _REFUSED

    def _several(self, given: list[object]) -> tuple[str, ...] | tuple[float, ...] | None:
        """A list in Python's own types; nothing where it is empty or holds anything else."""
        named = _names(given) if self.names else None
        return _numbers(given, self.numbers) if named is None and self.numbers else named

    def __str__(self) -> str:
        words = [repr(choice) for choice in self.choices if choice is not None]
        words += [f"a whole number{self.whole}"] * (self.whole is not None)
        words += [f"a number{self.number}"] * (self.number is not None)
        words += ["a list of names"] * self.names
        words += [f"a list of numbers{self.numbers}"] * (self.numbers is not None)
        words += [_WORDS.get(kind, f"of the type {kind.__name__}") for kind in self.kinds]
        words += ["None"] * (None in self.choices)
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_REFUSED = object()
_WORDS = {str: "text", Callable: "a function", object: "anything", tuple: "a pair"}


def check(name: str, given: object, annotation: object) -> Any:  # noqa: ANN401 - of the kind annotated
    """`given` as the annotation allows it; raises an InputError that says what is allowed."""
    return allowed(annotation).check(name, given)


@cache
def declared(function: Callable[..., object]) -> Mapping[str, Allowed]:
    """What each parameter of a function, or field of a class, may be, as far as it is annotated."""
    hints = get_type_hints(function, include_extras=True)
    return {name: allowed(hint) for name, hint in hints.items() if name != "return"}


def at_least_one(**numbers: object) -> None:
    """Raise an InputError for the first that is no whole number of at least 1; None says nothing."""
    for name, given in numbers.items():
        if given is not None:
            check(name, given, Positive)


def check_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise an InputError for the first name that is not known; `what` has the options."""
    names = list(known)
    stray = next((name for name in given if name not in names), None)
    if stray is not None:
        raise InputError(f"{what} has no option {stray!r}; its options are: {', '.join(names)}")


@cache
def allowed(annotation: object) -> Allowed:
    """What an annotation allows."""
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind in (Union, UnionType):
        return _any_of([allowed(part) for part in parts])
    if kind is Literal or annotation in (bool, None, NoneType):
        return Allowed(choices=parts or ((True, False) if annotation is bool else (None,)))
    base, bounds = (parts[0], parts[1]) if kind is Annotated else (annotation, Range())
    if base in (int, float):
        return Allowed(whole=bounds) if base is int else Allowed(number=bounds)
    if kind is Sequence:
        inside = allowed(parts[0])
        return Allowed(names=inside.number is None, numbers=inside.number)
    return Allowed(kinds=(cast(type, object if annotation is Any else kind or annotation),))


def _any_of(parts: Sequence[Allowed]) -> Allowed:
    return Allowed(
        choices=tuple(choice for part in parts for choice in part.choices),
        whole=next((part.whole for part in parts if part.whole), None),
        number=next((part.number for part in parts if part.number), None),
        names=any(part.names for part in parts),
        numbers=next((part.numbers for part in parts if part.numbers), None),
        kinds=tuple(kind for part in parts for kind in part.kinds),
    )


def _float(given: Real) -> float:
    """A number as a float; NaN, which lies in no range, where it has no finite one."""
    try:
        number = float(given)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _listed(given: object) -> list[object]:
    """What a list, a tuple or an array holds; nothing where it is none."""
    listed = getattr(given, "tolist", None)
    entries: object = listed() if callable(listed) else given
    if not isinstance(entries, Iterable) or isinstance(entries, str | bytes | Mapping):
        return []
    return list(cast("Iterable[object]", entries))


def _names(entries: list[object]) -> tuple[str, ...] | None:
    known = all(not isinstance(entry, bool) and isinstance(entry, str | Integral) for entry in entries)
    return tuple(map(str, entries)) if known else None


def _numbers(entries: list[object], bounds: Range) -> tuple[float, ...] | None:
    plain = (entry for entry in entries if not isinstance(entry, bool))
    numbers = [_float(entry) for entry in plain if isinstance(entry, Real)]
    known = len(numbers) == len(entries) and all(number in bounds for number in numbers)
    return tuple(numbers) if known else None


def shown(given: object, most: int = 60) -> str:
    """A value as an error message shows it: on one line, not too long, whatever it is."""
    try:
        text = " ".join(repr(given).split())
    except Exception:  # repr is the caller's code; huge whole numbers have none  # noqa: BLE001
        text = f"a {type(given).__name__}"
    return text if len(text) <= most else f"{text[:most]}…"
