"""The methods. One file here is one method; its file name is its public name; nothing else registers it.

A method is a module with a header and a function:

    "..."      a docstring; its first sentence is what `slalom methods` says of it
    NEEDS      what it needs of a model: "logits", "gradients", "attentions" or "labelled data"
    TOGETHER   whether texts may be explained side by side: it holds no state of the process (random state,
               warning filters) while it asks; False where it is not said
    explain    (ask, target, *, budget, seed, …) → Explanation; what else stands in its signature is an option
               of its own, and the annotation says what it may be (`slalom.checks`). One that takes
               `granularity` can explain token types, too.

Another package brings one by an entry point of the group `slalom.explainers`; a user gives a function:
`explainer(text, method=my_function)`. docs/write-your-own-method.md has examples.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

from slalom.checks import Allowed, declared, shown
from slalom.errors import InputError
from slalom.registry import Registry

if TYPE_CHECKING:
    from slalom.explanation import Explanation
    from slalom.models.ask import Ask
    from slalom.models.target import Target

    ExplainFunction = Callable[..., Explanation]

CONTRACT = frozenset({"ask", "target", "budget", "seed"})
"""The parameters that every method has; whatever else stands in its signature is its own option."""

REGISTRY = Registry("method", __name__, "NEEDS", "slalom.explainers", every=True)

MethodLike = str | Callable[..., object]
"""A method by name, or a function (ask, target, …) that gives an Explanation, or a score for each token."""

_OUTSIDE: dict[str, ExplainFunction] = {}
"""Methods of others, by the name that they were opened with; see `open_outside`."""


@dataclass(frozen=True)
class Method:
    """What a list of methods says about one of them."""

    name: str
    summary: str
    """The first sentence of the module's docstring."""
    needs: str
    """What the method needs from a model: "logits", "gradients", "attentions", "labelled data"."""
    together: bool = False
    """Whether texts may be explained side by side."""


def names() -> tuple[str, ...]:
    """The names of all methods, sorted."""
    return REGISTRY.names()


def methods() -> dict[str, Method]:
    """All methods by name. Their sources are read, not imported: listing loads no heavy package."""
    return {name: _describe(name) for name in names()}


def load(method: MethodLike) -> ExplainFunction:
    """The `explain` function of a method; a function of the caller's own is made to keep the contract."""
    if not isinstance(method, str):
        return _own(method, method_name(method))
    return _OUTSIDE[method] if method in _OUTSIDE else REGISTRY.module(method).explain


def open_outside(name: str) -> None:
    """Make a function (`module:function`) or a file of scores a method of this process, under that name.

    It takes code from where it is told to: never call it with a name that came over a network.
    """
    from slalom import outside

    if outside.is_outside(name) and name not in _OUTSIDE:
        _OUTSIDE[name] = _own(outside.open_outside(name), name)


def method_name(method: MethodLike) -> str:
    """What a method is called; a function has its own name."""
    return method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)


def together(method: MethodLike) -> bool:
    """Whether texts may be explained side by side; of a function nothing is known."""
    if not isinstance(method, str) or method in _OUTSIDE:
        return False
    return bool(REGISTRY.header(method).said.get("TOGETHER", False))


def options(method: MethodLike) -> dict[str, object]:
    """The options that a method has of its own, with their defaults."""
    parameters = list(inspect.signature(load(method)).parameters.values())
    own = parameters if isinstance(method, str) else parameters[2:]
    named = [p for p in own if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return {p.name: p.default for p in named if p.name not in CONTRACT}


def option_ranges(method: MethodLike) -> dict[str, Allowed]:
    """What each of a method's own options may be, from the annotations of its `explain`.

    `str(allowed)` says it in words, `allowed.check(option, value)` checks a value. Where less is allowed
    (by a server, say), narrow it: `dataclasses.replace(allowed, whole=Range(1, 100))`.
    """
    known: Mapping[str, Allowed] = declared(load(method)) if isinstance(method, str) else {}
    return {option: known.get(option, Allowed(kinds=(object,))) for option in options(method)}


def check_options(method: MethodLike, given: Mapping[str, object]) -> dict[str, object]:
    """The options as the method takes them; an InputError names the first that it does not have or take."""
    known = option_ranges(method)
    for option in given:
        if option not in known:
            have = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"the method {method_name(method)!r} has no option {option!r}; {have}")
    return {option: known[option].check(option, value) for option, value in given.items()}


def _describe(name: str) -> Method:
    header = REGISTRY.header(name)
    return Method(name, header.summary, str(header.said["NEEDS"]), bool(header.said.get("TOGETHER", False)))


def _own(function: Callable[..., object], name: str) -> ExplainFunction:
    """A caller's function under the contract: given what it takes; its scores become an Explanation."""
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}
    if len(parameters) < 2:
        raise InputError(f"method must be a function of (ask, target, …); got {shown(function)}")

    @wraps(function)
    def explain(ask: Ask, target: Target, **call: object) -> Explanation:
        taken = {key: value for key, value in call.items() if key in parameters or key not in CONTRACT}
        if taken.get("budget") == "auto" and parameters["budget"].default is not inspect.Parameter.empty:
            del taken["budget"]  # its own default holds
        return _explanation(function(ask, target, **taken), ask, target, name)

    return explain


def _explanation(result: object, ask: Ask, target: Target, name: str) -> Explanation:
    import numpy as np

    from slalom.explainers._common import finish
    from slalom.explanation import Explanation

    if isinstance(result, Explanation):
        return result
    scores = np.asarray(result, dtype=float)
    if scores.shape != (len(ask.tokens),):
        raise InputError(
            f"the method {name!r} must give an Explanation, or a score for each of the {len(ask.tokens)} "
            f"tokens; it gave an array of shape {scores.shape}"
        )
    return finish(ask, target, name, {"attribution": scores})
