"""Every public name says what it takes, gives and raises, and has an example; all examples run.

Public is what docs/api.md lists: at least all that the pages, the README and the examples import. Arguments,
returns and raises are checked by the code itself: its signature, and what its body raises.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

API = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def _listed() -> dict[str, Any]:
    """The objects of the page, by their full names."""
    found: dict[str, Any] = {}
    for module, members in re.findall(
        r"^::: ([\w.]+)\n(?:    .*\n)*?      members: \[([^\]]*)\]", API, re.MULTILINE
    ):
        for name in members.split(", "):
            found[f"{module}.{name}"] = getattr(importlib.import_module(module), name)
    return found


LISTED = _listed()
ALONE = re.findall(r"^::: ([\w.]+)\.([A-Z]\w+)$", API, re.MULTILINE)
"""Classes whose methods are in the reference, and whose example is enough."""


def _methods(kind: type) -> dict[str, Callable[..., Any]]:
    own = {
        name: value for name, value in vars(kind).items() if not name.startswith("_") or name == "__call__"
    }
    plain = {name: getattr(value, "__func__", value) for name, value in own.items()}
    return {name: value for name, value in plain.items() if inspect.isfunction(value)}


FUNCTIONS = {name: found for name, found in LISTED.items() if inspect.isfunction(found)}
CLASSES = {name: found for name, found in LISTED.items() if inspect.isclass(found)}
METHODS = {
    f"{name}.{method}": found for name, kind in CLASSES.items() for method, found in _methods(kind).items()
}


def _raises(function: Callable[..., Any]) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def _sections(doc: str) -> dict[str, str]:
    parts = re.split(r"^(Args|Returns|Raises|Example):\n", doc, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", sorted({**FUNCTIONS, **METHODS}))
def test_a_function_says_what_it_takes_gives_and_raises(name: str) -> None:
    function = {**FUNCTIONS, **METHODS}[name]
    other = re.search(r"; as `([\w.]+)\.(\w+)`\.$", " ".join((inspect.getdoc(function) or "").split()))
    if other:
        function = getattr(importlib.import_module(other.group(1)), other.group(2))
    sections = _sections(inspect.getdoc(function) or "")
    signature = inspect.signature(function)
    listed = [one for one in signature.parameters.values() if "Unpack" not in str(one.annotation)]
    taken = [one.name for one in listed if one.name not in ("self", "cls")]
    told = re.findall(r"^    ([\w, ]+):", sections.get("Args", ""), flags=re.MULTILINE)
    assert {one for line in told for one in line.split(", ")} >= set(taken)
    if str(signature.return_annotation) not in ("None", "<class 'inspect._empty'>"):
        assert "Returns" in sections
    if _raises(function):
        assert "Raises" in sections


EXAMPLES = {**FUNCTIONS, **CLASSES}
EXAMPLES |= {f"{module}.{name}": getattr(importlib.import_module(module), name) for module, name in ALONE}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_name_has_an_example_that_runs(name: str) -> None:
    found = EXAMPLES[name]
    examples = doctest.DocTestFinder(recurse=False).find(found, name, globs={})
    assert sum(len(one.examples) for one in examples), "no example"
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for one in examples:
        report: list[str] = []
        assert runner.run(one, out=report.append).failed == 0, "".join(report)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_example_of_a_class_uses_its_methods(name: str) -> None:
    doc = inspect.getdoc(CLASSES[name]) or ""
    for method, function in _methods(CLASSES[name]).items():
        if method != "__call__" and ">>>" not in (function.__doc__ or ""):
            assert f".{method}(" in doc, method


def _imported(source: str) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").partition(".")[0] == "slalom"]
    return {f"{node.module}.{name.name}" for node in ours for name in node.names}


def test_whatever_readers_are_shown_is_listed() -> None:
    """The front door, and what pages, README and examples import; theory has its notebook."""
    import slalom

    root = Path(__file__).parents[1]
    pages = [path.read_text(encoding="utf-8") for path in (root / "README.md", *(root / "docs").glob("*.md"))]
    sources = [block for page in pages for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)]
    sources += [path.read_text(encoding="utf-8") for path in (root / "examples").glob("*.py")]
    shown = set().union(*map(_imported, sources))
    shown |= {f"slalom.{name}" for name in slalom.__all__ if name != "__version__"}
    reference = {id(found) for found in EXAMPLES.values()}
    objects = {
        full: getattr(importlib.import_module(full.rpartition(".")[0]), full.rpartition(".")[2])
        for full in shown
    }
    assert [full for full, found in sorted(objects.items()) if id(found) not in reference] == []
