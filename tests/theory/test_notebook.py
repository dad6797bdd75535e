"""docs/theory.ipynb runs from top to bottom, and is stored with its figures."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "theory.ipynb"


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def figures(notebook: nbformat.NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def test_the_notebook_runs_and_its_stored_results_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel chooses the one that keeps figures
    stored = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(fresh, timeout=None, kernel_name="python3").execute()
    loud = [output.text for output in outputs(fresh) if output.get("name") == "stderr"]
    assert not loud
    assert figures(fresh) == figures(stored) == 6
    assert NOTEBOOK.stat().st_size < 400_000
