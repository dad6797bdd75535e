from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from handmade import (
    HOSTILE,
    attention_like,
    heads_explanation,
    hostile_explanation,
    one_sign,
    single_score,
    slalom_explanation,
    tokens_of,
)
from slalom.explanation import Explanation
from slalom.surrogate import Additive, Slalom
from slalom.view import Run, runs
from slalom.view import page as data
from slalom.view.html import LIMIT, TOP, fragment, render
from slalom.view.page import FRAGMENT, LEVELS, PAGE, SCRIPT, shade

TAGS = (
    "html head meta title style body main div section ul li b bdi svg rect h1 h2 h3 em p span del details "
    "summary q table thead tbody tr th td small dl dt dd script"
)
ATTRIBUTES = (
    "lang charset http-equiv content name class dir scope aria-label aria-hidden viewbox hidden type "
    "preserveaspectratio width height x y role tabindex"
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
    inside = re.search(r'<div class="text"[^>]*>(.*?)</div>', page, flags=re.DOTALL)
    assert inside
    return "".join(Page(f"<div>{inside[1]}</div>").texts.get("div", []))


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json">(.*?)</script>', page, flags=re.DOTALL)
    assert found
    return json.loads(found[1])


def touchable(explanation: Explanation) -> list[Run]:
    return [run for run in runs(explanation.tokens) if run.positions]


def words(count: int, kinds: int = 10**9) -> str:
    return " ".join(f"word{i % kinds}" for i in range(count))


def test_the_text_stands_there_as_it_is():
    text = "Two  blanks,\na line & a <tag>."
    assert text_of(render(slalom_explanation(text))) == text


def test_shades_follow_sign_and_size():
    spans = [found.get("class") for found in Page(fragment(single_score("a b c"))).having("span")]
    marked = [kind for kind in spans if kind and kind.split()[0] == "t"]
    assert marked[:3] == [f"t n a{LEVELS}", "t", f"t p a{LEVELS}"]
    assert (shade(0.04), shade(-0.5), shade(1.0)) == ("", "n a5", "p a10")


def test_the_page_holds_scores_errors_and_the_surrogate_to_the_last_bit():
    explanation = slalom_explanation()
    found = embedded(render(explanation))
    one = found["classes"][0]
    assert list(one["scores"]) == ["share", "value", "importance", "removal"]
    for name, scores in one["scores"].items():
        np.testing.assert_allclose(scores, explanation.score(name), atol=1e-4)
        np.testing.assert_allclose(one["errors"][name], 0.125)
    assert one["scores"]["share"] == explanation.share.tolist()
    surrogate: Any = explanation.surrogate
    part = {
        "values": surrogate.values[:, 0].tolist(),
        "importances": surrogate.importances.tolist(),
        "background_importance": -1.0,
        "background_value": 0.25,
    }
    assert one["surrogate"] == {"kind": "slalom", "parts": [part], "offset": 0.0}
    assert found["frequencies"][found["names"].index("was")] == 2
    assert [found["names"][kind] for kind in found["types"]] == list(explanation.tokens.strings)


def test_tokens_that_cannot_be_touched_act_as_background():
    explanation = slalom_explanation(words(40))
    chosen = data.strongest(explanation, touchable(explanation)[::2], 12)
    found = data.contents(explanation, chosen)
    one, places = found["classes"][0], found["places"]  # pyright: ignore[reportIndexIssue]
    assert len(places) == 12  # pyright: ignore[reportArgumentType]
    kept = np.ones(40)
    kept[places[:5]] = [0, 2, 0, 1, 3]  # pyright: ignore[reportIndexIssue]
    (given,) = one["surrogate"]["parts"]
    w = np.exp(given["importances"]) * kept[places]  # pyright: ignore[reportArgumentType, reportCallIssue]
    w0 = np.exp(given["background_importance"])
    mine = (w @ given["values"] + w0 * given["background_value"]) / (w.sum() + w0)
    assert mine == pytest.approx(explanation.predict(np.repeat(np.arange(40), kept.astype(int))), abs=1e-12)


def test_measured_removals_are_marked_and_exact():
    explanation = heads_explanation()
    found = embedded(render(explanation))
    assert "removal <small>measured</small>" in render(explanation)
    assert found["classes"][0]["measured"]
    assert found["classes"][0]["scores"]["removal"] == explanation.removal.tolist()
    assert found["meanings"]["removal"].endswith("measured on the model")
    fitted = heads_explanation(settings={"removal": "fitted"})
    shown = fragment(fitted, assets=False)
    assert "removal</th>" in shown
    assert "measured" not in shown.replace('"measured":false', "")


def test_an_additive_surrogate_keeps_what_cannot_be_touched():
    weights = np.arange(40.0)
    explanation = single_score(words(40), surrogate=Additive(weights, np.array([0.5])))
    given = data.contents(explanation, touchable(explanation)[:2])["classes"][0]["surrogate"]  # pyright: ignore[reportIndexIssue]
    assert given == {"kind": "additive", "weights": [0.0, 1.0], "intercept": 0.5 + weights[2:].sum()}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_stays_text(kind: str):
    source = render(hostile_explanation(HOSTILE[kind]))
    page = Page(source)
    assert {tag for tag, _ in page.tags} <= set(TAGS.split())
    assert {name for _, attributes in page.tags for name in attributes} <= set(ATTRIBUTES.split())
    assert len(page.having("style")) == len(page.having("script")) == 2
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", source)
    assert "<" not in json.dumps(embedded(source)).replace("\\u003c", "") or kind in ("markup", "style")


def test_json_cannot_end_its_script():
    source = fragment(hostile_explanation("</script><!-- x <script> y"))
    inside = source.split('<script type="application/json">')[1].split("</script>")[0]
    assert "<" not in inside
    assert embedded(source)["own"]["0"] == "</script><!--"


def test_nothing_is_loaded_and_nothing_else_runs():
    source = render(slalom_explanation())
    assert not re.search(r"url\(|@import|src=|href=|fetch|XMLHttp|WebSocket|innerHTML|eval\(| on\w+=", source)
    assert set(re.findall(r"https?:[^\s\"']+", source)) == {"http://www.w3.org/2000/svg"}
    policy = Page(source).having("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"] or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    for tag in ("style", "script"):
        for inside in re.findall(rf"<{tag}>(.*?)</{tag}>", source, flags=re.DOTALL):
            assert base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    assert "style=" not in source


def test_the_fragment_styles_only_itself_and_brings_everything():
    source = fragment(slalom_explanation())
    assert source.startswith(f'<div class="slalom-explanation"><style>{FRAGMENT}</style>')
    assert source.endswith(f"<script>{SCRIPT}</script></div>")
    # One rule, everything else nested in it.
    assert FRAGMENT.startswith(".slalom-explanation {")
    depth = np.cumsum([{"{": 1, "}": -1}.get(char, 0) for char in FRAGMENT])
    assert depth[-1] == 0
    assert (depth[FRAGMENT.index("{") : -1] > 0).all()
    assert PAGE not in source
    assert slalom_explanation()._repr_html_() == source
    assert " id=" not in source  # several of them share one page


def test_without_assets_for_pages_that_have_them():
    bare = fragment(slalom_explanation(), assets=False)
    assert "<style>" not in bare
    assert "<script>" not in bare
    assert embedded(bare) == embedded(fragment(slalom_explanation()))


def test_verdict_cost_settings_and_notes():
    source = render(slalom_explanation(notes=("Mind the gap.",)))
    assert '<p class="badge fair"><b>A good guide</b> <span>Predicts 93 % of what' in source
    assert "512 queries" in source
    assert "<dt>effort</dt><dd>balanced</dd>" in source
    assert "<dt>design</dt><dd>&quot;short&quot;: 9</dd>" in source
    assert "Mind the gap." in source


def test_the_table_holds_the_strongest_with_their_errors():
    explanation = slalom_explanation(words(TOP + 5))
    source = fragment(explanation)
    assert len(Page(source).having("tr")) == 1 + TOP
    assert f"The {TOP} strongest of {TOP + 5} tokens" in source
    first = int(np.argmax(np.abs(explanation.share)))
    assert f'<td class="number place">{first}</td><td><bdi>word{first}</bdi></td>' in source
    assert "<small>±0.12</small>" in source
    assert len(Page(fragment(slalom_explanation())).having("tr")) == 1 + 10


def test_methods_with_one_score_say_what_they_lack():
    source = render(single_score())
    assert "does not measure" in source
    one = embedded(source)["classes"][0]
    assert (one["surrogate"], one["added"], one["errors"]) == (None, "attribution", {})


def test_numbers_that_json_lacks():
    surrogate = Slalom(np.zeros(3), np.zeros(3))
    source = fragment(slalom_explanation(tokens=tokens_of("a b c"), surrogate=surrogate))
    assert embedded(source)["classes"][0]["surrogate"]["parts"][0]["background_importance"] == "-inf"


def test_cut_text_is_deleted():
    tokens = replace(tokens_of("one two"), text="one two three", cut=8)
    assert "<del>three</del>" in fragment(slalom_explanation(tokens=tokens))


def test_tokens_that_share_characters_are_one():
    tokens = replace(tokens_of("a b c"), text="a 👍", spans=np.array([[0, 1], [2, 3], [2, 3]]))
    found = embedded(fragment(slalom_explanation(tokens=tokens)))
    assert found["runs"] == [[0], [1, 2]]
    assert found["places"] == [0, 1, 2]


def test_other_classes_can_be_read_and_chosen():
    both = slalom_explanation(classes={"positive": slalom_explanation(target="positive", output=-2.25)})
    source = fragment(both)
    strongest = both.top(1)[0][0]
    assert f"<li><b><bdi>positive</bdi></b>: <bdi>{strongest}</bdi> " in source
    assert [one["target"] for one in embedded(source)["classes"]] == ["negative", "positive"]
    assert [one["output"] for one in embedded(source)["classes"]] == [2.25, -2.25]


def test_many_labels_are_counted():
    labels = tuple(f"label {i}" for i in range(12))
    source = fragment(slalom_explanation(labels=labels, probabilities=np.full(12, 1 / 12), target="label 0"))
    assert "and 7 more labels" in source


def test_probabilities_are_shown_only_where_the_score_is_their_log_odds():
    odds = [
        embedded(fragment(slalom_explanation(output=output)))["classes"][0]["odds"]
        for output in (np.log(9.0), 2.25)
    ]
    assert odds == [True, False]


def many_classes(text: str, count: int) -> Explanation:
    labels = ("negative", *(f"label {i}" for i in range(count)))
    known = {"labels": labels, "probabilities": np.full(len(labels), 1 / len(labels))}
    others = {label: slalom_explanation(text, target=label, **known) for label in labels[1:]}
    return slalom_explanation(text, classes=others, **known)


@pytest.mark.parametrize(
    "explanation",
    [
        pytest.param(lambda: slalom_explanation(words(500)), id="500 tokens"),
        pytest.param(lambda: slalom_explanation(words(10_000)), id="10 000 tokens"),
        pytest.param(lambda: slalom_explanation("я люблю " * 5_000), id="10 000 tokens, wide letters"),
        pytest.param(lambda: many_classes(words(200), 20), id="20 classes"),
    ],
)
def test_a_page_stays_below_its_limit(explanation: Any):
    made: Explanation = explanation()
    source = render(made)
    assert len(source.encode()) < LIMIT
    assert text_of(source) == made.text
    found = embedded(source)
    assert ("A long text" in source) == (len(found["places"]) < len(made))
    strongest = int(np.argmax(np.abs(made.share)))
    assert strongest in found["places"]
    assert len(found["places"]) >= min(len(made), 80)


def test_every_token_has_its_own_string_and_a_type_all_of_them():
    tokens = one_sign("The the 😍 😭 the")
    found = embedded(render(slalom_explanation(tokens=tokens)))
    own = [found["own"].get(str(unit), found["names"][kind]) for unit, kind in enumerate(found["types"])]
    assert own == list(tokens.strings)
    assert found["names"] == ["The / the / 😍 / …"]


def test_scores_without_a_sign_have_their_own_words_and_colours():
    page = fragment(attention_like("a b c"), assets=False)
    assert "speaks for" not in page
    assert "“alpha_avg” does not say for or against what." in page
    assert re.findall(r'<span class="(t s a\d+|t)">([abc])', page) == [
        ("t", "a"),
        ("t s a5", "b"),
        ("t s a10", "c"),
    ]
    assert re.search(r'<rect class="[pn]"', page) is None
    assert '<td class="number">1.00</td>' in page
    assert embedded(page)["classes"][0]["unsigned"] == ["alpha_avg"]


def test_very_small_scores_have_a_power_of_ten():
    page = fragment(single_score("a b c", scores={"attribution": np.array([2e-8, -1e-8, 0.0])}), assets=False)
    assert "attribution ×10⁻⁸</th>" in page
    assert re.findall(r'<td class="number">([^<]*)', page) == ["+2.00", "−1.00", "0.00"]
    one = embedded(page)["classes"][0]
    assert (one["powers"], one["decimals"]) == ({"attribution": -8}, {"attribution": 2})
    assert one["scores"]["attribution"] == [2e-8, -1e-8, 0.0]


def test_notes_stand_above_the_text():
    page = fragment(slalom_explanation(notes=("Most tokens are unknown.",)), assets=False)
    assert page.index("Most tokens are unknown.") < page.index("The text</h3>")
