"""A rather than B, for models of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from rounding import same_answers
from slalom.api import Explainer
from slalom.errors import InputError
from slalom.models import open_model
from slalom.models.target import TwoLabels, two_labels
from slalom.perturb import from_keep

LABELS = ["joy", "anger", "a:b", "fear"]


def votes(texts: list[str]) -> list[list[float]]:
    """Logits of four labels, each counting a letter."""
    return [[float(text.count(letter)) for letter in "oaei"] for text in texts]


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(votes, labels=LABELS, output="logits")


@pytest.mark.parametrize(
    "target", [("fear", "anger"), ("fear", 1), (3, "ANGER"), "fear:anger", "Fear : anger"]
)
def test_the_score_is_the_difference_of_two_logits(explainer: Explainer, target: Any) -> None:
    text = "it is a bad idea in a cab"
    found = explainer(text, target=target, method="occlusion")
    (logits,) = votes([text])
    assert found.output == pytest.approx(logits[3] - logits[1])
    assert found.target == "fear"
    assert found.labels == ("anger", "fear")
    for i, score in enumerate(found.score()):
        rest = " ".join(word for j, word in enumerate(text.split()) if j != i)
        (left,) = votes([rest])
        assert score == pytest.approx((logits[3] - logits[1]) - (left[3] - left[1]))
    assert any("rather than 'anger'" in note for note in found.notes)


def test_a_label_with_a_colon_is_a_label(explainer: Explainer) -> None:
    assert explainer("one two", target="a:b", method="occlusion").labels == tuple(LABELS)
    assert explainer("one two", target="a:b:joy", method="occlusion").target == "a:b"


@pytest.mark.parametrize("target", [("joy", "joy"), ("joy", "none"), ("joy",), "joy:none", "joy:"])
def test_what_is_no_pair_of_labels(explainer: Explainer, target: Any) -> None:
    with pytest.raises(InputError):
        explainer("one two", target=target)


@pytest.mark.parametrize("output", [None, "multilabel"])
def test_torch_models_are_seen_through(output: Any) -> None:
    module, own = zoo.tiny("bert", 3)
    explainer = Explainer(module, own, output=output, labels=["x", "y", "z"])
    tokens = explainer.model.tokenize(zoo.TEXT)
    queries = from_keep(np.random.default_rng(0).random((5, len(tokens))) < 0.7)
    model, label = two_labels(explainer.model, ("x", "z"))
    assert isinstance(model, TwoLabels)
    assert label == "x"
    every, two = explainer.model.logits(tokens, queries), model.logits(tokens, queries)
    np.testing.assert_array_equal(two[:, 1] - two[:, 0], every[:, 0] - every[:, 2])
    for method in ("gradient", "attention", "slalom", "random"):
        found = explainer(zoo.TEXT, target=("x", "z"), method=method)
        assert found.target == "x"
        (whole,) = explainer.model.logits(tokens, from_keep(np.ones((1, len(tokens)), bool)))
        assert found.output == pytest.approx(whole[0] - whole[2], abs=1e-4)


def test_lists_of_texts_and_pairs(explainer: Explainer) -> None:
    found = explainer(["one day", "a cab"], target=[("joy", "fear"), "anger"], method="occlusion")
    assert [one.target for one in found] == ["joy", "anger"]
    assert found[0].labels == ("fear", "joy")


def test_an_evaluation_of_two_labels(explainer: Explainer, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from slalom.data import Document
    from slalom.evaluate.run import evaluate

    documents = [Document("it is a bad idea in a cab"), Document("one of us is not at home")]
    found = evaluate(explainer, documents, ["occlusion"], ["deletion:step=2"], tmp_path, target="joy:fear")
    assert found.settings["target"] == "joy"
    assert {row.status for row in found.measurements} == {"ok"}
    with pytest.raises(InputError, match="no label"):
        evaluate(explainer, documents, ["occlusion"], ["deletion"], tmp_path / "b", target=("joy", "none"))


def test_the_same_wrapper_in_other_processes() -> None:
    import pickle

    model, _ = two_labels(open_model(), ("positive", "negative"))
    again = pickle.loads(pickle.dumps(model))
    tokens = again.tokenize("a fine film")
    queries = from_keep(np.ones((1, len(tokens)), bool))
    same_answers(again.logits(tokens, queries), model.logits(tokens, queries))
