"""Files as a registry: one file of a package is one entry, and other packages bring theirs by entry points.

Listing reads the sources and imports none of them, so that no heavy package is loaded for a list.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
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


@dataclass(frozen=True)
class Registry:
    """The entries of a kind: the modules of a package that have a `mark`, and those of an entry point group.

    An entry point names a module: `[project.entry-points."slalom.explainers"]`, `mine = "my_package.mine"`.
    A name of the package itself goes before one from outside.
    """

    kind: str
    """What a message calls an entry."""
    package: str
    mark: str
    """The constant without which a module is no entry."""
    group: str | None = None
    every: bool = False
    """Whether each file of the package is meant as an entry: one without the mark is a mistake."""

    def names(self) -> tuple[str, ...]:
        """The names of all entries, sorted."""
        return tuple(sorted({*self._own(), *self._outside()}))

    def module(self, name: str) -> ModuleType:
        """The module of an entry, imported."""
        return importlib.import_module(self._place(name))

    def header(self, name: str) -> Header:
        """What an entry says of itself, read from its source."""
        header = _header(self._place(name))
        if header is None or self.mark not in header.said:
            raise ImportError(f"the {self.kind} {name!r} does not say its {self.mark}")
        return header

    def _own(self) -> list[str]:
        return [name for name in self._files() if self._marked(f"{self.package}.{name}")]

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
        if name in self._files() and self._marked(f"{self.package}.{name}"):
            return f"{self.package}.{name}"
        outside = self._outside()
        if name not in outside:
            raise InputError(f"there is no {self.kind} {name!r}; choose one of: {', '.join(self.names())}")
        return outside[name]


@cache
def _points(group: str, _path: tuple[str, ...]) -> Mapping[str, str]:
    return {point.name: point.module for point in entry_points(group=group)}


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
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [target.id for target in targets if isinstance(target, ast.Name)]
            said |= dict.fromkeys(named, _literal(node.value))
    return Header(paragraph.split(". ", 1)[0].rstrip("."), said)


def _literal(node: ast.expr) -> object:
    """None for what only runs."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
