"""The tables and figures of the two papers: one file is one of them; its file name is its public name.

An experiment is a module here that makes a CLAIM; nothing else registers it. It has

    TITLE    which table or figure of which paper
    CLAIM    what the paper says it shows
    NEEDS    {"data": names of data sets, "packages": modules of optional packages}
    SIZES    by mode ("quick", "full"), a frozen dataclass: how much is trained, asked and explained
    run      (RunSettings, size=None) → Findings
    judge    (rows) → (verdict, sentence): what the rows say about the claim, and nothing but the rows
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from slalom.registry import Registry

REGISTRY = Registry("experiment", __name__, "CLAIM")


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
    return REGISTRY.names()


def experiments() -> dict[str, Experiment]:
    """All experiments by name. Their sources are read, not imported: listing loads no heavy package."""
    return {name: describe(name) for name in names()}


def describe(name: str) -> Experiment:
    """What an experiment says about itself."""
    said: Any = REGISTRY.header(name).said
    needs = said["NEEDS"]
    return Experiment(name, said["TITLE"], said["CLAIM"], tuple(needs["data"]), tuple(needs["packages"]))


def load(name: str) -> ModuleType:
    """The module of an experiment."""
    return REGISTRY.module(name)


def full_name(name: str) -> str:
    """The experiment that a name or its first word means: `table2a` is `table2a_naive_bayes`."""
    found = [known for known in names() if known.partition("_")[0] == name]
    if len(found) != 1:
        REGISTRY.header(name)
    return found[0] if len(found) == 1 else name
