from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from handmade import HOSTILE, REVIEW, hostile_explanation, single_score, slalom_explanation, tokens_of
from slalom.view.html import TOP, fragment, render
from slalom.view.style import FRAGMENT, LEVELS, PAGE

TAGS = (
    "html head meta title style body div ul li b svg rect h2 h3 em p span del details summary "
    "table thead tbody tr th td small line text circle dl dt dd"
)
ATTRIBUTES = (
    "lang charset http-equiv content name class title dir scope aria-label aria-hidden role viewbox "
    "preserveaspectratio width height x y x1 x2 y1 y2 cx cy r text-anchor transform"
)
VOID = {"meta"}


class Page(HTMLParser):
    """What a browser would find: tags that nest, attributes, and the text inside the elements asked for."""

    def __init__(self, source: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts.setdefault(tag, []).append(data)

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = attributes.items()
        return [found for name, found in self.tags if name == tag and wanted <= found.items()]


def text_of(page: str) -> str:
    inside = re.search(r'<p class="text"[^>]*>(.*?)</p>', page, flags=re.DOTALL)
    assert inside
    return "".join(Page(f"<p>{inside[1]}</p>").texts.get("p", []))


def test_the_text_stands_there_as_it_is():
    text = "Two  blanks,\na line & a <tag>."
    assert text_of(render(slalom_explanation(text))) == text


def test_tooltips_carry_every_score_with_its_error():
    explanation = slalom_explanation()
    tips = [found["title"] or "" for found in Page(fragment(explanation)).having("span") if "title" in found]
    assert len(tips) == len(explanation)
    for i, tip in enumerate(tips):
        first, *lines = tip.split("\n")
        assert first == f"{explanation.tokens.strings[i]} (token {i})"
        assert [line.split()[0] for line in lines] == ["linear", "value", "importance", "removal"]
        score = float(lines[1].split()[1].replace("−", "-"))
        assert score == pytest.approx(explanation.values[i], abs=0.005)
        assert all("±0.12" in line for line in lines)


def test_shades_follow_sign_and_size():
    classes = [found.get("class") for found in Page(fragment(single_score("a b c"))).having("span")]
    assert classes[:3] == [f"n{LEVELS}", None, f"p{LEVELS}"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_stays_text(kind: str):
    source = render(hostile_explanation(HOSTILE[kind]))
    page = Page(source)
    assert {tag for tag, _ in page.tags} <= set(TAGS.split())
    assert {name for _, attributes in page.tags for name in attributes} <= set(ATTRIBUTES.split())
    assert len(page.having("style")) == 2
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", source)


def test_nothing_is_loaded_and_no_other_style_applies():
    source = render(slalom_explanation())
    assert not re.search(r"https?:|url\(|@import|<script|src=|href=", source)
    policy = Page(source).having("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"] or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    for style in re.findall(r"<style>(.*?)</style>", source, flags=re.DOTALL):
        assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
    assert "unsafe" not in policy


def test_the_fragment_styles_only_itself():
    source = fragment(slalom_explanation())
    assert source.startswith('<div class="slalom-explanation">')
    selectors = re.findall(r"(?:^|\})\s*([^{}]+)\{", FRAGMENT)
    assert len(selectors) > 40
    for selector in selectors:
        assert all(one.strip().startswith(".slalom-explanation") for one in selector.split(","))
    assert PAGE not in source
    assert slalom_explanation()._repr_html_() == source


def test_light_and_dark():
    assert "prefers-color-scheme:dark" in PAGE
    assert 'name="color-scheme" content="light dark"' in render(slalom_explanation())


def test_verdict_cost_settings_and_notes():
    source = render(slalom_explanation(notes=("Mind the gap.",)))
    assert '<p class="verdict good">Held-out R² 0.93 (linear surrogate 0.71)' in source
    assert "512 queries" in source
    assert "<dt>effort</dt><dd>balanced</dd>" in source
    assert "<dt>design</dt><dd>&quot;short&quot;: 9</dd>" in source
    assert "Mind the gap." in source


def test_long_texts_have_a_second_table_with_every_token():
    long = slalom_explanation(" ".join(f"w{i}" for i in range(TOP + 5)))
    assert len(Page(fragment(long)).having("tr")) == 2 + TOP + TOP + 5
    assert f"All {TOP + 5} tokens in their order" in fragment(long)
    assert len(Page(fragment(slalom_explanation())).having("tr")) == 1 + 10


def test_scatter_has_a_dot_for_each_token_and_names_the_strongest():
    explanation = slalom_explanation(REVIEW)
    page = Page(fragment(explanation))
    dots = page.having("circle")
    assert len(dots) == len(explanation)
    assert sum(dot["class"] == "n" for dot in dots) == int((explanation.linear < 0).sum())
    inside = [(float(dot["cx"] or "nan"), float(dot["cy"] or "nan")) for dot in dots]
    assert all(0 <= x <= 720 and 0 <= y <= 400 for x, y in inside)
    names = "".join(page.texts["text"])
    strongest = explanation.top(1)[0][0]
    assert strongest in names
    assert "value: what the token says on its own" in names


def test_scatter_places_dots_on_their_scale():
    scores = {
        "value": np.array([-1.0, 0.0, 1.0]),
        "importance": np.array([0.0, 1.0, 2.0]),
        "linear": np.ones(3),
    }
    page = Page(
        fragment(slalom_explanation(tokens=tokens_of("a b c"), scores=scores, stderr={}, surrogate=None))
    )
    xs = sorted(float(dot["cx"] or "nan") for dot in page.having("circle"))
    ys = sorted(float(dot["cy"] or "nan") for dot in page.having("circle"))
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2)
    zero = page.having("line", **{"class": "zero"})
    assert float(zero[0]["x1"] or "nan") == pytest.approx(xs[1], abs=0.2)


@pytest.mark.parametrize("value", [0.0, 1e-9, 1e12, np.nan, np.inf])
def test_scatter_of_degenerate_scores(value: float):
    n = 3
    scores = {"value": np.full(n, value), "importance": np.zeros(n), "linear": np.zeros(n)}
    source = fragment(slalom_explanation(tokens=tokens_of("a b c"), scores=scores, stderr={}, surrogate=None))
    assert bool(Page(source).having("circle")) == bool(np.isfinite(value))
    assert not re.search(r'"(nan|inf|-inf)"', source)


def test_copies_of_a_type_are_one_dot():
    tokens = tokens_of("a b a")
    scores = {"value": np.array([1.0, 2.0, 1.0]), "importance": np.zeros(3), "linear": np.ones(3)}
    page = Page(fragment(slalom_explanation(tokens=tokens, scores=scores, stderr={}, surrogate=None)))
    assert len(page.having("circle")) == 2


def test_methods_with_one_score_have_no_scatter():
    page = Page(render(single_score()))
    assert page.having("circle") == []
    assert "does not measure" in "".join(page.texts["p"])


def test_cut_text_is_deleted():
    tokens = replace(tokens_of("one two"), text="one two three", cut=8)
    assert "<del>three</del>" in fragment(slalom_explanation(tokens=tokens))


def test_other_classes_fold_away():
    both = slalom_explanation(classes={"positive": slalom_explanation(target="positive")})
    source = fragment(both)
    assert "<details><summary>positive</summary><h2>Why <em>positive</em>?</h2>" in source


def test_many_labels_are_counted():
    labels = tuple(f"label {i}" for i in range(12))
    source = fragment(slalom_explanation(labels=labels, probabilities=np.full(12, 1 / 12), target="label 0"))
    assert "and 7 more labels" in source
