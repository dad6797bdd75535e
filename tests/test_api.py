from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slalom
import slalom.explainers
from handmade import REVIEW, more_methods
from slalom.api import Explainer, explain
from slalom.errors import InputError, ModelError, SlalomWarning
from slalom.explainers import Method, check_options, load, methods, names, options
from slalom.explanation import Explanation
from slalom.perturb import Perturbations
from slalom.tokens import Tokens
from zoo import tiny

WEIGHTS = {"great": 2.0, "awful": -3.0, "not": -1.0}


def sentiment(texts: list[str]) -> np.ndarray:
    return np.array(
        [0.5 + sum(WEIGHTS.get(word.strip(".,").lower(), 0.0) for word in text.split()) for text in texts]
    )


def three_ways(texts: list[Any]) -> np.ndarray:
    joined = [" ".join(text) if isinstance(text, tuple) else text for text in texts]
    scores = sentiment(joined)
    return np.stack([-scores, np.zeros(len(joined)), scores], axis=1)


@pytest.fixture(autouse=True)
def _method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slalom.explainers, "__path__", more_methods(tmp_path))


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(sentiment, labels=["negative", "positive"])


def by_leaving_out(explainer: Explainer, text: Any = REVIEW, **call: Any) -> Any:
    return explainer(text, method="leave_one_out", **call)


def test_an_explanation_of_a_plain_function(explainer: Explainer):
    explanation = by_leaving_out(explainer)
    assert isinstance(explanation, Explanation)
    assert (explanation.method, explanation.target, explanation.prediction) == (
        "leave_one_out",
        "negative",
        "negative",
    )
    assert explanation.output == pytest.approx(0.5)
    scores = dict(zip(explanation.tokens.strings, explanation.score(), strict=True))
    assert scores["awful"] == pytest.approx(3.0)
    assert scores["great"] == pytest.approx(-2.0)
    assert scores["food"] == pytest.approx(0.0)
    assert explainer.labels == ("negative", "positive")


def test_what_the_api_adds(explainer: Explainer):
    explanation = by_leaving_out(explainer, seed=3, budget=50, scale=2.0)
    settings = explanation.settings
    assert {name: settings[name] for name in ("seed", "budget", "granularity", "side", "model", "scale")} == {
        "seed": 3,
        "budget": 50,
        "granularity": "positions",
        "side": "both",
        "model": "sentiment",
        "scale": 2.0,
    }
    assert settings["versions"]["slalom-xai"] == slalom.__version__
    assert settings["drawn"] == np.random.default_rng(3).integers(100)
    n = len(explanation)
    assert explanation.cost.queries == n + 1
    assert explanation.cost.tokens == n + n * (n - 1)
    assert explanation.cost.seconds >= explanation.cost.model_seconds > 0
    assert explanation.notes == ("made by the tests",)


@pytest.mark.parametrize("target", ["positive", "Positive", 1, -1, np.int64(1), "1"])
def test_target_by_name_and_index(explainer: Explainer, target: Any):
    explanation = by_leaving_out(explainer, target=target)
    assert explanation.target == "positive"
    assert explanation.output == pytest.approx(-0.5)


@pytest.mark.parametrize("target", ["neutral", 2, True, 0.5, ["positive"], np.array([1, 2])])
def test_wrong_targets(explainer: Explainer, target: Any):
    missing = r"no label .* choose one of: negative, positive"
    with pytest.raises(InputError, match=f"{missing}|target must be a whole number, text, a pair or None"):
        by_leaving_out(explainer, target=target)


def test_a_list_gives_what_each_text_alone_gives(explainer: Explainer):
    texts = [REVIEW, "Not great.", "So so"]
    together = by_leaving_out(explainer, texts, seed=5)
    for text, one in zip(texts, together, strict=True):
        alone = by_leaving_out(Explainer(sentiment, labels=["negative", "positive"]), text, seed=5).to_dict()
        assert one.to_dict() | {"cost": None} == alone | {"cost": None}
    assert by_leaving_out(explainer, []) == []


def test_every_class_from_the_same_queries():
    seen: list[str] = []

    def counted(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return three_ways(texts)

    explainer = Explainer(counted, labels=["bad", "so", "good"])
    alone = by_leaving_out(explainer)
    asked = len(seen)
    every = by_leaving_out(Explainer(counted, labels=["bad", "so", "good"]), every_class=True)
    assert len(seen) == 2 * asked
    assert (every.target, list(every.classes)) == ("bad", ["so", "good"])
    np.testing.assert_array_equal(every.score(), alone.score())
    np.testing.assert_allclose(every.of("good").score(), -every.score(), atol=1e-12)
    assert every.of("good").settings["seed"] == 0
    assert every.cost.queries == alone.cost.queries


def test_pairs_and_their_sides():
    explainer = Explainer(three_ways, labels=["bad", "so", "good"])
    pair = ("not great", "awful food")
    both = by_leaving_out(explainer, pair)
    assert both.tokens.strings == ("not", "great", "awful", "food")
    second = by_leaving_out(explainer, pair, side="second")
    assert second.tokens.strings == ("awful", "food")
    assert second.settings["side"] == "second"
    np.testing.assert_allclose(second.score(), both.score()[2:], atol=1e-12)


class Letters:
    """A model whose tokens are letters; it likes the word great."""

    name, labels, activation = "letters", ("0", "1"), "softmax"

    def tokenize(self, text: Any, explain: Any = "both") -> Tokens:
        places = [i for i, letter in enumerate(text) if letter != " "]
        words = [text[:i].count(" ") for i in places]
        spans = np.array([(i, i + 1) for i in places])
        pieces = tuple((ord(text[i]),) for i in places)
        return Tokens(text, tuple(text[i] for i in places), spans, pieces, words, np.zeros(len(places)))  # type: ignore[arg-type]

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> np.ndarray:
        rows = np.split(perturbations.positions, perturbations.offsets[1:-1])
        written = ["".join(chr(letter) for i in row for letter in tokens.pieces[i]) for row in rows]
        return np.array([[0.0, float("great" in text)] for text in written])


def test_words_join_sub_tokens():
    explainer = Explainer(Letters())
    letters = by_leaving_out(explainer, "a great day", target=1)
    assert len(letters) == 9
    words = by_leaving_out(explainer, "a great day", target=1, granularity="words")
    assert words.tokens.strings == ("a", "great", "day")
    assert words.score().tolist() == [0.0, 1.0, 0.0]
    assert words.settings["granularity"] == "words"


def test_predict_gives_probabilities(explainer: Explainer):
    chances = explainer.predict("great")
    assert isinstance(chances, dict)
    assert chances == {
        "negative": pytest.approx(1 / (1 + np.exp(2.5))),
        "positive": pytest.approx(1 / (1 + np.exp(-2.5))),
    }
    assert explainer.predict(["great", REVIEW]) == [chances, explainer.predict(REVIEW)]
    assert explainer.predict([]) == []


def test_progress_counts_queries(explainer: Explainer):
    seen: list[int] = []
    explanation = by_leaving_out(explainer, progress=seen.append)
    assert seen == [1, explanation.cost.queries]


def test_the_default_method_and_the_bundled_model():
    text = "A good, good film, but the ending was not good at all."
    explanation = explain(text, seed=1)
    assert explanation.labels == ("negative", "positive")
    assert (explanation.method, explanation.ranking) == ("slalom", "share")
    assert explanation.fidelity["r2"] > 0.5
    again = explain([text], seed=1)[0]
    assert again.to_dict() | {"cost": 0} == explanation.to_dict() | {"cost": 0}
    types = explain(text, granularity="types", effort="fast", budget=150)
    copies = [i for i, token in enumerate(types.tokens.strings) if token == "good"]
    assert len(copies) == 3
    assert len({types.values[i] for i in copies}) == len({types.importances[i] for i in copies}) == 1
    assert (types.settings["granularity"], types.settings["effort"]) == ("types", "fast")


def test_one_call(explainer: Explainer):
    direct = explain(REVIEW, sentiment, labels=["negative", "positive"], method="leave_one_out", seed=2)
    assert direct.to_dict() | {"cost": 0} == by_leaving_out(explainer, seed=2).to_dict() | {"cost": 0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"budget": 0}, "budget must be 'auto' or a whole number from 1 to 1,000,000; got 0"),
        ({"budget": -5}, "budget"),
        ({"budget": 10.5}, "budget"),
        ({"budget": True}, "budget"),
        ({"budget": "lots"}, "budget"),
        ({"budget": None}, "budget"),
        ({"seed": -1}, "seed must be a whole number from 0 to .*; got -1"),
        ({"seed": 1.5}, "seed"),
        ({"seed": None}, "seed"),
        ({"seed": True}, "seed"),
        ({"granularity": "letters"}, "must be 'positions', 'types', 'words' or 'tokens'; got 'letters'"),
        ({"granularity": "types"}, "'leave_one_out' does not explain token types"),
        ({"side": "third"}, "side must be 'both', 'first' or 'second'"),
        ({"side": "first"}, "needs a pair"),
        ({"every_class": "yes"}, "every_class must be True or False"),
        ({"progress": 7}, "progress must be True, False or a function"),
        ({"scael": 2}, "the method 'leave_one_out' has no option 'scael'; its options are: scale"),
        ({"method": "magic"}, r"there is no method 'magic'; choose one of: .*leave_one_out"),
        ({"method": "_helper"}, "there is no method '_helper'"),
        ({"method": None}, "method must be text or a function; got None"),
    ],
)
def test_wrong_options(explainer: Explainer, wrong: dict[str, Any], message: str):
    call: dict[str, Any] = {"method": "leave_one_out", **wrong}
    with pytest.raises(InputError, match=message):
        explainer(REVIEW, **call)


@pytest.mark.parametrize(
    "text", ["", "  \n\t", None, b"bytes", 5, ("a",), ("a", "b", "c"), ("a", None), {"a": 1}, "\ud83d"]
)
def test_wrong_texts(explainer: Explainer, text: Any):
    with pytest.raises(InputError):
        by_leaving_out(explainer, text)
    with pytest.raises(InputError, match="text 1 of the list: "):
        by_leaving_out(explainer, ["fine", text])
    with pytest.raises(InputError):
        explainer.predict(text)


def test_wrong_lists_fail_before_the_model_is_asked():
    asked: list[str] = []

    def noting(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return sentiment(texts)

    with pytest.raises(InputError, match="text 2 of the list"):
        by_leaving_out(Explainer(noting), ["fine", "good", ""])
    assert asked == []


def test_a_model_that_raises():
    def broken(texts: list[str]) -> np.ndarray:
        raise RuntimeError("out of order")

    with pytest.raises(ModelError, match="out of order"):
        by_leaving_out(Explainer(broken))


def test_a_cut_text_is_noted():
    model = Explainer(sentiment).model

    class Short:
        """The same model, which reads three words."""

        name, labels, activation = "short", ("0", "1"), "softmax"

        def tokenize(self, text: Any, explain: Any = "both") -> Any:
            warnings.warn("cut", SlalomWarning, stacklevel=1)
            start = text.index("three")
            return replace(model.tokenize(text[:start], explain), text=text, cut=start)

        def logits(self, tokens: Any, perturbations: Any) -> Any:
            return model.logits(tokens, perturbations)

    with pytest.warns(SlalomWarning, match="cut"):
        explanation = by_leaving_out(Explainer(Short()), "one two three")
    assert explanation.notes[-1] == (
        "The text is longer than the model reads: its first 8 characters were explained, "
        "the rest was left out (long='windows' explains all of it)."
    )


def test_methods_are_files():
    found = methods()
    assert list(found) == sorted(found) == list(names())
    assert found["leave_one_out"] == Method("leave_one_out", "Leave each token out once", "logits")
    assert "_helper" not in found
    assert options("leave_one_out") == {"scale": 1.0}
    assert callable(load("leave_one_out"))
    check_options("leave_one_out", {"scale": 3})


def test_a_method_says_what_it_needs(tmp_path: Path):
    (tmp_path / "silent.py").write_text('"""Says nothing."""\n')
    with pytest.raises(ImportError, match="'silent' does not say its NEEDS"):
        methods()


def test_listing_runs_no_method(tmp_path: Path):
    (tmp_path / "heavy.py").write_text(
        '"""Would fail\nif it ran. More."""\nNEEDS: str = "gradients"\nraise SystemExit\n'
    )
    assert methods()["heavy"] == Method("heavy", "Would fail if it ran", "gradients")


def test_the_front_door():
    assert dir(slalom) == ["Explainer", "Explanation", "__version__", "explain", "explain_answer"]
    assert (slalom.Explainer, slalom.explain, slalom.Explanation) == (Explainer, explain, Explanation)
    with pytest.raises(AttributeError, match="no attribute 'shap'"):
        slalom.shap  # noqa: B018


HEAVY = "{'torch', 'transformers', 'pandas', 'matplotlib'}"


@pytest.mark.parametrize(
    "line",
    [
        "import slalom; assert slalom.__version__",
        "from slalom import Explainer, Explanation, explain",
        "import slalom.explainers; slalom.explainers.methods()",
        "import slalom.cli",
        "import slalom.view.html, slalom.view.terminal",
    ],
)
def test_importing_loads_nothing_heavy(line: str):
    code = f"{line}\nimport sys\nheavy = {HEAVY} & set(sys.modules)\nassert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("كان الطعام رائعا لكن الخدمة سيئة", "6 of 6 tokens (100 %) are unknown to the model."),
        ("good 你 but dull", "1 of 4 tokens (25 %) are unknown to the model."),
        ("a very good film, but 你", ""),
    ],
)
@pytest.mark.parametrize("granularity", ["positions", "words"])
def test_many_unknown_tokens_are_told(text: str, said: str, granularity: Any):
    found = explain(text, method="occlusion", granularity=granularity)
    assert " ".join(found.notes).startswith(said)
    assert bool(found.notes) == bool(said)


def test_every_view_warns_of_unknown_tokens(capsys: pytest.CaptureFixture[str]):
    from slalom.compare import compare
    from slalom.view import compare as side_by_side
    from slalom.view import compare_html as side_by_side_page
    from slalom.view import html, terminal

    found = explain("食べ物はおいしかったが、サービスはひどかった。", method="occlusion")
    compared = compare(Explainer(), found.text, ["occlusion", "random"])
    terminal.show(found)
    side_by_side.show(compared)
    assert capsys.readouterr().out.count("are unknown to") == 2
    for page in (html.render(found), side_by_side_page.render(compared)):
        assert page.count("are unknown to the model.") == 1


def test_a_list_of_texts_is_predicted_in_shared_batches(monkeypatch: pytest.MonkeyPatch):
    explainer = Explainer(*tiny("bert"))
    texts = ["the food was great", "the service was awful", "a good film"]
    alone = [explainer.predict(text) for text in texts]
    calls: list[int] = []
    model: Any = explainer.model
    many = model.logits_of_many
    monkeypatch.setattr(model, "logits_of_many", lambda asked: calls.append(len(asked)) or many(asked))
    found = explainer.predict(texts)
    assert calls == [3]
    for one, other in zip(found, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_words_that_are_cut_already():
    words = ["The", "food", "was", "un-be-lievably", "good", "!"]
    explainer: Any = Explainer()
    one = explainer(words, pretokenized=True, effort="fast")
    assert one.text == " ".join(words)
    assert one.tokens.strings == tuple(words)
    assert len(one.share) == len(words)
    several = explainer(
        [words, words[:2]], pretokenized=True, method="occlusion", target=["positive", "negative"]
    )
    assert [each.tokens.strings for each in several] == [tuple(words), tuple(words[:2])]
    assert [each.target for each in several] == ["positive", "negative"]
    alone = explainer(words, pretokenized=True, method="occlusion", target="positive")
    np.testing.assert_allclose(several[0].score(), alone.score(), atol=1e-4)
    for wrong in ("a text", [], ["a", " "], [["a"], "b"]):
        with pytest.raises(InputError, match="pretokenized"):
            explainer(wrong, pretokenized=True)
    with pytest.raises(InputError, match="units are its words"):
        explainer(words, pretokenized=True, units="sentences")
