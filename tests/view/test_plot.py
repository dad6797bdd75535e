from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

import slalom
from handmade import attention_like, one_sign, single_score, slalom_explanation, tokens_of
from slalom.compare import correlations
from slalom.errors import InputError, MissingExtraError
from slalom.evaluate.protocols.deletion import curve
from slalom.models.ask import Ask
from slalom.theory.planted import plant
from slalom.view import plot

MONEY = r"It cost $5 and $x^ \frac{ $ for a % & # _ ~ job"
DRAWN: dict[str, Any] = {
    "scatter": lambda e, ax: plot.scatter(e, errors=True, ax=ax),
    "bar": lambda e, ax: plot.bar(e, ax=ax),
    "highlight": lambda e, ax: plot.highlight(e, ax=ax),
    "curves": lambda e, ax: plot.curves({e.target: np.linspace(1, 0, 5)}, ax=ax),
    "compare": lambda e, ax: plot.compare({e.target: e, "other": single_score(e.text)}, ax=ax),
}


@pytest.fixture(autouse=True)
def _shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pyplot, "show", lambda *a, **k: pytest.fail("show was called"))
    yield
    pyplot.close("all")


def draw(ax: Axes) -> None:
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", DRAWN)
def test_given_axes_come_back_and_missing_ones_are_made(name: str):
    _, ax = pyplot.subplots()
    assert DRAWN[name](slalom_explanation(), ax) is ax
    made = DRAWN[name](slalom_explanation(), None)
    assert isinstance(made, Axes)
    assert made is not ax
    draw(ax)
    draw(made)


@pytest.mark.parametrize("name", DRAWN)
def test_dollars_and_backslashes_are_letters(name: str, tmp_path: Path):
    explanation = slalom_explanation(MONEY, target="$no formula_{", labels=("$no formula_{", "b"))
    ax = DRAWN[name](explanation, None)
    ax.get_figure().savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_scatter_stands_where_the_scores_are():
    scores = {
        "value": np.array([1.0, -2.0, 3.0]),
        "importance": np.array([0.5, 1.5, 1.5]),
        "share": np.array([1.0, -2.0, 0.1]),
    }
    ax = plot.scatter(slalom_explanation(tokens=tokens_of("a b a"), scores=scores, stderr={}))
    dots: Any = ax.collections[0]
    np.testing.assert_allclose(dots.get_offsets(), [[2.0, 1.0], [-2.0, 1.5]])
    sizes = dots.get_sizes()
    assert sizes[0] == 2 * sizes[1]
    assert [to_hex(c) for c in dots.get_facecolor()] == [plot.BLUE, plot.ORANGE]
    assert [text.get_text() for text in ax.texts] == ["b", "a"]


def test_names_of_the_scatter_do_not_collide():
    ax = plot.scatter(slalom_explanation(" ".join(f"word{i}" for i in range(200))))
    draw(ax)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert 5 < len(boxes) <= 30
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_bars_by_size_with_errors():
    explanation = slalom_explanation()
    ax = plot.bar(explanation, score="value", top=4)
    order = np.argsort(-np.abs(explanation.values))[:4]
    bars: Any = ax.patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], explanation.values[order])
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        explanation.tokens.strings[i] for i in order
    ]
    low, high = ax.get_ylim()
    assert low > high  # the strongest on top


def test_highlight_writes_the_text_in_its_colours():
    explanation = single_score("awful but really very very very nice " * 4)
    ax = plot.highlight(explanation)
    assert "".join(text.get_text() for text in ax.texts).split() == explanation.text.split()
    grounds = [text.get_bbox_patch().get_facecolor() for text in ax.texts]  # type: ignore[union-attr]
    assert to_hex(grounds[0]) == plot.ORANGE
    assert to_hex(grounds[-2]) == plot.BLUE
    draw(ax)
    lines = {round(text.get_window_extent().y0 / 5) for text in ax.texts}
    assert len(lines) == 3


def test_curves_of_a_planted_model():
    words = [f"w{i}" for i in range(12)]
    model, tokenizer = plant(np.zeros(12), np.linspace(-3, 3, 12), words)
    explainer = slalom.Explainer(model, tokenizer)
    text = " ".join(words)
    explanation = explainer(text, target=1)
    found = curve(Ask(explainer.model, explanation.tokens), explanation, "lowest", step=2)
    ax = plot.curves({"slalom": found, "the same": found}, step=2)
    assert len(ax.lines) == 2
    line: Any = ax.lines[0].get_xydata()
    np.testing.assert_allclose(line, np.stack([2 * np.arange(1, 6), found], axis=1))
    values = np.linspace(-3, 3, 12)
    np.testing.assert_allclose(found[0], 1 / (1 + np.exp(-values[:2].mean())), atol=1e-9)


def test_compare_shows_the_correlations():
    comparison = {"slalom": slalom_explanation(), "occlusion": single_score(), "lime": "not installed"}
    ax = plot.compare(comparison, signed=True)
    np.testing.assert_allclose(ax.images[0].get_array(), correlations(comparison, True))  # type: ignore[arg-type]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["slalom", "occlusion"]


def test_wrong_requests_are_refused():
    with pytest.raises(InputError, match="has no score 'value'"):
        plot.scatter(single_score())
    with pytest.raises(InputError, match="top must be a whole number of at least 1; got 0"):
        plot.bar(single_score(), top=0)
    with pytest.raises(InputError, match="'deletion' or 'insertion'; got 'both'"):
        plot.curves({}, kind="both")
    with pytest.raises(InputError, match="nothing to compare"):
        plot.compare({"lime": "not installed"})


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'slalom-xai\[plot\]'"):
        plot.bar(single_score())


def test_scores_without_a_sign_are_violet_and_types_have_all_their_spellings():
    ax = plot.bar(attention_like())
    assert {to_hex(bar.get_facecolor()) for bar in ax.patches} == {plot.VIOLET}
    assert ax.get_xlabel() == "alpha_avg, does not say for or against what"
    plane = plot.scatter(slalom_explanation(tokens=one_sign("The the cat")))
    assert [text.get_text() for text in plane.texts] == ["The / the / cat"]
