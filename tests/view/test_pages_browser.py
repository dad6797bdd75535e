"""Every page in a real browser, wide and narrow, light and dark, for texts of all sorts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

import slalom
from all_sorts import KINDS, made
from browser import Seen, chromium, findings, in_every_look, sideways, watched
from slalom.audit.global_slalom import fit_global
from slalom.audit.report import global_report
from slalom.cli import app
from slalom.compare import Compared, Predicted, compare
from slalom.explanation import Explanation
from slalom.explanations import Explanations
from slalom.view import compare_html, tables_html
from slalom.view.html import render
from slalom.view.tables import Context, Report, Section, ShownDocument, TokenTable, order

WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def opened(browser: Browser, tmp_path: Path, source: str, **context: Any) -> Iterator[Page]:
    file = tmp_path / "page.html"
    file.write_text(source, encoding="utf-8")
    with watched(browser, **context) as (page, seen):
        page.goto(file.as_uri())
        yield page
        assert seen == Seen()


def side_by_side(explanation: Explanation) -> str:
    """The page of several methods; what they say is made up."""
    sizes = {name: np.abs(scores) for name, scores in explanation.scores.items()}
    unsigned = replace(explanation, method="attention", scores=sizes, unsigned=tuple(sizes), classes={})
    by_value = replace(explanation, method="linear", ranking="value", classes={})
    found = Compared({"slalom": explanation, "linear": by_value, "attention": unsigned, "gradient": "no"})
    found.predicted = Predicted(32, {"slalom": 0.9, "linear": 0.5, "attention": 0.1}, ("slalom",))
    return compare_html.render(found)


def of_a_corpus(explanation: Explanation) -> str:
    """The page of a corpus that has this text again and again."""
    found = explanation.shown
    text, strings = found.text, [*dict.fromkeys(found.tokens.strings)]
    first = {string: found.tokens.strings.index(string) for string in strings}
    scores = {name: np.array([found.scores[name][first[s]] for s in strings]) for name in found.scores}
    ranked = order(scores[found.ranking], np.full(len(strings), 1e-3), np.full(len(strings), 9))
    table = TokenTable(
        label=found.target,
        about="9 documents",
        size=9,
        ranking=found.ranking,
        tokens=tuple(strings[i] for i in ranked),
        documents=np.full(len(strings), 9),
        occurrences=np.full(len(strings), 12),
        scores={name: values[ranked] for name, values in scores.items()},
        stderr={name: np.full(len(strings), 1e-3) for name in scores},
        opposite=np.full(len(strings), 0.2),
    )
    words = tuple(zip(found.tokens.strings, found.score().tolist(), strict=True))
    contexts = {("", s): (Context(text[:40], s, text[-40:], "document 3", 3),) for s in strings}
    doubts = Section("Where not to trust it", ("document", "why"), ((text[:80], "R² of 0.20"),), "A note.")
    report = Report(
        "a corpus",
        (("model", "bundled"), ("documents", "9")),
        (table,),
        (doubts,),
        ("Somebody should look at this.",),
        contexts,
        {3: ShownDocument("document 3", found.target, words)},
    )
    return tables_html.render(report)


def of_a_model(explanation: Explanation) -> str:
    """The page of a model over a corpus of this text's words; the model looks at their letters."""
    labels, words = list(explanation.labels), explanation.text.split()

    def letters(texts: list[str]) -> list[list[float]]:
        return [[sum(map(ord, text[place:])) % 7 - 3.0 for place, _ in enumerate(labels)] for text in texts]

    texts = [*words, *(" ".join(words[start : start + 8]) for start in range(0, len(words), 4))]
    fitted = fit_global(slalom.Explainer(letters, labels=labels), texts, queries=300)
    return tables_html.render(global_report(fitted, texts=lambda: texts))


PAGES = {
    "report": render,
    "methods": side_by_side,
    "corpus": of_a_corpus,
    "model": of_a_model,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_in_every_look_of_all_sorts_of_texts(
    browser: Browser, tmp_path: Path, kind: str, name: str
):
    found = made(kind)
    with opened(browser, tmp_path, PAGES[name](found), viewport=WIDE, bypass_csp=True) as page:
        if name == "report":
            _whole(page, found)
            assert _spare(page) < 60, "an empty block beside the plane"
            page.set_viewport_size(NARROW)  # type: ignore[arg-type]
            _whole(page, found)
            page.locator(".text .t").first.click()
            assert page.locator(".sheet").is_visible()
        _fine_in_every_look(page)


def test_a_list_of_texts_in_every_look(browser: Browser, tmp_path: Path):
    found = Explanations([made(kind) for kind in ("four classes", "Arabic", "pair", "7 tokens")])
    with opened(browser, tmp_path, found.to_html(), bypass_csp=True) as page:
        _fine_in_every_look(page)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for look in in_every_look(page):
            assert sideways(page) <= 0, look


def _fine_in_every_look(page: Page) -> None:
    """In no look anything is wider than the window, or axe has something to say."""
    page.evaluate("document.querySelectorAll('details').forEach((one, i) => { one.open ||= i < 3; })")
    for look in in_every_look(page):
        assert sideways(page) <= 0, look
        assert findings(page) == [], look


def _whole(page: Page, found: Explanation) -> None:
    """The whole text is there and is not scrolled, and so is the answer."""
    text = page.locator(".text")
    assert text.inner_text().split() == found.text.split()
    assert text.evaluate("box => getComputedStyle(box).overflowY") in ("visible", "hidden")
    assert page.locator(".answer").inner_text()


def test_marks_are_shown_quietly(browser: Browser, tmp_path: Path):
    found = made("emoji").shown
    mark = found.tokens.strings.index("!!!" if "!!!" in found.tokens.strings else "!")
    with opened(browser, tmp_path, render(found), viewport=WIDE) as page:
        quiet = page.locator("td .quiet").all_inner_texts()
        assert quiet
        assert set(quiet) == {s for s in found.tokens.strings if set(s) <= set("!.,")}
        assert found.tokens.strings[mark] in quiet
        names = page.locator(".plane .name").all_text_contents()  # SVG has no inner text
        assert "awful" in names
        assert not set(names) & set(quiet)
        assert page.locator(".plane .dot.mark").count() == len(set(quiet))


def _spare(page: Page) -> float:
    """How far the columns of the report end apart."""
    return page.evaluate("""() => {
        const bottom = (name) => document.querySelector(name).getBoundingClientRect().bottom;
        const tall = document.querySelector(".grid").classList.contains("tall");
        return tall ? Math.max(bottom(".side") - bottom(".words"), 0)
            : Math.abs(bottom(".side") - bottom(".whatif")); }""")


def test_a_long_text_is_folded_and_its_strongest_words_are_reached(browser: Browser, tmp_path: Path):
    found = made("500 tokens")
    with opened(browser, tmp_path, render(found), viewport=NARROW) as page:
        text = page.locator(".text")
        folded = text.bounding_box() or {}
        assert page.locator(".unfold").is_visible()
        words = page.locator(".strongest button")
        assert words.first.inner_text() == found.top(1)[0][0]
        assert words.count() == 8
        strongest = int(np.argmax(np.abs(found.share)))
        words.first.click()
        there = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
        assert 0 <= there["top"] < there["bottom"] <= NARROW["height"]
        assert page.evaluate("document.activeElement.textContent") == found.tokens.strings[strongest]
        if page.locator(".unfold").count():
            page.locator(".unfold").click()
        assert (text.bounding_box() or {})["height"] > folded["height"]


def test_a_tap_shows_its_numbers_on_a_phone(browser: Browser, tmp_path: Path):
    found = made("70 tokens").shown  # words, as the page has them
    place = found.tokens.strings.index("delicious")
    phone: Any = {"viewport": NARROW, "is_mobile": True, "has_touch": True}
    with opened(browser, tmp_path, render(found), **phone) as page:
        sheet = page.locator(".sheet")
        assert not sheet.is_visible()
        page.locator(".text .t").nth(place).tap()
        box = sheet.bounding_box() or {}
        assert box["y"] + box["height"] <= NARROW["height"] + 1
        told = sheet.inner_text()
        lines = told.splitlines()
        assert lines[0] == "delicious"
        assert float(lines[lines.index("share") + 1]) == pytest.approx(found.share[place], abs=0.005)
        kept = [i for i in range(len(found)) if i != place]
        assert f"{100 / (1 + np.exp(-found.predict(kept))):.1f} %" in told
        assert not page.get_by_role("tooltip").is_visible()
        sheet.get_by_role("button", name="Put back").tap()
        assert page.locator('.text [aria-pressed="true"]').count() == 0
        sheet.get_by_role("button", name="close").tap()
        assert not sheet.is_visible()


def test_what_if_of_four_classes_shows_probabilities(browser: Browser, tmp_path: Path):
    found = made("four classes")
    with opened(browser, tmp_path, render(found), viewport=WIDE) as page:
        chance = page.locator('[data-reading="surrogate"] [data-chance]')
        model = page.locator('[data-reading="model"] [data-chance]')
        target = found.labels.index(found.target)
        assert float(model.get_attribute("data-chance") or "nan") == pytest.approx(
            found.probabilities[target]
        )
        page.locator(".text .t").nth(1).click()
        kept = [i for i in range(len(found)) if i != 1]
        outputs = np.array([found.of(label).predict(kept) for label in found.labels])
        wanted = np.exp(outputs - outputs.max()) / np.exp(outputs - outputs.max()).sum()
        assert float(chance.get_attribute("data-chance") or "nan") == pytest.approx(wanted[target], abs=1e-9)


@pytest.fixture(scope="module")
def methods() -> str:
    names = ["slalom", "linear", "lime", "occlusion", "attention", "random"]
    options: Any = {"slalom": {"effort": "fast"}}
    return compare_html.render(
        compare(slalom.Explainer(), made("70 tokens").text, names, options=options, budget=200)
    )


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_methods_side_by_side_fit_the_page(browser: Browser, tmp_path: Path, methods: str, viewport: Any):
    with opened(browser, tmp_path, methods, viewport=viewport) as page:
        for table in page.locator("table").all():
            inside = table.evaluate("t => t.parentElement.scrollWidth - t.parentElement.clientWidth")
            assert inside <= 0, "a table that must be scrolled"
        assert page.locator(".nearest").is_visible() == (viewport is NARROW)
        numbers = page.locator(".square td span").first.evaluate("span => getComputedStyle(span).fontSize")
        assert (float(numbers.removesuffix("px")) >= 12) == (viewport is WIDE)


def test_an_evaluation_in_every_look(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"text": "the food was great but the service was awful", "label": "negative"}] * 2
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = ["evaluate", "--data", "rows.jsonl", "--methods", "occlusion,random", "--out", "results"]
    result = CliRunner().invoke(app, [*given, "--protocols", "deletion:step=1"])
    assert result.exit_code == 0, result.stderr
    source = next(Path("results").glob("*.html")).read_text(encoding="utf-8")
    with opened(browser, tmp_path, source, bypass_csp=True) as page:
        _fine_in_every_look(page)
