"""Methods whose answer can be worked out by hand, and what they refuse."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slalom
from slalom.api import Explainer
from slalom.data import Document
from slalom.errors import InputError, MissingExtraError
from slalom.explainers import load, methods, names, options
from slalom.label_counts import label_counts
from slalom.view.sentences import verdict
from zoo import tiny, tokenized

TEXT = "great food great service"
DATA = [("great great food", "positive"), ("slow service", "negative"), ("food", 0), ("great", 1)]


def length(texts: list[str]) -> np.ndarray:
    return np.array([float(len(text)) for text in texts])


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(length, labels=["negative", "positive"], output="log_odds")


def test_naive_bayes_counts(explainer: Explainer):
    found = explainer(TEXT, method="naive_bayes", data=DATA, target="positive")
    great, food, service = np.log(23 / 20), np.log(21 / 21), np.log(20 / 21)
    np.testing.assert_allclose(found.score(), [great, food, great, service])
    other = explainer(TEXT, method="naive_bayes", data=DATA, target="negative", smoothing=1)
    np.testing.assert_allclose(other.score(), np.log([1 / 4, 2 / 2, 1 / 4, 2 / 1]))
    assert other.settings["data"] == "given: 4 texts"


def test_naive_bayes_reads_files(explainer: Explainer, tmp_path: Path):
    (tmp_path / "a.csv").write_text(
        'text,label\n"great great food",positive\nslow service,negative\nfood,0\ngreat,1\n'
    )
    (tmp_path / "b.jsonl").write_text(
        '{"text": "great great food", "label": "positive"}\n{"text": "slow service", "label": "negative"}\n\n'
        '{"text": "food", "label": 0}\n{"text": "great", "label": 1}\n'
    )
    wanted = explainer(TEXT, method="naive_bayes", data=DATA).score()
    for name in ("a.csv", "b.jsonl"):
        found = explainer(TEXT, method="naive_bayes", data=tmp_path / name)
        np.testing.assert_array_equal(found.score(), wanted)
        assert name in found.settings["data"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs labelled data"),
        ({"data": [("a", "yes"), ("b", "no")]}, "the label 'yes'; the model's labels are negative, positive"),
        (
            {"data": [("a", 1)]},
            "at least; there are 1 of 'positive' alone: give texts of other labels",
        ),
        ({"data": []}, "two labels at least; there are none"),
        ({"data": [("a", 1), (" ", 0)]}, "counted in document '1': the text to explain is empty"),
        ({"data": ["great"]}, "must be a pair"),
        ({"data": DATA, "smoothing": 0}, "smoothing must be a number from 1e-09 to 1e.09; got 0"),
        ({"data": "nowhere.csv"}, "cannot read 'nowhere.csv'"),
    ],
)
def test_naive_bayes_refuses(explainer: Explainer, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        explainer(TEXT, method="naive_bayes", target="positive", **options)


def test_naive_bayes_matches_words_of_pieces():
    explainer = Explainer(*tiny("bert"))
    data = [("unwatchable film", 1), ("unwatchable and unforgivably long", 1), ("film", 0)]
    found = explainer("unwatchable film", method="naive_bayes", data=data, target=1, granularity="words")
    np.testing.assert_allclose(found.score(), np.log([22 / 20, 21 / 22]))


def test_naive_bayes_counts_others_in_as_many_texts(explainer: Explainer):
    unbalanced = [("great great", 1), *[("slow slow service", 0)] * 3, ("food", 0), ("great", 0)]
    found = explainer("slow great food", method="naive_bayes", data=unbalanced, target=1, smoothing=1)
    np.testing.assert_allclose(found.score(), np.log([1 / (6 / 5 + 1), 3 / (1 / 5 + 1), 1 / (1 / 5 + 1)]))
    counts = label_counts(explainer.model, [Document(text, label) for text, label in unbalanced])
    for target in (0, 1):
        found = explainer("slow great slow food", method="naive_bayes", data=unbalanced, target=target)
        weights = counts.weights(found.tokens, target)
        np.testing.assert_array_equal(found.score(), weights[[0, 1, 0, 2]])
        again = explainer("slow great slow food", method="naive_bayes", data=counts, target=target)
        np.testing.assert_array_equal(again.score(), found.score())
        assert again.settings["data"] == "given: 6 texts"


def test_naive_bayes_takes_counts_by_words_and_by_pieces():
    explainer = Explainer(*tiny("bert"))
    data = [("unwatchable film", 1), ("unwatchable, unwanted", 1), ("film", 0)]
    counts = label_counts(explainer.model, [Document(text, label) for text, label in data])
    for granularity, begun in (("positions", 3), ("words", 2)):
        found, wanted = (
            explainer("unwatchable film", method="naive_bayes", data=given, target=1, granularity=granularity)  # pyright: ignore[reportArgumentType, reportCallIssue]
            for given in (counts, data)
        )
        np.testing.assert_array_equal(found.score(), wanted.score())
        np.testing.assert_allclose(found.score()[0], np.log((begun + 20) / 20))


@pytest.mark.parametrize("kind", [list, tuple, iter, "file"])
def test_naive_bayes_counts_once_for_many_texts(
    explainer: Explainer, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = [("great great food", 1), ("slow service", 0), ("food", 0)]
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in data))
    read = tokenized(monkeypatch, explainer.model)
    given = str(tmp_path / "a.csv") if kind == "file" else kind(data)
    texts = ["great", "slow food", "a service"]
    found = explainer(texts, method="naive_bayes", data=given, every_class=True)
    assert sorted(read) == sorted([*texts, *(text for text, _ in data)])
    assert [one.settings["data"].endswith(": 3 texts") for one in found] == [True] * 3


def test_naive_bayes_sees_that_the_data_changed(explainer: Explainer):
    data = [("great", 1), ("slow", 0)]
    before = explainer("great", method="naive_bayes", data=data, target=1).score()
    data[0] = ("great great", 1)
    after = explainer("great", method="naive_bayes", data=data, target=1).score()
    np.testing.assert_allclose([*before, *after], np.log([21 / 20, 22 / 20]))


def test_naive_bayes_refuses_counts_of_another_model(explainer: Explainer):
    other = Explainer(length, labels=["no", "yes"], output="log_odds")
    counts = label_counts(other.model, [Document("a", 0), Document("b", 1)])
    with pytest.raises(InputError, match="with the labels no, yes; the labels of this one are negative, pos"):
        explainer(TEXT, method="naive_bayes", data=counts)
    three = Explainer(lambda texts: np.zeros((len(texts), 3)), labels=["a", "b", "c"])
    counts = label_counts(three.model, [Document("a", 0), Document("b", 1)])
    with pytest.raises(InputError, match="texts of 'c' and of other labels; 0 and 2 were counted"):
        three(TEXT, method="naive_bayes", data=counts, target="c")


def test_occlusion_is_what_is_lost(explainer: Explainer):
    found = explainer(TEXT, method="occlusion", target="positive")
    without = ["food great service", "great great service", "great food service", "great food great"]
    np.testing.assert_allclose(found.score(), len(TEXT) - length(without))
    assert found.cost.queries == 5
    np.testing.assert_allclose(explainer("great", method="occlusion", target="positive").score(), [5.0])


def test_random_is_seeded_and_nothing_else(explainer: Explainer):
    found = explainer(TEXT, method="random", seed=4)
    np.testing.assert_array_equal(found.score(), np.random.default_rng(4).standard_normal(4))


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("gradient", {"reading": "l3"}, "reading must be 'grad_x_input', 'avg', 'l1' or 'l2'; got 'l3'"),
        ("attention", {"reading": "mean"}, "reading must be 'alpha_avg', 'alpha_max', 'rollout' or 'flow'"),
        ("attention", {"layer": 2}, "layer must be a whole number from -2 to 1; got 2"),
        ("integrated_gradients", {"steps": 0}, "steps must be a whole number from 1 to 100,000; got 0"),
        ("integrated_gradients", {"baseline": "pad"}, "baseline must be 'token' or 'zero'"),
        ("smoothgrad", {"noise": -1}, "noise must be a number from 1e-06 to 10; got -1"),
        ("lime", {"kernel_width": 0}, "kernel_width must be a number from 0.01"),
        ("linear", {"design": "all"}, "design must be 'short', 'deletions' or 'subsets'"),
        ("gam", {"design": "short"}, "design must be 'deletions' or 'subsets'; got 'short'"),
        ("gam", {"alpha": 0}, "alpha must be a number from 1e-09"),
        ("slalom_sgd", {"epochs": 0}, "epochs must be 'auto' or a whole number from 1 to 100,000"),
        ("slalom_sgd", {"length": 0}, "length must be a whole number from 1 to 100"),
        ("slalom_fidelity", {"most": -1}, "most must be a whole number"),
    ],
)
def test_options_are_checked(method: str, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Explainer(*tiny("bert"))("the food was great", method=method, **options)


def test_flow_has_a_limit(monkeypatch: pytest.MonkeyPatch):
    module = sys.modules[load("attention").__module__]
    monkeypatch.setattr(module, "_FLOW_PLACES", 5)
    explainer = Explainer(*tiny("bert"))
    found = explainer("the food was great", method="attention")
    assert "flow" not in found.scores
    assert any("No attention flow" in note for note in found.notes)
    with pytest.raises(InputError, match="use reading='rollout'"):
        explainer("the food was great", method="attention", reading="flow")


@pytest.mark.parametrize(
    ("method", "package"),
    [
        ("lime", "lime"),
        ("kernel_shap", "shap"),
        ("partition_shap", "shap"),
        ("gradient", "captum"),
        ("gam", "scikit-learn"),
    ],
)
def test_a_missing_package_is_named(method: str, package: str, monkeypatch: pytest.MonkeyPatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == package.replace("scikit-learn", "sklearn"):
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package.replace("scikit-learn", "sklearn"), None)
    with pytest.raises(MissingExtraError, match=rf"'{method}' needs {package}; .*slalom-xai\[methods\]"):
        Explainer(*tiny("bert"))("the food was great", method=method)


def test_a_method_is_one_file(tmp_path: Path):
    """Without it, everything else works and its name is gone."""
    gone = "lime"
    source = Path(str(slalom.__path__[0]))
    shutil.copytree(source, tmp_path / "slalom", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "slalom" / "explainers" / f"{gone}.py").unlink()
    script = f"""
import slalom, slalom.explainers as e
from slalom.api import Explainer
from slalom.data import Document
from slalom.compare import compare
from slalom.errors import InputError
assert slalom.__path__[0].startswith({str(tmp_path)!r})
assert {gone!r} not in e.names() and {gone!r} not in e.methods() and len(e.names()) > 10
found = compare(Explainer(), "a good film", budget=64)
assert {gone!r} not in found
print([name for name, one in found.items() if isinstance(one, str)])
try:
    Explainer()("a good film", method={gone!r})
except InputError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script],
        env={"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    listed, refused = result.stdout.splitlines()
    assert listed == "['naive_bayes']"
    assert refused.startswith(f"there is no method '{gone}'")
    assert f", {gone}," not in refused.partition("choose one of")[2]


def test_no_method_is_named_by_another_module():
    root = Path(str(slalom.__path__[0]))
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in names():
            for form in (f"from slalom.explainers.{name} ", f"from slalom.explainers import {name}\n"):
                assert form not in text, f"{path} imports the method {name}"


def test_the_document_lists_every_method():
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| .* \|(.*)\|$", page, flags=re.MULTILINE)
    assert {name: needs for name, needs, _ in rows} == {name: one.needs for name, one in methods().items()}
    for name, _, listed in rows:
        own = set(options(name)) - (
            {"granularity"} if name not in ("lime", "kernel_shap", "slalom") else set()
        )
        assert set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", listed))) == own, name


@pytest.mark.parametrize("method", ["lime", "integrated_gradients", "occlusion"])
def test_what_is_not_measured_on_held_out_queries_is_not_called_so(method: str):
    found = Explainer(*tiny("bert"))("the food was great", method=method, budget=60)
    assert verdict(found).sentence == f"The method '{method}' does not measure how far its scores hold."


@pytest.mark.parametrize("method", ["slalom_sgd", "slalom_fidelity", "gam"])
def test_noise_is_not_predicted(method: str):
    """Of the queries that were fitted, a part of the noise would be."""
    rng = np.random.default_rng(1)

    def dice(texts: list[str]) -> np.ndarray:
        return rng.normal(size=len(texts))

    text = " ".join(f"word{i}" for i in range(25))
    found = [Explainer(dice)(text, method=method, budget=160, target=1) for _ in range(5)]
    assert np.mean([one.fidelity["r2"] for one in found]) < 0.1


@pytest.mark.parametrize(
    ("method", "options", "looks"),
    [
        ("slalom_sgd", {"budget": 101, "epochs": 7, "batch_size": 5}, 7 * 18),
        ("lime", {"budget": 80}, 79),
        ("gam", {"budget": 200, "alpha": 1e-9, "design": "subsets"}, 2),
        ("attention", {}, 4),
    ],
)
def test_loops_that_ask_nothing_look_whether_to_go_on(method: str, options: dict[str, Any], looks: int):
    """So many times `progress` hears the same number of queries again."""
    heard: list[int] = []
    Explainer()(TEXT, method=method, progress=heard.append, **options)
    assert sum(now == before for before, now in pairwise(heard)) >= looks
