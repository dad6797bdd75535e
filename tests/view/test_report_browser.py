"""The report in a real browser: text and plane linked, what-if, keyboard, hostile texts, accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page

import slalom
from browser import Seen, chromium, watched
from handmade import attention_like, hostile_explanation, one_sign, single_score, slalom_explanation
from slalom.explanation import Explanation
from slalom.surrogate import Additive
from slalom.theory.planted import plant
from slalom.view.answer import pieces
from slalom.view.html import fragment, render

REVIEW = "The food was great but the service was awful, and the waiter was not nice."
MENU = "the food was great but service was awful and waiter was rude"
NEWS = "the match was won in extra time after the shares fell"
HOSTILE = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> \u202eevil\u202c \u200f "
    "עברית \x1b[31m 👩\u200d👩\u200d👧 👍🏽 javascript:alert(3) </script> <!-- x\u2028y"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def review() -> Explanation:
    return slalom.explain(REVIEW).shown


@pytest.fixture(scope="module")
def news() -> Explanation:
    """A planted SLALOM with three classes, explained for each of them."""
    words, rng = sorted(set(NEWS.split())), np.random.default_rng(3)
    model, tokenizer = plant(rng.normal(size=len(words)), 2 * rng.normal(size=(len(words), 3)), words)
    labels = ["sport", "business", "culture"]
    return slalom.Explainer(model, tokenizer, labels=labels)(NEWS, every_class=True)


@pytest.fixture(scope="module")
def planted() -> Explanation:
    """A planted SLALOM whose dots stand apart."""
    words = list(dict.fromkeys(MENU.split()))
    values, importances = np.linspace(-4, 4, len(words)), np.sin(np.arange(len(words)))
    return slalom.Explainer(*plant(importances, values, words))(MENU, target=1)


@contextmanager
def opened(
    browser: Browser, tmp_path: Path, source: Explanation | str, **context: Any
) -> Iterator[tuple[Page, Seen]]:
    file = tmp_path / "report.html"
    file.write_text(render(source) if isinstance(source, Explanation) else source, encoding="utf-8")
    with watched(browser, **context) as (page, seen):
        page.goto(file.as_uri())
        yield page, seen
        assert seen == Seen()


def token(page: Page, place: int) -> Locator:
    return page.locator(".text .t").nth(place)


def score(page: Page, row: str) -> float:
    return float(page.locator(f'[data-reading="{row}"] .score').get_attribute("data-score") or "nan")


def kept(explanation: Explanation, **counts: int) -> list[int]:
    """Positions of a text in which the named places stand so often (t3=0: token 3 is gone)."""
    every = np.ones(len(explanation), dtype=int)
    for name, count in counts.items():
        every[int(name[1:])] = count
    return np.repeat(np.arange(len(explanation)), every).tolist()


def place_of(explanation: Explanation, word: str) -> int:
    return explanation.tokens.strings.index(word)


def test_text_and_plane_are_linked_both_ways(browser: Browser, tmp_path: Path, planted: Explanation):
    awful, great = place_of(planted, "awful"), place_of(planted, "great")
    with opened(browser, tmp_path, planted) as (page, _):
        dots = page.locator(".plane .dot")
        assert dots.count() == planted.tokens.n_types
        token(page, awful).hover()
        lit = page.locator(".plane .dot.lit")
        assert lit.count() == 1
        kind = int(planted.tokens.inverse[awful])
        assert lit.get_attribute("data-type") == str(kind)
        assert page.locator(".plane .whisker").count() == 2
        assert page.locator(".tokens tr.lit bdi").all_inner_texts() == ["awful"]
        page.locator(f'.plane .dot[data-type="{planted.tokens.inverse[great]}"]').hover()
        assert page.locator(".text .t.lit").all_inner_texts() == ["great"]
        page.locator(f'.plane .dot[data-type="{kind}"]').click()
        page.mouse.move(1, 1)
        assert page.locator(".text .t.lit").count() == 0
        assert page.locator(".text .t.pinned").all_inner_texts() == ["awful"]
        assert page.locator(".whatif .acts b").inner_text() == "awful"
        page.locator(f'.plane .dot[data-type="{kind}"]').click()
        assert page.locator(".text .t.pinned").count() == 0


def test_a_dot_stands_for_all_its_copies(browser: Browser, tmp_path: Path, planted: Explanation):
    places = [i for i, word in enumerate(planted.tokens.strings) if word == "was"]
    assert len(places) == 3
    with opened(browser, tmp_path, planted) as (page, _):
        dot = page.locator(f'.plane .dot[data-type="{planted.tokens.inverse[places[0]]}"]')
        once = page.locator(f'.plane .dot[data-type="{planted.tokens.inverse[place_of(planted, "awful")]}"]')
        size = [float(circle.get_attribute("r") or "nan") ** 2 for circle in (dot, once)]
        assert size[0] == pytest.approx(3 * size[1])
        dot.click()
        assert page.locator(".text .t.pinned").count() == 3
        assert page.locator(".plane .ghost").count() == 3
        page.get_by_role("button", name="Leave out").click()
        gone = kept(planted, **{f"t{i}": 0 for i in places})
        assert score(page, "surrogate") == pytest.approx(planted.predict(gone), abs=1e-9)
        assert "gone" in (dot.get_attribute("class") or "").split()


def test_tooltips_by_hover_and_by_focus(browser: Browser, tmp_path: Path, review: Explanation):
    place = place_of(review, "awful")
    with opened(browser, tmp_path, review) as (page, _):
        tip = page.get_by_role("tooltip")
        assert not tip.is_visible()
        for show in (token(page, place).hover, token(page, place).focus):
            show()
            told = tip.inner_text().split()
            assert told[:3] == ["awful", "word", str(place)]
            for name in ("share", "value", "importance", "removal"):
                at = told.index(name)
                shown = float(told[at + 1].replace("−", "-"))
                assert shown == pytest.approx(review.score(name)[place], abs=0.0051)
                assert told[at + 2].startswith("±")
            assert token(page, place).get_attribute("aria-describedby") == tip.get_attribute("id")
            page.mouse.move(1, 1)
            page.keyboard.press("Escape")
            assert not tip.is_visible()


def test_what_if_equals_python(browser: Browser, tmp_path: Path, review: Explanation):
    awful, great = place_of(review, "awful"), place_of(review, "great")
    with opened(browser, tmp_path, review) as (page, _):
        assert score(page, "surrogate") == pytest.approx(review.predict(kept(review)), abs=1e-9)
        assert score(page, "added") == score(page, "model") == review.output
        token(page, awful).click()
        assert token(page, awful).get_attribute("aria-pressed") == "true"
        assert score(page, "surrogate") == pytest.approx(
            review.predict(kept(review, **{f"t{awful}": 0})), abs=1e-9
        )
        assert score(page, "added") == pytest.approx(review.output - review.share[awful], abs=1e-9)
        assert review.measured
        assert "measured" in page.locator('[data-reading="model"]').inner_text()
        assert score(page, "model") == pytest.approx(review.output - review.removal[awful], abs=1e-9)
        token(page, great).focus()
        page.keyboard.press("+")
        page.keyboard.press("+")
        counts = {f"t{awful}": 0, f"t{great}": 3}
        assert token(page, great).get_attribute("data-n") == "3"
        assert "not asked" in page.locator('[data-reading="model"]').inner_text()
        assert score(page, "surrogate") == pytest.approx(review.predict(kept(review, **counts)), abs=1e-9)
        added = review.output - review.share[awful] + 2 * review.share[great]
        assert score(page, "added") == pytest.approx(added, abs=1e-9)
        token(page, awful).click()
        page.get_by_role("button", name="Put everything back").click()
        assert score(page, "surrogate") == pytest.approx(review.predict(kept(review)), abs=1e-9)


def test_random_changes_equal_python(browser: Browser, tmp_path: Path, review: Explanation):
    rng = np.random.default_rng(0)
    with opened(browser, tmp_path, review) as (page, _):
        counts = np.ones(len(review), dtype=int)
        for place in rng.integers(len(review), size=12).tolist():
            token(page, place).click()
            counts[place] = 1 - counts[place]
            wanted = review.predict(np.repeat(np.arange(len(review)), counts))
            assert score(page, "surrogate") == pytest.approx(wanted, abs=1e-9)


def test_every_class_can_be_chosen(browser: Browser, tmp_path: Path, news: Explanation):
    with opened(browser, tmp_path, news) as (page, _):
        token(page, 1).click()
        for label in ("culture", "sport", "business"):
            page.get_by_label("Explain").select_option(label=label)
            one = news.of(label)
            assert page.locator("h2").inner_text() == f"Why {label}?"
            quoted = page.locator(".answer q").all_inner_texts()
            assert quoted == [piece.text for piece in pieces(one, news) if piece.quoted]
            assert page.locator(".answer").inner_text().startswith(pieces(one, news)[0].text)
            assert "score" not in page.locator(".answer").inner_text(), (
                "probabilities of all labels are known"
            )
            assert score(page, "surrogate") == pytest.approx(one.predict(kept(one, t1=0)), abs=1e-9)
            signs = ["n" if x < 0 else "p" for x in one.share]
            shown = page.locator(".text .t").evaluate_all("spans => spans.map(s => s.className.split(' '))")
            wrong = {"n": "p", "p": "n"}
            assert all(wrong[sign] not in kinds for sign, kinds in zip(signs, shown, strict=True))
            strongest = max(range(len(one)), key=lambda i: abs(one.share[i]))
            assert "a10" in shown[strongest]


def test_every_score_can_be_chosen(browser: Browser, tmp_path: Path, review: Explanation):
    with opened(browser, tmp_path, review) as (page, _):
        for name in ("value", "importance", "removal", "shapley", "share"):
            page.get_by_label(name, exact=True).check(force=True)
            scores = review.score(name)
            top = int(np.argmax(scores if name == "importance" else np.abs(scores)))
            kind = "s" if name == "importance" else "n" if scores[top] < 0 else "p"
            assert {kind, "a10"} <= set((token(page, top).get_attribute("class") or "").split())
            assert page.locator(".tokens tbody bdi").first.inner_text() == review.tokens.strings[top]
            assert f"by {name}" in page.locator(".tokens h3").inner_text()
        page.get_by_role("button", name="Show all").click()
        assert page.locator(".tokens tbody tr").count() == len(review)


def test_the_keyboard_reaches_everything(browser: Browser, tmp_path: Path, review: Explanation):
    focused = "document.activeElement.textContent"
    with opened(browser, tmp_path, review) as (page, _):
        page.locator(".choice input").first.focus()
        page.keyboard.press("ArrowRight")
        assert "by value" in page.locator(".tokens h3").inner_text()
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "The"
        for press, there in [
            ("ArrowRight", 1),
            ("End", -1),
            ("Home", 0),
            ("ArrowLeft", 0),
            ("ArrowRight", 1),
        ]:
            page.keyboard.press(press)
            assert page.evaluate(focused) == review.tokens.strings[there]
        page.keyboard.press("ArrowDown")
        below = page.evaluate("document.activeElement.getBoundingClientRect().top")
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") < below
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
        wanted = review.predict(kept(review, t0=0, t1=0))
        assert score(page, "surrogate") == pytest.approx(wanted, abs=1e-9)
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "Put everything back"
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(focused) == review.tokens.strings[1]
        page.keyboard.press("Escape")
        assert page.locator(".text .t.pinned").count() == 0
        page.keyboard.press("Escape")
        assert page.locator('.text .t[aria-pressed="true"]').count() == 0
        assert score(page, "surrogate") == pytest.approx(review.predict(kept(review)), abs=1e-9)


def test_a_server_can_answer_for_the_model(browser: Browser, tmp_path: Path, review: Explanation):
    listen = """document.addEventListener("slalom:whatif", (event) => {
        event.preventDefault(); window.asked = event.detail; window.root = event.target; })"""
    answer = "d => window.root.dispatchEvent(new CustomEvent('slalom:model', {detail: d}))"
    row = '[data-reading="model"]'
    with opened(browser, tmp_path, review) as (page, _):
        page.evaluate(listen)
        token(page, 3).click()
        asked = page.evaluate("window.asked")
        assert asked["kept"] == kept(review, t3=0)
        assert asked["counts"][:5] == [1, 1, 1, 0, 1]
        assert (asked["target"], asked["changed"]) == (review.target, True)
        assert "asking…" in page.locator(row).inner_text()
        page.evaluate(answer, {"id": asked["id"] - 1, "score": 99.0})
        assert "asking…" in page.locator(row).inner_text()
        page.evaluate(answer, {"id": asked["id"], "score": -1.25})
        assert score(page, "model") == -1.25
        assert "−1.25" in page.locator(row).inner_text()
        token(page, 3).click()
        assert page.evaluate("window.asked.changed") is False
        assert score(page, "model") == review.output
        token(page, 4).click()
        page.evaluate(answer, {"id": asked["id"] + 2, "error": "the server is busy"})
        assert "the server is busy" in page.locator(row).inner_text()


def test_methods_without_a_slalom_degrade(browser: Browser, tmp_path: Path):
    alone = single_score()
    with opened(browser, tmp_path, alone) as (page, _):
        assert not page.locator(".plane").is_visible()
        assert page.locator('[data-reading="surrogate"]').count() == 0
        token(page, 0).click()
        assert score(page, "added") == pytest.approx(alone.output - alone.score()[0], abs=1e-9)
    weights = np.linspace(-1, 1, len(alone))
    linear = single_score(method="linear", surrogate=Additive(weights, np.array([0.5])))
    with opened(browser, tmp_path, linear) as (page, _):
        token(page, 0).click()
        assert score(page, "surrogate") == pytest.approx(linear.predict(kept(linear, t0=0)), abs=1e-9)
        assert page.locator('[data-reading="added"]').count() == 0


def test_a_text_of_which_nothing_is_left_has_no_value(browser: Browser, tmp_path: Path, news: Explanation):
    with opened(browser, tmp_path, news) as (page, _):
        for place in range(len(news)):
            token(page, place).click()
        assert "no value for an empty text" in page.locator('[data-reading="surrogate"]').inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_text_is_inert_and_readable(browser: Browser, tmp_path: Path, scheme: Any):
    explanation = hostile_explanation(HOSTILE)
    with opened(browser, tmp_path, explanation, color_scheme=scheme) as (page, _):
        shown = page.locator(".text").inner_text()
        assert "<img src=x onerror=alert(1)>" in shown
        assert "⟨U+202E⟩evil⟨U+202C⟩" in shown
        assert "␛[31m" in shown
        assert "👩\u200d👩\u200d👧" in shown
        assert "x⟨U+2028⟩y" in shown
        assert page.locator("img").count() == 0
        for place in range(len(explanation)):
            token(page, place).hover()
            token(page, place).click()
        page.locator(".tokens tbody tr").first.click()


def test_ten_thousand_tokens(browser: Browser, tmp_path: Path):
    rng = np.random.default_rng(5)
    text = " ".join(f"word{i}" for i in rng.zipf(1.3, size=10_000) % 3_000)
    explanation = slalom_explanation(text)
    with opened(browser, tmp_path, explanation) as (page, _):
        assert (tmp_path / "report.html").stat().st_size < 300_000
        assert page.locator(".text").inner_text() == text
        first = int(page.evaluate("JSON.parse(document.querySelector('[type*=json]').textContent).places[0]"))
        token(page, 0).click()
        wanted = explanation.predict(kept(explanation, **{f"t{first}": 0}))
        assert score(page, "surrogate") == pytest.approx(wanted, abs=1e-9)
        seconds = """() => { const start = performance.now(); document.querySelector(".text .t").click();
            return (performance.now() - start) / 1000; }"""
        assert page.evaluate(seconds) < 1
        assert page.locator(".plane .name").count() <= 41


def boxes(page: Page) -> list[dict[str, float]]:
    return page.locator(".plane .name").evaluate_all(
        """names => names.map(name => name.getBBox()).map(
            ({x, y, width, height}) => ({l: x, r: x + width, t: y, b: y + height}))"""
    )


def test_names_in_the_plane_do_not_collide(browser: Browser, tmp_path: Path):
    with opened(browser, tmp_path, slalom_explanation(" ".join(f"word{i}" for i in range(120)))) as (page, _):
        found = boxes(page)
        assert 5 < len(found) <= 40
        for i, a in enumerate(found):
            for b in found[:i]:
                across = min(a["r"], b["r"]) - max(a["l"], b["l"])
                along = min(a["b"], b["b"]) - max(a["t"], b["t"])
                assert across < 2 or along < 3  # line boxes are a little taller than their letters


def test_dark_mode_is_dark(browser: Browser, tmp_path: Path, review: Explanation):
    lightness = """() => { const c = getComputedStyle(document.body);
        return [c.backgroundColor, c.color].map(x => x.match(/\\d+/g).reduce((a, b) => a + +b, 0)); }"""
    with opened(browser, tmp_path, review) as (page, _):
        for scheme, dark in (("light", False), ("dark", True)):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            ground, ink = page.evaluate(lightness)
            assert (ground < ink) == dark
            assert abs(ground - ink) > 500


def test_a_phone_does_not_scroll_sideways(browser: Browser, tmp_path: Path, review: Explanation):
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
    with opened(browser, tmp_path, review, **phone) as (page, _):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        token(page, place_of(review, "awful")).tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert token(page, place_of(review, "awful")).get_attribute("aria-pressed") == "true"


def test_print_shows_the_whole_text_and_no_controls(browser: Browser, tmp_path: Path, review: Explanation):
    with opened(browser, tmp_path, review) as (page, _):
        page.emulate_media(media="print")
        assert not page.locator(".tools").is_visible()
        assert page.locator(".text").evaluate("t => getComputedStyle(t).maxHeight") == "none"
        assert page.locator(".plane svg").is_visible()


def test_it_can_be_read_without_a_script(browser: Browser, tmp_path: Path, news: Explanation):
    with opened(browser, tmp_path, news, java_script_enabled=False) as (page, _):
        assert page.locator(".text").inner_text() == NEWS
        assert page.locator(".text .t.a10").count() > 0
        assert page.locator(".tokens tbody tr").count() == len(news)
        assert page.locator(".others li").count() == 2
        assert not page.locator(".whatif").is_visible()


def test_several_fragments_share_a_page(
    browser: Browser, tmp_path: Path, review: Explanation, news: Explanation
):
    source = f"<!doctype html><body>{fragment(review)}{fragment(news)}{fragment(review, assets=False)}</body>"
    with opened(browser, tmp_path, source) as (page, _):
        page.evaluate("slalom.upgrade(document.body)")
        roots = page.locator(".slalom-explanation")
        assert roots.count() == 3
        roots.nth(1).locator(".text .t").nth(1).click()
        pressed = [root.locator('[aria-pressed="true"]').count() for root in roots.all()]
        assert pressed == [0, 1, 0]
        roots.nth(0).get_by_label("value", exact=True).check(force=True)
        checked = [root.locator(".choice input:checked").get_attribute("value") for root in roots.all()]
        assert checked == ["value", "share", "share"]
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(set(ids)) == len(ids)


def test_the_table_names_each_token_as_it_stands_in_the_text(browser: Browser, tmp_path: Path):
    found = slalom.explain("I love this 😍🔥 but the ending 😭💀 was awful!!!", budget=60)
    with opened(browser, tmp_path, found) as (page, _):
        rows = page.locator(".tokens tbody tr")
        named = {
            int(row.locator(".place").inner_text()): row.locator("bdi").inner_text() for row in rows.all()
        }
        assert named == dict(enumerate(found.tokens))
        place = found.tokens.strings.index("😭💀")
        token(page, place).hover()
        assert page.get_by_role("tooltip").inner_text().startswith("😭💀")
        token(page, place).click()
        assert page.locator(".whatif .acts b").inner_text() == "😭💀"


def test_ten_words_that_the_model_does_not_know(browser: Browser, tmp_path: Path):
    tokens = one_sign("كان الطعام رائعا لكن الخدمة سيئة جدا ولن أعود أبدا")
    with opened(browser, tmp_path, slalom_explanation(tokens=tokens)) as (page, _):
        assert sorted(page.locator(".tokens tbody bdi").all_inner_texts()) == sorted(tokens.strings)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_scores_without_a_sign_are_violet(browser: Browser, tmp_path: Path, scheme: Any):
    with opened(browser, tmp_path, attention_like("a b c"), color_scheme=scheme) as (page, _):
        assert [
            name.split()[1:]
            for name in page.locator(".text .t").evaluate_all("all => all.map(t => t.className)")
        ] == [
            [],
            ["s", "a5"],
            ["s", "a10"],
        ]
        assert page.locator(".tokens rect.s").count() == 3
        assert "speaks for" not in page.locator(".slalom-explanation").inner_text()
        assert "does not say for or against what" in page.locator(".legend").inner_text()
        assert page.locator('[data-reading="added"]').count() == 0
        assert page.locator(".tokens tbody td.number").last.inner_text() == "0.00"


def test_very_small_scores_have_a_power_of_ten(browser: Browser, tmp_path: Path):
    small = single_score("a b c", scores={"attribution": np.array([2e-8, -1e-8, 0.0])})
    with opened(browser, tmp_path, small) as (page, _):
        assert page.locator(".tokens thead th").last.inner_text() == "attribution ×10⁻⁸"
        assert page.locator(".tokens tbody td:last-child").all_inner_texts() == ["+2.00", "−1.00", "0.00"]
        token(page, 0).hover()
        assert "×10⁻⁸ +2.00" in " ".join(page.get_by_role("tooltip").inner_text().split())


def test_types_are_listed_once_and_labels_have_bars_of_one_scale(browser: Browser, tmp_path: Path):
    by_type = slalom_explanation("so so good so bad good", settings={"granularity": "types"})
    with opened(browser, tmp_path, by_type) as (page, _):
        assert page.locator(".tokens h3").inner_text() == "Token types by share, strongest first"
        assert sorted(page.locator(".tokens tbody bdi").all_inner_texts()) == ["bad", "good", "so"]
        page.get_by_label("value", exact=True).check(force=True)
        assert page.locator(".tokens tbody tr").count() == 3
    known = {"labels": tuple("abcd"), "probabilities": np.array([0.6, 0.2, 0.1, 0.1]), "target": "a"}
    for width in (1400, 390):
        with opened(
            browser, tmp_path, slalom_explanation(**known), viewport={"width": width, "height": 900}
        ) as (page, _):
            wide = page.locator(".labels svg").evaluate_all(
                "all => all.map(bar => Math.round(bar.getBoundingClientRect().width))"
            )
            assert len(set(wide)) == 1
