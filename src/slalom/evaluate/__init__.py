"""Which explanation is faithful: protocols judge explanations.

A protocol is a function of a `Case` (a text, its model and an explanation) that a decorator declares one
(`slalom.evaluate.protocol.protocol`): it gives the protocol its name and says which of its numbers are good.
The files of `protocols` hold ours; another package brings one by an entry point of the group
`slalom.protocols`, a program hands over the function, a command line names it `module:function`.

What takes part in an evaluation, methods and protocols with their options, is written NAME:KEY=VALUE:…
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import slalom.evaluate.protocols  # noqa: F401 # pyright: ignore[reportUnusedImport] - the name is the function below from then on
from slalom import explainers
from slalom.errors import InputError
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


_CALL = ("budget", "seed", "granularity", "units")
"""What an `Explainer` takes for every method; the rest are options of a method."""


@dataclass(frozen=True)
class Variant:
    """A method with its options, and which of its scores is judged (None: the one it ranks by)."""

    label: str
    method: str
    call: Mapping[str, object]
    score: str | None = None

    @property
    def same(self) -> str:
        """Equal for variants that judge different scores of one and the same explanation."""
        return f"{self.method} {sorted((key, repr(value)) for key, value in self.call.items())}"


def parse_method(spec: str) -> Variant:
    """A method as written on the command line: `slalom`, `lime:budget=500`, `slalom:score=importance`.

    `module:function` and a file of scores (`shap.parquet`, `scores.jsonl`) are methods of others.
    """
    name, given = _split(spec)
    explainers.open_outside(name)
    own = {key: value for key, value in given.items() if key not in (*_CALL, "score")}
    explainers.check_options(name, own)
    score = given.pop("score", None)
    return Variant(spec.strip(), name, given, None if score is None else str(score))


def parse_methods(specs: Iterable[str]) -> tuple[Variant, ...]:
    """Several methods; each stands for one row of the table."""
    found = tuple(parse_method(spec) for spec in dict.fromkeys(spec.strip() for spec in specs))
    if not found:
        raise InputError(f"no methods to evaluate; choose some of: {', '.join(explainers.names())}")
    return found


def every_method(*, inside: bool, labelled: bool) -> list[str]:
    """The names of all methods that a model allows, SLALOM first.

    inside: the model is a torch module, so that gradients and attention weights can be read. labelled:
    there are labelled texts.
    """
    allowed = {"logits": True, "gradients": inside, "attentions": inside, "labelled data": labelled}
    found = (name for name, about in explainers.methods().items() if allowed[about.needs])
    return sorted(found, key=lambda name: (not name.startswith("slalom"), name))


@dataclass(frozen=True)
class Judge:
    """A protocol with its options."""

    protocol: Protocol
    options: Mapping[str, object]


def parse_protocols(specs: Iterable[str | Measure]) -> dict[str, Judge]:
    """Protocols as written on the command line, by name: `deletion`, `deletion:step=1`, `module:function`.

    A function that is declared a protocol stands for itself.
    """
    found: dict[str, Judge] = {}
    for spec in specs:
        name, given = _split(spec) if isinstance(spec, str) else ("", {})
        judge = find(name if isinstance(spec, str) else spec)
        if judge.name in found:
            raise InputError(f"the protocol {judge.name!r} is named twice")
        found[judge.name] = Judge(judge, judge.check(given))
    if not found:
        raise InputError(f"no protocols to judge by; choose some of: {', '.join(names())}")
    return found


def every_protocol(*, rationales: bool, labelled: bool) -> list[str]:
    """The names of the protocols that apply and do not explain every text again and again.

    Cost is not among them: it is counted for every explanation anyway.
    """
    allowed = {"nothing": True, "rationale": rationales, "label counts": labelled}
    known = protocols().items()
    return [name for name, about in known if allowed.get(about.needs, False) and name != "cost"]


def _split(spec: str) -> tuple[str, dict[str, object]]:
    name, *parts = spec.strip().split(":")
    if parts and "=" not in parts[0]:  # module:function
        name = f"{name}:{parts.pop(0)}"
    given: dict[str, object] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"{spec!r} cannot be read at {part!r}; write NAME:KEY=VALUE:KEY=VALUE")
        if key in given:
            raise InputError(f"{spec!r} gives {key!r} twice")
        given[key] = _value(value)
    return name, given


def _value(given: str) -> object:
    """Numbers, true, false and null as JSON has them; anything else is a string."""
    try:
        return json.loads(given)
    except ValueError:
        return given
