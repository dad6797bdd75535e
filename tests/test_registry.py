"""Entries from outside: one file is a method, a protocol, a model; nothing else names it."""

from __future__ import annotations

import importlib
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slalom import evaluate, explainers
from slalom.api import Explainer
from slalom.data import Document
from slalom.errors import InputError
from slalom.evaluate import parse_protocols
from slalom.evaluate.run import evaluate as run
from slalom.models.ask import Ask
from slalom.models.protocol import Text
from slalom.models.target import Target
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, Tokens
from zoo import tiny

TEXT = "the food was great"
POWER: dict[str, Any] = {"power": 2}
"""An option that only a method from elsewhere has."""

METHOD = '''"""Lengths: a long token counts more. It asks nothing."""
import numpy as np
from slalom.explainers._common import finish

NEEDS = "logits"
TOGETHER = True


def explain(ask, target, *, budget="auto", seed=0, power: float = 1.0):
    scores = np.array([len(s) ** power for s in ask.tokens.strings])
    return finish(ask, target, "lengths", {"attribution": scores})
'''

PROTOCOL = '''from slalom.evaluate.protocol import protocol


@protocol("top_length", good={"length": "high"})
def measure(case, *, times: int = 1):
    """Top length: how long the highest token is. A toy."""
    best = int(case.explanation.scores["attribution"].argmax())
    return {"length": float(times * len(case.explanation.tokens.strings[best]))}
'''


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution that brings a method and a protocol."""
    (tmp_path / "outside_method.py").write_text(METHOD)
    (tmp_path / "outside_protocol.py").write_text(PROTOCOL)
    info = tmp_path / "outside-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[slalom.explainers]\nlengths = outside_method\nlime = outside_method\n"
        "[slalom.protocols]\ntop_length = outside_protocol:measure\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("outside")
def test_a_method_of_another_package_is_a_method():
    about = explainers.methods()["lengths"]
    assert (about.summary, about.needs, about.together) == (
        "Lengths: a long token counts more",
        "logits",
        True,
    )
    assert list(explainers.options("lengths")) == ["power"]
    explainer = Explainer(*tiny("bert"))
    found = explainer(TEXT, method="lengths", **POWER)
    assert found.method == "lengths"
    np.testing.assert_array_equal(found.scores["attribution"], [len(s) ** 2 for s in found.tokens.strings])
    assert len(explainer([TEXT, "a good film"], method="lengths")) == 2
    with pytest.raises(InputError, match="'lengths' has no option 'powr'; its options are: power"):
        explainer(TEXT, method="lengths", **dict[str, Any]({"powr": 2}))


@pytest.mark.usefixtures("outside")
def test_a_method_of_the_library_goes_before_one_from_outside():
    assert explainers.load("lime").__module__ == "slalom.explainers.lime"


@pytest.mark.usefixtures("outside")
def test_a_protocol_of_another_package_is_a_protocol(tmp_path: Path):
    assert evaluate.protocols()["top_length"].summary == "Top length: how long the highest token is"
    documents = [Document(TEXT, id="a")]
    results = run(Explainer(*tiny("bert")), documents, ["lengths"], ["top_length"], tmp_path / "out")
    assert [(row.number, row.value) for row in results.measurements] == [("length", 4.0)]
    assert results.settings["protocols"] == {"top_length": {"length": "high"}}


@pytest.mark.usefixtures("outside")
def test_a_function_is_a_protocol(tmp_path: Path):
    function = importlib.import_module("outside_protocol").measure
    documents = [Document(TEXT, id="a"), Document("a good film", id="b")]
    judges = [function, "outside_protocol:measure:times=2"]
    explainer = Explainer(*tiny("bert"))
    results = run(explainer, documents, ["lengths"], judges, tmp_path / "out")
    assert [(row.document, row.protocol, row.value) for row in results.measurements] == [
        ("a", "top_length", 4.0),
        ("a", "outside_protocol:measure", 8.0),
        ("b", "top_length", 4.0),
        ("b", "outside_protocol:measure", 8.0),
    ]
    sent = pickle.loads(pickle.dumps(parse_protocols(judges)))  # as a worker process gets them
    assert sent == parse_protocols(judges)


def test_what_is_no_protocol_is_refused(tmp_path: Path):
    explainer, documents = Explainer(*tiny("bert")), [Document(TEXT, id="a")]
    with pytest.raises(InputError, match=r"<function .* is no protocol: declare a function of a case one"):
        run(explainer, documents, ["random"], [lambda case: {"x": 1.0}], tmp_path / "out")
    with pytest.raises(InputError, match=r"cannot find the function 'math:no_such' \(MODULE:FUNCTION\)"):
        run(explainer, documents, ["random"], ["math:no_such"], tmp_path / "out")


def test_names_from_outside_are_gone_with_their_package():
    assert "lengths" not in explainers.names()
    assert "top_length" not in evaluate.names()


def test_a_function_is_a_method():
    def lengths(ask: Ask, target: Target, seed: int, power: float = 1.0) -> FloatArray:
        assert seed == 3
        return np.array([len(s) ** power for s in ask.tokens.strings])

    explainer = Explainer(*tiny("bert"))
    found = explainer(TEXT, method=lengths, seed=3, **POWER)
    assert (found.method, found.ranking, found.settings["power"]) == ("lengths", "attribution", 2)
    np.testing.assert_array_equal(found.scores["attribution"], [len(s) ** 2 for s in found.tokens.strings])
    whole = explainer(TEXT, method=lambda ask, target: explainers.load("occlusion")(ask, target))
    np.testing.assert_array_equal(
        whole.scores["attribution"], explainer(TEXT, method="occlusion").scores["attribution"]
    )


def test_what_a_function_must_be_is_said():
    explainer = Explainer(*tiny("bert"))
    with pytest.raises(InputError, match=r"a score for each of the . tokens; it gave an array of shape"):
        explainer(TEXT, method=lambda ask, target: np.zeros(2))
    with pytest.raises(InputError, match=r"method must be a function of \(ask, target, …\); got <function"):
        explainer(TEXT, method=lambda ask: np.zeros(4))
    with pytest.raises(InputError, match="method must be text or a function"):
        explainer(TEXT, method=3)  # type: ignore[arg-type]


class Counting:
    """A model kind of a user's own: each letter e speaks for "many"."""

    name, labels, activation = "counting", ("few", "many"), "softmax"

    def tokenize(self, text: Text, explain: str = "both") -> Tokens:
        assert isinstance(text, str)
        ends = np.cumsum([len(word) + 1 for word in text.split()]) - 1
        spans = np.array([(end - len(word), end) for word, end in zip(text.split(), ends, strict=True)])
        words = tuple(text.split())
        places = np.arange(len(words))
        return Tokens(
            text, words, spans, tuple((i,) for i in range(len(words))), places, np.zeros_like(places)
        )

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        letters = np.array([string.count("e") for string in tokens.strings], dtype=float)
        total = np.bincount(
            perturbations.rows, letters[perturbations.positions], minlength=len(perturbations)
        )
        return np.stack([np.zeros(len(perturbations)), total], axis=1).astype(float)


def test_an_object_that_keeps_the_protocol_is_a_model():
    found = Explainer(Counting())("see the bee", method="occlusion", target="many")
    np.testing.assert_allclose(found.scores["attribution"], [2, 1, 2])


def test_the_page_runs(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[1] / "docs" / "write-your-own-method.md").read_text(encoding="utf-8")
    example, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)  # the other: tests/test_pages.py
    exec(example, {})
    assert capsys.readouterr().out == "neighbours attribution\n"
