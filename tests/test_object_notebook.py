"""docs/explanation.ipynb uses every method of a result, and runs from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from slalom.compare import Compared
from slalom.explanation import Explanation
from slalom.explanations import Explanations

NOTEBOOK = Path(__file__).parents[1] / "docs" / "explanation.ipynb"


def test_the_notebook_runs_and_results_show_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel chooses the one that keeps figures
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    outputs = [(cell.source, output) for cell in notebook.cells for output in cell.get("outputs", [])]
    for name in ("explanation", "several", "compared"):
        found = [output.get("data", {}).get("text/html", "") for source, output in outputs if name in source]
        pages = [page for page in found if 'class="slalom-explanation' in page]
        assert len(pages) >= 2, f"{name}, alone and with show()"
    assert sum("image/png" in output.get("data", {}) for _, output in outputs) == 5
    # transformers says that there are no widgets; the bar of letters is on stderr, too.
    told = [o.text for _, o in outputs if o.get("name") == "stderr" and o.text.strip()]
    assert [text for text in told if "asking the model" not in text and "IProgress" not in text] == []
    assert any("asking the model" in text for text in told)


def test_it_uses_every_method() -> None:
    source = "\n".join(cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells)
    used = set(re.findall(r"\.(\w+)", source))
    for kind in (Explanation, Explanations, Compared):
        own = {name for name in dir(kind) if not name.startswith("_")} - set(dir(dict)) - set(dir(list))
        unused = own - used - set(Explanation.__dataclass_fields__) - {"linear"}  # the old name of share
        assert not unused, kind
