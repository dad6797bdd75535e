"""The methods. One file here is one method; its file name is its public name; nothing else registers it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom.checks import Allowed, declared
from slalom.errors import InputError

if TYPE_CHECKING:
    from slalom.explanation import Explanation

    ExplainFunction = Callable[..., Explanation]

CONTRACT = frozenset({"ask", "target", "budget", "seed"})
"""The parameters that every method has; whatever else stands in its signature is its own option."""


@dataclass(frozen=True)
class Method:
    """What a list of methods says about one of them."""

    name: str
    summary: str
    """The first sentence of the module's docstring."""
    needs: str
    """What the method needs from a model: "logits", "gradients", "attentions", "labelled data"."""


def names() -> tuple[str, ...]:
    """The names of all methods, sorted."""
    found = (info.name for info in pkgutil.iter_modules(__path__) if not info.ispkg)
    return tuple(sorted(name for name in found if not name.startswith("_")))


def methods() -> dict[str, Method]:
    """All methods by name. Their sources are read, not imported: listing loads no heavy package."""
    return {name: _describe(name) for name in names()}


def load(name: str) -> ExplainFunction:
    """The `explain` function of the method called `name`."""
    known = names()
    if name not in known:
        raise InputError(f"there is no method {name!r}; choose one of: {', '.join(known)}")
    return importlib.import_module(f"{__name__}.{name}").explain


def together(name: str) -> bool:
    """Whether texts may be explained side by side.

    A method says TOGETHER if it holds no state of the process (random state, warning filters) while it asks.
    """
    load(name)
    return getattr(importlib.import_module(f"{__name__}.{name}"), "TOGETHER", False)


def options(name: str) -> dict[str, Any]:
    """The options that a method has of its own, with their defaults."""
    parameters = inspect.signature(load(name)).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in CONTRACT}


def option_ranges(name: str) -> dict[str, Allowed]:
    """What each of a method's own options may be, from the annotations of its `explain`.

    `str(allowed)` says it in words, `allowed.check(option, value)` checks a value. Where less is allowed
    (by a server, say), narrow it: `dataclasses.replace(allowed, whole=Range(1, 100))`.
    """
    known = declared(load(name))
    return {option: known.get(option, Allowed(kinds=(object,))) for option in options(name)}


def check_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the method takes them; an InputError names the first that it does not have or take."""
    known = option_ranges(name)
    for option in given:
        if option not in known:
            have = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"the method {name!r} has no option {option!r}; {have}")
    return {option: known[option].check(option, value) for option, value in given.items()}


def _describe(name: str) -> Method:
    spec = importlib.util.find_spec(f"{__name__}.{name}")
    if spec is None or spec.origin is None:
        raise ImportError(f"the method {name!r} has no source file")
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    paragraph = " ".join((ast.get_docstring(tree) or "").split("\n\n", 1)[0].split())
    return Method(name, paragraph.split(". ", 1)[0].rstrip("."), _needs(tree, name))


def _needs(tree: ast.Module, name: str) -> str:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "NEEDS" for target in targets):
                return ast.literal_eval(node.value)
    raise ImportError(f"the method {name!r} does not say what it NEEDS from a model")
