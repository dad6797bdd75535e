"""Engines and kinds of models that another package brings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slalom import Explainer
from slalom.errors import InputError
from slalom.models import open_model
from slalom.models.torch.engines import engine_names, recipe
from slalom.perturb import whole
from zoo import TEXT, tiny

ENGINE = """
from slalom.models.torch.engines import Made

ENGINES = {
    "slow-and-sure": {"tolerance": 1e-6, "live": True},
    "looking": {"tolerance": 0.1, "calibrated": True},
}


def make_slow_and_sure(forward):
    return Made(lambda ids, types: forward(ids, types), {"sure": True})


def make_looking(forward, batches):
    return Made(forward, {"batches": len(batches)})
"""

KIND = '''
"""Dictionaries of words."""

import numpy as np
from slalom.models.text import words

ACCEPTS = "a dictionary of words and their weights"


class Weights:
    labels = ("no", "yes")
    activation = "softmax"

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
'''


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution that brings an engine and a kind of model."""
    (tmp_path / "outside_engine.py").write_text(ENGINE)
    (tmp_path / "outside_kind.py").write_text(KIND)
    info = tmp_path / "outside-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[slalom.engines]\nsure = outside_engine\n[slalom.models]\nweights = outside_kind\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def test_an_engine_of_another_package_is_an_engine():
    assert {"slow-and-sure", "looking"} <= set(engine_names())
    assert recipe("slow-and-sure").kind.tolerance == 1e-6
    module, tokenizer = tiny("bert")
    model = open_model(module, tokenizer, engine="slow-and-sure")
    tokens = model.tokenize(TEXT)
    expected = open_model(module, tokenizer, engine="eager").logits(tokens, whole(len(tokens)))
    np.testing.assert_allclose(model.logits(tokens, whole(len(tokens))), expected, atol=1e-6)
    report = model.facts.engine_report or {}
    assert (report["name"], report["sure"]) == ("slow-and-sure", True)


def test_one_that_is_calibrated_sees_the_batches_that_it_is_tried_on():
    model = open_model(*tiny("bert"), engine="looking")
    tokens = model.tokenize(TEXT)
    model.logits(tokens, whole(len(tokens)))
    batches = (model.facts.engine_report or {})["batches"]
    assert isinstance(batches, int)
    assert batches > 3


def test_a_kind_of_model_of_another_package_is_explained():
    explainer = Explainer({"good": 2.0, "bad": -1.0})
    assert explainer.model.name == "Weights"
    found = explainer("a good film, not bad", method="occlusion", target="yes")
    assert found.score().tolist() == [0.0, 2.0, 0.0, 0.0, 0.0, -1.0]
    with pytest.raises(InputError, match="output cannot be chosen for a dictionary of words"):
        Explainer({"good": 2.0}, output="logits")
    with pytest.raises(InputError, match="is for torch modules; a dictionary of words"):
        Explainer({"good": 2.0}, engine="lean")


def test_what_nobody_takes_is_refused_with_all_that_would_be():
    with pytest.raises(InputError, match="a dictionary of words and their weights, or a function over"):
        open_model(3.5)
