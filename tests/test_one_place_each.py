"""A method, a protocol, an engine, a kind of model and a format: one file each, brought from outside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slalom import Explainer, explainers, view
from slalom.data import Document
from slalom.evaluate.run import evaluate
from slalom.models.torch.engines import engine_names
from zoo import TEXT, tiny

FILES = {
    "slalom.explainers": '''"""Lengths: a long token counts more."""
import numpy as np

NEEDS = "logits"

from slalom.explainers._common import finish

def explain(ask, target, *, budget="auto", seed=0):
    return finish(ask, target, "new", {"attribution": np.array([float(len(s)) for s in ask.tokens.strings])})
''',
    "slalom.protocols": '''from slalom.evaluate.protocol import protocol

@protocol("new", good={"sum": "high"})
def measure(case):
    """Sum: of all scores."""
    return {"sum": float(case.explanation.score().sum())}
''',
    "slalom.engines": """from slalom.models.torch.engines import Made

ENGINES = {"new": {"tolerance": 1e-6, "live": True}}

def make_new(forward):
    return Made(forward, {"says": "hello"})
""",
    "slalom.models": '''"""Dictionaries of words."""
import numpy as np
from slalom.models.text import words

ACCEPTS = "a dictionary of words and their weights"

class Weights:
    labels, activation = ("no", "yes"), "softmax"

    def __init__(self, weights):
        self.weights = weights

    def tokenize(self, text, explain="both"):
        return words(text, explain)

    def logits(self, tokens, perturbations):
        each = np.array([self.weights.get(string, 0.0) for string in tokens.strings])
        total = np.bincount(perturbations.rows, each[perturbations.positions], len(perturbations))
        return np.c_[np.zeros(len(perturbations)), total]

def accepts(model):
    return isinstance(model, dict)

def open_kind(weights, tokenizer):
    return Weights(weights)
''',
    "slalom.views": '''"""New: the words alone."""
SUFFIX = ".new"

def render(explanation):
    return " ".join(explanation.tokens.strings)
''',
}
"""By entry point group the one file that brings something new."""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution that has all of them."""
    package = tmp_path / "package"
    info = package / "one_of_each-1.dist-info"
    info.mkdir(parents=True)
    points = ""
    for group, source in FILES.items():
        module = "one_of_each_" + group.rpartition(".")[2]
        (package / f"{module}.py").write_text(source, encoding="utf-8")
        points += f"[{group}]\nnew = {module}{':measure' if group == 'slalom.protocols' else ''}\n"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one-of-each\nVersion: 1\n")
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(package))


@pytest.mark.usefixtures("outside")
def test_one_of_each_from_outside(tmp_path: Path) -> None:
    assert "new" in explainers.names()
    assert "new" in engine_names()
    assert "new" in view.names()
    words: Any = {"good": 2.0, "bad": -1.0}  # a kind of model that nothing else here knows
    explanation = Explainer(words)("a good film", method="new", target="yes")
    assert explanation.score().tolist() == [1.0, 4.0, 4.0]
    view.write(explanation, tmp_path / "words.new")
    assert (tmp_path / "words.new").read_text() == "a good film"
    documents = [Document("a good film", id="one")]
    results = evaluate(Explainer(words), documents, ["new"], ["new"], tmp_path / "out")
    assert [(row.number, row.value) for row in results.measurements] == [("sum", 9.0)]
    module, tokenizer = tiny("bert")
    quick, plain = (Explainer(module, tokenizer, engine=name) for name in ("new", "eager"))
    found, expected = (each(TEXT, method="occlusion", target=0) for each in (quick, plain))
    np.testing.assert_allclose(found.score(), expected.score(), atol=1e-5)
    assert found.settings["engine"]["says"] == "hello"


def test_the_table_says_one_place_each() -> None:
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| (\d+) \| [^|]*`(slalom\.\w+)`", page, flags=re.MULTILINE)
    assert dict.fromkeys(FILES, "1") == {group: places for places, group in rows}
