"""Results that show themselves: in a line, in a few, as a page, a frame, a picture."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas
import pytest
from matplotlib import pyplot

from handmade import REVIEW, attention_like, single_score, slalom_explanation
from slalom.api import Explainer, explain
from slalom.compare import Compared, compare
from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.explanations import Explanations
from slalom.view import compare_html as side_by_side_page
from slalom.view import html, shown
from slalom.view.answer import answer

TEXTS = ["great food", "awful food", "not so great"]
WEIGHTS = {"great": 2.0, "awful": -3.0, "not": -2.5}


def sentiment(texts: list[str]) -> np.ndarray:
    return np.array([0.5 + sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts])


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(sentiment, labels=["negative", "positive"], output="log_odds")


def test_a_line_and_a_few_lines():
    explanation = slalom_explanation(notes=("A note.",))
    assert repr(explanation) == f"<Explanation of 'negative' by slalom: {answer(explanation)}>"
    lines = str(explanation).splitlines()
    assert lines[:3] == [answer(explanation), "negative 90.0 %, positive 10.0 %", "share:"]
    named = [line.split()[0] for line in lines[3:8]]
    assert named == [token for token, _ in explanation.top(5)]
    assert lines[3].split()[1:] == [f"{explanation.top(1)[0][1]:+.3f}".replace("-", "−"), "±0.125"]
    assert lines[8].startswith("Predicts 93 %")
    assert lines[9:] == ["note: A note."]
    assert f"{explanation}" == str(explanation)


def test_shown_in_a_terminal(capsys: pytest.CaptureFixture[str]):
    explanation = slalom_explanation()
    explanation.show(every_token=True)
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(answer(explanation))
    assert "importance" in told


def test_a_page_in_hand_and_in_a_file(tmp_path: Path):
    explanation = slalom_explanation()
    assert explanation.to_html() == html.render(explanation)
    assert explanation.to_html(tmp_path / "it.html") == (tmp_path / "it.html").read_text()
    assert explanation._repr_html_() == html.fragment(explanation)


@pytest.mark.parametrize("kind", ["bar", "plane", "waterfall", "text"])
def test_pictures_by_name(kind: Any):
    explanation = slalom_explanation()
    _, ax = pyplot.subplots()
    assert explanation.plot(kind, ax=ax) is ax
    pyplot.close("all")


def test_a_waterfall_ends_at_the_output():
    explanation = slalom_explanation()
    ax = explanation.plot("waterfall", top=3)
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]  # type: ignore[attr-defined]
    assert bars[0][0] == pytest.approx(explanation.output - explanation.share.sum())
    for (x, width), (following, _) in pairwise(bars):
        assert following == pytest.approx(x + width)
    assert sum(bars[-1]) == pytest.approx(explanation.output)
    assert [text.get_text() for text in ax.get_yticklabels()][-1] == "7 other tokens"
    pyplot.close("all")


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match="no picture 'pie'; choose one of: bar, plane, waterfall, text"):
        slalom_explanation().plot("pie")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="adds scores up, but 'alpha_avg' does not say for or against"):
        attention_like().plot("waterfall")
    with pytest.raises(InputError, match="top must be a whole number of at least 1"):
        slalom_explanation().plot("waterfall", top=0)


def test_a_list_shows_itself(explainer: Explainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    several = explainer(TEXTS)
    assert isinstance(several, list)
    assert isinstance(several, Explanations)
    assert repr(several) == "<3 explanations; print them, or .show() them>"
    assert isinstance(several[:2], Explanations)
    assert isinstance(several[0], Explanation)
    assert str(several).splitlines()[1] == f"{'awful food':<30}  {answer(several[1])}"
    several.show()
    assert "awful food" in capsys.readouterr().out
    frame = several.to_frame()
    assert list(frame.columns[:2]) == ["document", "token"]
    assert frame["document"].tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert [Explanation.from_dict(one).text for one in json.loads(json.dumps(several.to_dict()))] == TEXTS
    page = several.to_html(tmp_path / "all.html")
    assert page == (tmp_path / "all.html").read_text()
    for one in several:
        assert html.first(one) in page
        assert html.fragment(one, assets=False) in page
        assert html.fragment(one, assets=False) in several._repr_html_()
    assert page.count("<script>") == several._repr_html_().count("<script>") == 1
    with pytest.raises(InputError, match="no explanations"):
        Explanations().to_frame()


def test_of_very_many_explanations_the_first_open_to_the_whole():
    many = Explanations([slalom_explanation("a b c")] * (shown.LIVE + 3))
    page = many.to_html()
    assert page.count("<summary>") == 2 * shown.LIVE + 3
    assert page.count('<script type="application/json">') == shown.LIVE


def test_a_comparison_shows_itself(explainer: Explainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = compare(explainer, REVIEW, ["slalom", "occlusion", "gradient"])
    assert isinstance(found, dict)
    assert repr(found) == "<Comparison of slalom, occlusion; not run: gradient>"
    first, best, *rows = str(found).splitlines()
    assert first == answer(found["slalom"])  # type: ignore[arg-type]
    assert "predicts this model best" in best
    assert [row.split()[0] for row in rows] == ["slalom", "occlusion", "gradient:"]
    found.show()
    assert "occlusion" in capsys.readouterr().out
    assert found.to_html(tmp_path / "it.html", signed=True) == side_by_side_page.render(found, signed=True)
    assert (tmp_path / "it.html").read_text() == found.to_html(signed=True)
    assert "rank correlation" in found._repr_html_().lower()
    frame = found.to_frame()
    assert list(frame.columns) == ["token", "start", "end", "slalom", "occlusion"]
    np.testing.assert_array_equal(frame["occlusion"], found["occlusion"].score())  # type: ignore[union-attr]
    assert list(found.to_dict()["methods"]) == ["slalom", "occlusion"]
    assert found.plot() is not None
    pyplot.close("all")
    assert repr(Compared(a=single_score())) == "<Comparison of a>"
    assert str(Compared(a="why not")) == "No method explained the text.\n  a: not run, why not"


COLUMNS: dict[str, Any] = {
    "pandas": lambda: pandas.Series(TEXTS, index=[5, 6, 7]),
    "polars": lambda: pytest.importorskip("polars").Series("text", TEXTS),
    "datasets": lambda: pytest.importorskip("datasets").Dataset.from_dict({"text": TEXTS})["text"],
    "numpy": lambda: np.array(TEXTS),
    "objects": lambda: np.array(TEXTS, dtype=object),
    "generator": lambda: (text for text in TEXTS),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_in_a_column(explainer: Explainer, kind: str):
    several = explainer(COLUMNS[kind](), method="occlusion")
    assert [one.text for one in several] == TEXTS
    predicted = explainer.predict(COLUMNS[kind]())
    assert isinstance(predicted, list)
    assert len(predicted) == len(TEXTS)


def test_a_column_of_something_else(explainer: Explainer):
    with pytest.raises(
        InputError, match=r"text 1 of the list: a text must be a str or a pair of str; got float"
    ):
        explainer(pandas.Series(["good", np.nan]))
    with pytest.raises(InputError, match="got bytes"):
        explainer(b"good")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got dict"):
        explainer({"text": "good"})  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["slalom", "occlusion", "linear"])
def test_a_target_for_each_text(explainer: Explainer, method: str):
    targets = ["positive", 0, None]
    several = explainer(TEXTS, target=targets, method=method)
    assert [one.target for one in several] == ["positive", "negative", "negative"]
    again = explainer(TEXTS, target=pandas.Series(["positive"] * 3), method=method)
    assert [one.target for one in again] == ["positive"] * 3
    with pytest.raises(
        InputError, match="there are 3 texts, but 2 targets; give one for each, or one for all"
    ):
        explainer(TEXTS, target=["positive", "negative"])
    with pytest.raises(InputError, match="target"):
        explainer("great", target=["positive"])


def test_a_bar(explainer: Explainer, capfd: pytest.CaptureFixture[str]):
    explainer(TEXTS, progress=True)
    assert "asking the model" in capfd.readouterr().err
    explain("great food", progress=True, method="occlusion")
    assert "asking the model" in capfd.readouterr().err
    explainer(TEXTS, progress=False)
    assert capfd.readouterr().err == ""


def test_an_explainer_says_what_it_explains(explainer: Explainer):
    assert repr(Explainer()) == "<Explainer of 'bundled': negative, positive>"
    assert repr(Explainer(sentiment)) == "<Explainer of 'sentiment': labels are known from the first text on>"
    many = Explainer(sentiment, labels=[str(i) for i in range(9)])
    assert repr(many) == "<Explainer of 'sentiment': 0, 1, 2, 3, 4 …>"
