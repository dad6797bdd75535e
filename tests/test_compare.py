from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import spearmanr

from handmade import HOSTILE, REVIEW, hostile_explanation, single_score
from slalom.api import Explainer
from slalom.compare import Compared, Predicted, compare, correlations, explained, order, skipped
from slalom.errors import InputError, SlalomError, SlalomWarning
from slalom.explainers import names
from slalom.view.compare import ranked, show, told
from slalom.view.compare_html import render
from zoo import tiny

SOME = ["occlusion", "linear", "random", "naive_bayes", "gradient"]


def sentiment(texts: list[str]) -> np.ndarray:
    weights = {"great": 2.0, "awful": -3.0}
    return np.array([sum(weights.get(word.strip("."), 0.1) for word in text.split()) for text in texts])


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(sentiment, labels=["negative", "positive"], output="log_odds")


def printed(comparison: Any, width: int = 100, colour: Any = None, **more: Any) -> str:
    console = Console(width=width, color_system=colour, force_terminal=colour is not None)
    with console.capture() as capture:
        show(comparison, console, **more)
    return capture.get()


def test_explanations_or_reasons(explainer: Explainer):
    found = compare(explainer, REVIEW, SOME, target="positive", seed=3)
    assert list(found) == SOME
    assert list(explained(found)) == SOME[:3]
    assert "labelled data" in skipped(found)["naive_bayes"]
    assert "needs the gradients of a torch model" in skipped(found)["gradient"]
    alone = explainer(REVIEW, method="random", target="positive", seed=3)
    np.testing.assert_array_equal(explained(found)["random"].score(), alone.score())


def test_data_and_options_reach_their_methods(explainer: Explainer):
    data = [("great", 1), ("awful", 0)]
    found = explained(
        compare(explainer, REVIEW, ["naive_bayes", "lime"], data=data, options={"lime": {"kernel_width": 5}})
    )
    assert found["naive_bayes"].settings["data"] == "given: 2 texts"
    assert found["lime"].settings["kernel_width"] == 5


def test_what_is_refused(explainer: Explainer):
    with pytest.raises(InputError, match="there is no method 'slalon'"):
        compare(explainer, REVIEW, ["slalon"])
    with pytest.raises(InputError, match="options for lime, which is not among the methods"):
        compare(explainer, REVIEW, ["random"], options={"lime": {}})
    with pytest.raises(InputError, match="no methods"):
        compare(explainer, REVIEW, [])
    with pytest.raises(SlalomError, match=r"^the text to explain is empty or blank: ' '$"):
        compare(explainer, " ", ["random", "occlusion"])
    with pytest.raises(SlalomError, match="torch model"):
        compare(explainer, REVIEW, ["gradient"])


def test_all_methods_slalom_first():
    assert order(names())[0] == "slalom"
    assert sorted(order(names())) == list(names())


def test_a_cut_text_is_said_once():
    explainer = Explainer(*tiny("bert"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare(explainer, "the food was great " * 40, ["random", "gradient", "linear"], budget=64)
    assert [warning.category for warning in caught] == [SlalomWarning]


def test_correlations_are_spearmans():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 10)).round(1)  # with ties
    found = {
        f"m{i}": single_score(REVIEW, method=f"m{i}", scores={"attribution": row})
        for i, row in enumerate(scores)
    }
    with_signs: Any = spearmanr(scores, axis=1)
    sizes: Any = spearmanr(np.abs(scores), axis=1)
    np.testing.assert_allclose(correlations(found, signed=True), with_signs.statistic)
    np.testing.assert_allclose(correlations(found), sizes.statistic)
    flat = {**found, "flat": single_score(REVIEW, scores={"attribution": np.ones(10)})}
    table = correlations(flat)
    assert np.isnan(table[3]).all()
    np.testing.assert_allclose(table[:3, :3], correlations(found))


def test_lines_are_aligned_in_the_terminal(explainer: Explainer):
    found = compare(explainer, REVIEW, SOME, target="positive")
    lines = printed(found).splitlines()
    heading = next(line for line in lines if "great" in line)
    occlusion = next(line for line in lines if line.startswith("occlusion"))
    assert occlusion[heading.index("great") :].startswith("+++")
    assert occlusion[heading.index("awful") :].startswith("----")
    assert occlusion[heading.index("food") :].startswith(" ")
    assert [line.split()[0] for line in lines if re.match(r"\d \w+ ", line)] == ["1", "2", "3"]
    assert any(line.startswith("naive_bayes: not run. 'naive_bayes' needs labelled data") for line in lines)


@pytest.mark.parametrize("colour", [None, "standard", "truecolor"])
@pytest.mark.parametrize("width", [40, 60, 200])
def test_long_texts_wrap_in_blocks(explainer: Explainer, width: int, colour: str | None):
    text = " ".join(f"token{i}" for i in range(40))
    found = compare(explainer, text, ["occlusion", "random"])
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed(found, width, colour))
    lines = plain.splitlines()
    assert max(map(len, lines)) <= width
    start = next(i for i, line in enumerate(lines) if line.startswith("explaining"))
    blocks = [line for line in lines[start:] if line.startswith("occlusion ")]
    assert len(blocks) == pytest.approx(40 * 8 / (width - 11), rel=0.4)
    shown = " ".join(line for line in lines[start:] if "token" in line)
    assert shown.count("token") == 40 * (2 if colour else 1)


def test_the_matrix_is_split_where_it_is_too_wide(explainer: Explainer):
    found = {f"method{i}": single_score(method=f"method{i}") for i in range(12)}
    plain = printed(found, 60)
    assert max(map(len, plain.splitlines())) <= 60
    assert plain.count("1 method0 ") == 2


def test_signed_is_said():
    found = {"a": single_score(), "b": single_score()}
    assert "between the sizes of the scores" in printed(found)
    assert "between the scores with their signs" in printed(found, signed=True)


def test_the_page_needs_nothing_but_itself(explainer: Explainer):
    page = render(compare(explainer, REVIEW, SOME))
    assert "<script" not in page
    assert not re.search(r"https?:|src=|url\(|@import", page)
    assert page.count('<th scope="row">occlusion</th>') == 1
    assert re.search(r"<p>\w+ predicts this model best here: \d+ % of what it does on \d+ new copies", page)
    assert "naive_bayes: not run" in page
    assert re.search(
        r'<th scope="row"><bdi>great</bdi></th>.*?<td class="[pn] a\d+" '
        r'title="occlusion, attribution: [+−][\d.]+"><span>−?\d+</span></td>',
        page,
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_shown_not_obeyed(text: str):
    found = {"a": hostile_explanation(text), "b": f"reason {text}"}
    page, plain = render(found), printed(found, 400)
    for bad in ("<script>alert", "</style><style>*", 'x" onmouseover'):
        assert bad not in page
    for bad in "\x1b\x9b\x07\x00\u202e\u2066\u2028":
        assert bad not in page
        assert bad not in plain
    assert "[red]" not in text or "[red]stop[/red]" in plain


def weighed(texts: list[str]) -> list[float]:
    """A SLALOM: what the words say, averaged by how much they count."""
    says, counts = {"great": 2.0, "awful": -3.0}, {"great": 3.0, "awful": 9.0}
    words = [[word.strip(".") for word in text.split()] for text in texts]
    return [
        sum(says.get(word, 0.1) * counts.get(word, 1.0) for word in one)
        / max(sum(counts.get(word, 1.0) for word in one), 1e-9)
        for one in words
    ]


def test_the_methods_are_tried_on_new_copies():
    explainer = Explainer(weighed, labels=["negative", "positive"], output="log_odds")
    found = compare(explainer, REVIEW, ["random", "linear", "slalom"], target="positive")
    tried = found.predicted
    assert tried.copies >= 32
    assert tried.r2["slalom"] > 0.98
    assert tried.r2["slalom"] > tried.r2["linear"] > tried.r2["random"]
    assert tried.tied == ("slalom",)
    assert list(ranked(found)) == ["slalom", "linear", "random"]
    best, agreement = told(found)
    assert best.startswith("slalom predicts this model best here: ")
    assert f"for {explained(found)['slalom'].cost.queries:,} queries and " in best
    assert f"linear follows with {100 * tried.r2['linear']:.0f} %" in best
    assert "median rank correlation" in agreement
    assert found.to_dict()["predicted"]["r2"] == tried.r2
    again = compare(explainer, REVIEW, ["random", "linear", "slalom"], target="positive")
    assert again.predicted == tried


def test_a_text_of_few_words_and_a_constant_model_try_nothing(explainer: Explainer):
    found = compare(explainer, "great food", ["linear", "random"])
    assert found.predicted == Predicted()
    assert "predicts this model best" not in printed(found) + render(found)
    constant = Explainer(lambda texts: [[0.0, 1.0]] * len(texts), labels=["a", "b"])
    assert compare(constant, REVIEW, ["linear", "random"]).predicted == Predicted()


def test_a_long_text_has_its_strongest_words(explainer: Explainer):
    text = " ".join([*(f"token{i}" for i in range(80)), "great"])
    page = render(compare(explainer, text, ["linear", "occlusion"]))
    assert "The 40 strongest of 81 words and methods" in page
    assert "<bdi>great</bdi></th>" in page
    assert page.count('<th scope="row"><bdi>') == 40


def test_a_comparison_comes_back_from_its_document(explainer: Explainer):
    found = compare(explainer, REVIEW, SOME, target="positive")
    again = Compared.from_dict(found.to_dict())
    assert again.predicted == found.predicted
    assert skipped(again) == skipped(found)
    assert render(again) == render(found)
    with pytest.raises(InputError, match="no comparison of methods"):
        Compared.from_dict({"format": "slalom-explanation"})
    with pytest.raises(InputError, match="damaged"):
        Compared.from_dict({"format": "slalom-comparison"})
