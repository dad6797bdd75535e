"""What a user can do wrong, or a model, through the default method: a clear error or a sound result."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import zoo
from slalom import Explainer
from slalom.cli import app
from slalom.errors import InputError, ModelError, SlalomError
from slalom.explanation import Explanation

REVIEW = "the food was great but the service was awful"
EFFORTS = ("fast", "balanced", "faithful")


@pytest.fixture(scope="module")
def bundled() -> Explainer:
    return Explainer()


def sound(explanation: Any) -> Explanation:
    """Every number is there, finite, and no error is negative."""
    assert isinstance(explanation, Explanation)
    scores = np.concatenate(list(explanation.scores.values()))
    errors = np.concatenate(list(explanation.stderr.values()))
    assert np.isfinite(scores).all()
    assert np.isfinite(errors).all()
    assert (errors >= 0).all()
    assert all(np.isfinite(value) for value in explanation.fidelity.values())
    assert np.isfinite(explanation.predict([True] * len(explanation)))
    assert Explanation.from_dict(explanation.to_dict()).to_dict() == explanation.to_dict()
    assert explanation._repr_html_()
    return explanation


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000", "\u200b"])
def test_empty_and_blank_texts(bundled: Explainer, text: str):
    with pytest.raises(InputError):
        bundled(text)
    with pytest.raises(InputError):
        bundled([REVIEW, text])


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("text", ["great", "!", "great great great", "not great", "bad, bad"])
def test_few_tokens(bundled: Explainer, text: str, effort: Any):
    found = sound(bundled(text, effort=effort))
    assert 1 <= len(found) <= 3


@pytest.mark.parametrize("granularity", ["positions", "types", "words"])
def test_one_token_alone(bundled: Explainer, granularity: Any):
    """There is nothing to weigh it against; without it nothing is left."""
    found = sound(bundled("great", target="positive", granularity=granularity))
    assert found.importances.tolist() == [0.0]
    assert found.values[0] == found.share[0] == found.removal[0] == pytest.approx(found.output, abs=0.1)
    assert found.settings["order_certainty"] == 1.0
    assert "good enough" in found.settings["stopped"]


@pytest.mark.parametrize("effort", EFFORTS)
def test_only_unknown_tokens(effort: Any):
    explainer = Explainer(*zoo.tiny("bert"))
    found = sound(explainer("ξψω δζη ξψω φχθ", effort=effort))
    assert found.tokens.strings == ("ξψω", "δζη", "ξψω", "φχθ")
    assert found.tokens.n_types == 1
    # to the model they are one and the same token
    by_type = sound(explainer("ξψω δζη ξψω φχθ", effort=effort, granularity="types"))
    assert np.ptp(by_type.values) == 0.0


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("answer", [[0.0], [0.1 + 0.2], [2.0, -1.0], [0.2, 0.5, 0.3]])
def test_a_constant_model(answer: list[float], effort: Any):
    def constant(texts: list[str]) -> np.ndarray:
        rows = np.tile(answer, (len(texts), 1))
        return rows[:, 0] if len(answer) == 1 else rows

    found = sound(Explainer(constant)(REVIEW, effort=effort, every_class=True))
    assert found.settings["solver"] == "constant"
    assert found.notes == ("The model gives the same answer to every query: no token makes a difference.",)
    np.testing.assert_allclose(found.removal, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.values, found.output, atol=1e-12)
    assert np.ptp(found.importances) == 0.0
    assert found.share.sum() == pytest.approx(found.output)


def test_a_model_that_is_constant_but_for_rounding():
    rng = np.random.default_rng(0)

    def nearly(texts: list[str]) -> np.ndarray:
        return 0.7 + 1e-16 * rng.integers(0, 5, size=len(texts))

    found = sound(Explainer(nearly)(REVIEW))
    assert found.settings["solver"] == "constant"
    assert np.ptp(found.importances) == 0.0


def test_a_model_without_weights():
    """All parameters zero: the logits are those of the bias, for every text."""
    module, tokenizer = zoo.tiny("bert")
    for weight in module.parameters():
        weight.requires_grad_(False).zero_()
    found = sound(Explainer(module, tokenizer)(REVIEW))
    assert found.output == 0.0
    assert found.notes[0].startswith("The model gives the same answer")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["everywhere", "in short queries", "in one query"])
def test_answers_that_are_no_numbers(wrong: float, where: str):
    asked: list[str] = []

    def broken(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        answers = np.array([float(len(text)) for text in texts])
        if where == "everywhere":
            return np.full(len(texts), wrong)
        if where == "in short queries":
            return np.where(answers < 12, wrong, answers)
        return np.where([text == "great" for text in texts], wrong, answers)

    with pytest.raises(ModelError, match="NaN or infinite logits"):
        Explainer(broken)(REVIEW)


def test_a_module_with_broken_weights():
    module, tokenizer = zoo.tiny("bert")
    module.classifier.weight.data[0, 0] = float("nan")
    with pytest.raises(ModelError, match="NaN or infinite logits; check its weights and dtype"):
        Explainer(module, tokenizer)(REVIEW)


def test_a_model_that_raises_midway():
    calls = [0]

    def fails_later(texts: list[str]) -> np.ndarray:
        calls[0] += 1
        if calls[0] > 1:
            raise ConnectionError("the service went away")
        return np.array([float(len(text)) for text in texts])

    with pytest.raises(ModelError, match="the service went away"):
        Explainer(fails_later)(REVIEW)
    assert calls[0] == 2


def test_a_model_with_answers_beyond_measure():
    def huge(texts: list[str]) -> np.ndarray:
        return np.array([1e200 * len(text) for text in texts])

    with pytest.raises(ModelError, match=r"NaN or infinite logits; .*beyond 1e\+100 is infinite"):
        Explainer(huge)(REVIEW)


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_small_and_large_answers(size: float):
    words = {"great": 2.0, "awful": -3.0}

    def scaled(texts: list[str]) -> np.ndarray:
        rows = [[words.get(word, 0.1 * len(word)) for word in text.split()] for text in texts]
        return size * np.array([np.mean(row) + 0.3 * np.sin(5.0 * row[-1]) for row in rows])

    plain = sound(Explainer(lambda texts: scaled(texts) / size)(REVIEW, target=1))
    found = sound(Explainer(scaled)(REVIEW, target=1))
    np.testing.assert_allclose(found.share / size, plain.share, atol=1e-6)
    np.testing.assert_allclose(found.importances, plain.importances, atol=1e-6)
    np.testing.assert_allclose(found.removal / size, plain.removal, atol=1e-6)


def test_dice():
    """Answers without any order in them: a result that says how little it knows."""
    rng = np.random.default_rng(3)
    found = sound(Explainer(lambda texts: rng.normal(size=len(texts)))(REVIEW, effort="faithful"))
    assert found.fidelity["r2"] < 0.3
    assert found.settings["order_certainty"] < 0.95


@pytest.mark.parametrize("label", ["neutral", "", 7, -3])
def test_wrong_labels(bundled: Explainer, label: Any):
    with pytest.raises(InputError, match="choose one of: negative, positive"):
        bundled(REVIEW, target=label)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"method": "occlusion", "effort": "fast"}, "'occlusion' has no option 'effort'"),
        ({"method": "occlusion", "granularity": "types"}, "does not explain token types"),
        (
            {"effort": "fast", "colour": "red"},
            "no option 'colour'; its options are: effort, granularity, gradients, gamma",
        ),
        ({"side": "second"}, "needs a pair"),
        ({"budget": 2}, "at least 3 queries"),
    ],
)
def test_contradictory_options(bundled: Explainer, call: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        bundled(REVIEW, **call)


@pytest.mark.parametrize(
    "access",
    [
        {"output": "probabilities"},
        {"labels": ["a", "b", "c"]},
        {"labels": ["same", "same"]},
        {"output": "magic"},
        {"batch_tokens": 0},
    ],
)
def test_contradictory_access(access: dict[str, Any]):
    with pytest.raises(SlalomError):
        Explainer(lambda texts: np.array([3.0 * len(text) for text in texts]), **access)(REVIEW)


def test_very_long_words_and_many_copies(bundled: Explainer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model reads no further than its limit, and says so
        found = sound(bundled("good " * 700, budget=60))
        sound(bundled("x" * 500 + " fine", budget=60))
    assert found.tokens.n_types == 1
    assert "longer than the model reads" in found.notes[-1]


@pytest.mark.parametrize(
    "text", ["naïve café 👍🏽", "a\x00b c", "</s> [SEP] <pad>", "ﬁne \u202eevil\u202c text"]
)
def test_strange_characters(bundled: Explainer, text: str):
    found = sound(bundled(text, budget=40))
    assert all(0 <= a <= b <= len(text) for a, b in found.tokens.spans.tolist())


@pytest.mark.parametrize("data", [b"caf\xe9 \xff", b"\xff\xfeg\x00o\x00o\x00d\x00"])
def test_a_file_that_is_not_utf8(tmp_path: Path, data: bytes):
    path = tmp_path / "review.txt"
    path.write_bytes(data)
    result = CliRunner().invoke(app, ["explain", "--file", str(path), "--json"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "is not UTF-8" in result.stderr
    assert result.stderr.count("\n") == 1
