"""Files as a registry: one file of a package is one entry, and other packages bring theirs by entry points.

Listing reads the sources and imports none of them, so that no heavy package is loaded for a list.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from slalom.errors import InputError


@dataclass(frozen=True)
class Header:
    """What a source says of itself at the top level."""

    summary: str
    """The first sentence of its docstring."""
    said: Mapping[str, object]
    """Its constants that are literals, such as NEEDS."""
    decorated: Mapping[tuple[str, str], str]
    """Its functions, by their decorator and the name that it gives them: `@protocol("deletion", …)`."""


@dataclass(frozen=True)
class Registry:
    """The entries of a kind: those of the files of a package, and those of an entry point group.

    An entry is a module that has a constant, the `mark`; or, where the mark is `@decorator`, a function that
    is decorated so, under the name that its decorator gives it. An entry point names a module or a function:
    `[project.entry-points."slalom.explainers"]`, `mine = "my_package.mine"`; and in "slalom.protocols",
    `mine = "my_package.mine:measure"`. A name of the package itself goes before one from outside.
    """

    kind: str
    """What a message calls an entry."""
    package: str
    mark: str
    """The constant without which a module is no entry, or `@` and the decorator of a function that is one."""
    group: str | None = None
    every: bool = False
    """Whether each file of the package is meant as an entry: one without the mark is a mistake."""

    def names(self) -> tuple[str, ...]:
        """The names of all entries, sorted."""
        return tuple(sorted({*self._own(), *self._outside()}))

    def module(self, name: str) -> ModuleType:
        """The module of an entry, imported."""
        return importlib.import_module(self._place(name).partition(":")[0])

    def function(self, name: str) -> object:
        """The function that is an entry; its module is imported."""
        function = self._place(name).partition(":")[2]
        return getattr(self.module(name), function)

    def header(self, name: str) -> Header:
        """What an entry says of itself, read from its source."""
        header = _header(self._place(name))
        if header is None or self.mark not in header.said:
            raise ImportError(f"the {self.kind} {name!r} does not say its {self.mark}")
        return header

    def _own(self) -> Mapping[str, str]:
        """By name, the module of an entry or `module:function`."""
        places = [f"{self.package}.{name}" for name in self._files()]
        if not self.mark.startswith("@"):
            return {place.rpartition(".")[2]: place for place in places if self._marked(place)}
        headers = [(place, header) for place in places if (header := _header(place)) is not None]
        return {
            name: f"{place}:{function}"
            for place, header in headers
            for (decorator, name), function in header.decorated.items()
            if decorator == self.mark[1:]
        }

    def _files(self) -> list[str]:
        path = importlib.import_module(self.package).__path__
        found = (info.name for info in pkgutil.iter_modules(path) if not info.ispkg)
        return [name for name in found if not name.startswith("_")]

    def _outside(self) -> Mapping[str, str]:
        return {} if self.group is None else _points(self.group, tuple(sys.path))

    def _marked(self, module: str) -> bool:
        header = _header(module)
        return self.every or (header is not None and self.mark in header.said)

    def _place(self, name: str) -> str:
        own = f"{self.package}.{name}"
        if not self.mark.startswith("@") and name in self._files() and self._marked(own):
            return own  # without a look at the other files
        found = {**self._outside(), **self._own()}
        if name not in found:
            raise InputError(f"there is no {self.kind} {name!r}; choose one of: {', '.join(self.names())}")
        return found[name]


def function_named(name: str) -> Callable[..., object]:
    """The function that a user names `module:function`. It runs that module: take no name from a network."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"cannot find the function {name!r} (MODULE:FUNCTION): {error}; options are NAME:KEY=VALUE"
        ) from error
    if not callable(found):
        raise InputError(f"{name!r} is no function")
    return found


@cache
def _points(group: str, _path: tuple[str, ...]) -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group=group)}


def _header(module: str) -> Header | None:
    """None where there is no source."""
    loaded = sys.modules.get(module)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return _read(Path(spec.origin), Path(spec.origin).stat().st_mtime_ns)


@cache
def _read(source: Path, _changed: int) -> Header:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    paragraph = " ".join((ast.get_docstring(tree) or "").split("\n\n", 1)[0].split())
    said: dict[str, object] = {}
    decorated: dict[tuple[str, str], str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            decorated |= {call: node.name for call in map(_call, node.decorator_list) if call is not None}
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [target.id for target in targets if isinstance(target, ast.Name)]
            said |= dict.fromkeys(named, _literal(node.value))
    return Header(paragraph.split(". ", 1)[0].rstrip("."), said, decorated)


def _call(node: ast.expr) -> tuple[str, str] | None:
    """The decorator and its first argument, of `@decorator("name", …)`."""
    match node:
        case ast.Call(func=ast.Name(id=decorator), args=[ast.Constant(value=str(name)), *_]):
            return decorator, name
        case _:
            return None


def _literal(node: ast.expr) -> object:
    """None for what only runs."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
