"""Every public name says what it takes, gives and raises, and has an example; all examples run.

Public is what docs/api.md lists, what an `__all__` names, and every function and class of `slalom.theory`
without an underscore. The list holds at least all that the pages, the README and the examples import.
Arguments, returns and raises are checked by the code itself: its signature, and what its body raises. A type
needs no example of its own where it is what a function with an example gives back, or a field of such a type.
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
from types import ModuleType
from typing import Any

import pytest

import slalom

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


def _named(module: ModuleType) -> dict[str, Any]:
    """The functions and classes that a module names in `__all__`, or, in theory, all its own."""
    own = [
        name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__
    ]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    objects = {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    return {
        name: found for name, found in objects.items() if inspect.isfunction(found) or inspect.isclass(found)
    }


def _others() -> dict[str, Any]:
    """What is public besides the page, by full name; whatever the page lists is left out."""
    root = Path(slalom.__file__).parent
    files = [path for path in root.rglob("*.py") if "\n__all__ = " in path.read_text(encoding="utf-8")]
    files += [path for path in (root / "theory").glob("*.py") if path not in files]
    found: dict[str, Any] = {}
    for path in sorted(files):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found |= _named(importlib.import_module(".".join(parts).removesuffix(".__init__")))
    return {
        name: one for name, one in found.items() if id(one) not in {id(other) for other in EXAMPLES.values()}
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


OTHERS = _others()


def _run_examples(found: Any, name: str, names: dict[str, Any]) -> int:
    examples = doctest.DocTestFinder(recurse=False).find(found, name, globs=names)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for one in examples:
        report: list[str] = []
        assert runner.run(one, out=report.append).failed == 0, "".join(report)
    return sum(len(one.examples) for one in examples)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_name_has_an_example_that_runs(name: str) -> None:
    assert _run_examples(EXAMPLES[name], name, {}), "no example"


def _types_given() -> set[str]:
    """The names of types that functions with an example give back, and of the fields of classes."""
    public = [found for found in {**EXAMPLES, **OTHERS}.values() if ">>>" in (found.__doc__ or "")]
    told = [str(inspect.signature(one).return_annotation) for one in public if inspect.isfunction(one)]
    kinds = [kind for one in public if inspect.isclass(one) for kind in one.__mro__]
    told += [str(kind) for one in kinds for kind in vars(one).get("__annotations__", {}).values()]
    return {word for line in told for word in re.findall(r"\w+", line)}


GIVEN = _types_given()


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_name_besides_the_page_has_an_example_that_runs(name: str) -> None:
    """It runs with the names of its module, as doctest has it."""
    found = OTHERS[name]
    ran = _run_examples(found, name, dict(vars(importlib.import_module(found.__module__))))
    assert ran or (inspect.isclass(found) and found.__name__ in GIVEN), "no example"


def test_nothing_public_escapes() -> None:
    assert len([name for name in OTHERS if name.startswith("slalom.theory.")]) > 80
    assert {"slalom.models.open_model", "slalom.data.draw", "slalom.theory.heads.fit_heads"} <= set(OTHERS)


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
