"""The notebooks of docs/ run from top to bottom, in this process, which is faster than kernels."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
NEEDS = {"own_model": ("sklearn",), "compare_methods": ("captum", "lime", "shap", "pyarrow")}


def _cell(source: str, names: dict[str, Any], title: str) -> Any:
    """Runs a cell; the value of its last expression, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, title, "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, title, "exec"), names)
    return eval(compile(ast.Expression(last.value), title, "eval"), names)


@pytest.fixture
def tiny_llm(tmp_path: Path) -> str:
    import prompts

    module, tokenizer = prompts.causal("qwen2", max_position_embeddings=256)
    module.save_pretrained(tmp_path / "llm")
    tokenizer.save_pretrained(tmp_path / "llm")
    return str(tmp_path / "llm")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for package in NEEDS.get(path.stem, ("pandas", "matplotlib", "pyarrow")):
        pytest.importorskip(package)
    if path.stem == "llm_and_sources":
        monkeypatch.setenv("SLALOM_LLM", request.getfixturevalue("tiny_llm"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = 0
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        if cell.cell_type == "code":
            value = _cell(cell.source, names, f"{path.name}, cell {number}")
            if hasattr(value, "_repr_html_"):
                assert value._repr_html_()
                shown += 1
    assert shown, "nothing shows itself"


def test_there_are_six_and_they_are_listed() -> None:
    page = (DOCS / "notebooks.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([\w/]+\.ipynb)\)", page)
    assert {f"notebooks/{path.name}" for path in NOTEBOOKS} | {"theory.ipynb"} <= set(linked)
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_stored(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert not [cell for cell in cells if cell.outputs or cell.execution_count]
