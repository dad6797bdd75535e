"""The tables and figures of the two papers: one file is one of them; its file name is its public name.

An experiment is a module here that makes a CLAIM; nothing else registers it. It has

    TITLE    which table or figure of which paper
    CLAIM    what the paper says it shows
    NEEDS    {"data": names of data sets, "packages": modules of optional packages}
    SIZES    by mode ("quick", "full"), a frozen dataclass: how much is trained, asked and explained
    run      (Settings, size=None) → Outcome
    judge    (rows) → (verdict, sentence): what the rows say about the claim, and nothing but the rows
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from slalom.errors import InputError


@dataclass(frozen=True)
class Experiment:
    """What a list of experiments says about one of them."""

    name: str
    title: str
    claim: str
    data: tuple[str, ...]
    packages: tuple[str, ...]


def names() -> tuple[str, ...]:
    """The names of all experiments, sorted."""
    found = (info.name for info in pkgutil.iter_modules(__path__) if not info.ispkg)
    return tuple(sorted(name for name in found if "CLAIM" in _said(name)))


def experiments() -> dict[str, Experiment]:
    """All experiments by name. Their sources are read, not imported: listing loads no heavy package."""
    return {name: describe(name) for name in names()}


def describe(name: str) -> Experiment:
    """What an experiment says about itself."""
    said = _said(_known(name))
    needs: Mapping[str, tuple[str, ...]] = said["NEEDS"]
    return Experiment(name, said["TITLE"], said["CLAIM"], tuple(needs["data"]), tuple(needs["packages"]))


def load(name: str) -> Any:
    """The module of an experiment."""
    return importlib.import_module(f"{__name__}.{_known(name)}")


def full_name(name: str) -> str:
    """The experiment that a name or its first word means: `table2a` is `table2a_naive_bayes`."""
    found = [known for known in names() if known.partition("_")[0] == name]
    return found[0] if len(found) == 1 else _known(name)


def _known(name: str) -> str:
    known = names()
    if name not in known:
        raise InputError(f"there is no experiment {name!r}; choose of: {', '.join(known)}")
    return name


@cache
def _said(name: str) -> dict[str, Any]:
    """The literals TITLE, CLAIM and NEEDS of a source."""
    spec = importlib.util.find_spec(f"{__name__}.{name}")
    if spec is None or spec.origin is None:
        return {}
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    said = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
            if target in ("TITLE", "CLAIM", "NEEDS"):
                said[target] = ast.literal_eval(node.value)
    return said
