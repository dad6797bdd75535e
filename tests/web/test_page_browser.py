from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from all_sorts import KINDS, made
from browser import chromium, findings, in_every_look, sideways, watched
from serving import Slow, ended, served, until
from slalom import Explainer
from slalom.compare import Compared
from slalom.perturb import from_rows
from slalom.web import Limits, create_app, executor
from slalom.web.tasks import document

TEXT = "The food was great but the service was awful, and the waiter never came back."
HOSTILE = "<img src=x onerror=alert(1)> \u202egreat\u202c 👩‍👩‍👧 </script><script>alert(2)</script> & awful"
WORDS = "one two three four five six seven eight nine ten"
ROUNDING = 1e-4
"""Of a score, in float32."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as given:
        yield given


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


@pytest.fixture(scope="module")
def address(explainer: Explainer) -> Iterator[str]:
    with served(create_app({"bundled": explainer.model, "lengths": Slow().model()})) as given:
        yield given


def ready(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#go")).to_be_enabled()
    expect(page.locator("#target option")).not_to_have_count(1)


def explain(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("#go")
    expect(page.locator("#status")).to_have_text(re.compile("^Explained"))
    expect(page.locator("#explanation .slalom-explanation[data-ready]")).to_be_visible()


def true_score(explainer: Explainer, text: str, counts: list[int]) -> float:
    """The log-odds of the second label, from the model itself."""
    tokens = explainer.model.tokenize(text)
    queries = from_rows([np.repeat(np.arange(len(tokens)), counts)], len(tokens))
    logits = explainer.model.logits(tokens, queries)
    return float(logits[0, 1] - logits[0, 0])


def shown(place: Locator) -> float:
    """The score at this place of the page."""
    return float(place.get_attribute("data-score") or "nan")


def test_the_whole_way(browser: Browser, address: str, explainer: Explainer):
    with watched(browser, viewport={"width": 1200, "height": 900}) as (page, seen):
        ready(page, address)
        assert page.locator("#target option").all_inner_texts() == ["as predicted", *explainer.labels]
        page.select_option("#target", "positive")
        explain(page, TEXT)
        wanted = explainer(TEXT, target="positive")
        strongest = page.locator("#explanation .text .t.a10").first
        assert strongest.inner_text() == wanted.top(1)[0][0]
        expect(page.locator("#explanation .head h2")).to_have_text("Why positive?")

        great = wanted.tokens.strings.index("great")
        counts = [1] * len(wanted)
        word = page.locator("#explanation .text .t", has_text=re.compile("^great$"))
        model = page.locator('#explanation tr[data-reading="model"] td.score')
        assert shown(model) == pytest.approx(wanted.output, abs=ROUNDING)
        for count, key in ((0, "Enter"), (1, "Enter"), (2, "+")):
            counts[great] = count
            word.focus()
            page.keyboard.press(key)
            score = true_score(explainer, TEXT, counts)
            until(lambda: shown(model) == pytest.approx(score, abs=ROUNDING))  # noqa: B023
        assert true_score(explainer, TEXT, counts) != pytest.approx(wanted.output, abs=1e-3)

        with page.context.expect_page() as opened:
            page.click("#report")
        report = opened.value
        expect(report.locator(".slalom-explanation[data-ready] .head h2")).to_have_text("Why positive?")
        report.close()

        ready(page, address)
        entry = page.locator("#past-list .open")
        expect(entry).to_have_count(1)
        expect(entry.locator(".words")).to_have_text(TEXT)
        entry.click()
        expect(page.locator("#explanation .head h2")).to_have_text("Why positive?")
        assert page.input_value("#text") == TEXT
        assert page.input_value("#target") == "positive"
        page.click("#clear")
        expect(entry).to_have_count(0)
        assert page.evaluate("localStorage.getItem('slalom.history')") is None
    assert seen.errors == []
    assert all(url.startswith(address) for url in seen.requests)


def test_the_page_begins_with_an_explained_example(browser: Browser, address: str, explainer: Explainer):
    with watched(browser, viewport={"width": 390, "height": 800}) as (page, seen):
        page.goto(address)
        expect(page.locator("#status")).to_have_text(re.compile("^An example"))
        expect(page.locator("#explanation .slalom-explanation[data-ready]")).to_be_visible()
        assert page.input_value("#text") == TEXT
        wanted = explainer(TEXT)
        expect(page.locator("#explanation .head h2")).to_have_text(f"Why {wanted.target}?")
        assert page.locator("#past-list li").count() == 0
        great = wanted.tokens.strings.index("great")
        page.locator("#explanation .text .t").nth(great).click()
        counts = [int(i != great) for i in range(len(wanted))]
        score = true_score(explainer, TEXT, counts) * (1 if wanted.target == "positive" else -1)
        model = page.locator('#explanation tr[data-reading="model"] td.score')
        until(lambda: shown(model) == pytest.approx(score, abs=ROUNDING))
        expect(page.locator("#explanation .sheet")).to_contain_text(f"{100 / (1 + np.exp(-score)):.1f} %")
    assert seen.errors == []


def test_an_example_that_comes_late_is_not_in_the_way(browser: Browser, address: str):
    with watched(browser) as (page, seen):
        ready(page, address)
        page.select_option("#model", "lengths")
        page.select_option("#method", "occlusion")
        explain(page, WORDS)
        held: list[Route] = []
        page.route("**/reports/example/fragment", lambda route: held.append(route))
        page.reload()
        until(lambda: bool(page.evaluate("true") and held))
        page.locator("#past-list .open").click()
        text = page.locator("#explanation .text")
        expect(text).to_have_text(WORDS)
        with page.expect_response("**/reports/example/fragment"):
            held[0].continue_()
        page.evaluate("fetch('healthz').then((response) => response.text())")  # later than the example
        expect(text).to_have_text(WORDS)
        assert page.input_value("#text") == WORDS
    assert seen.errors == []


def test_methods_are_compared_in_the_page(browser: Browser, address: str):
    with watched(browser) as (page, seen):
        ready(page, address)
        page.select_option("#model", "lengths")
        page.fill("#text", "one two three four five six seven")
        page.fill("#budget", "70")
        page.click("#compare")
        expect(page.locator("#status")).to_have_text(re.compile(r"^Compared \d+ methods\."))
        expect(page.locator("#explanation .league tbody tr")).not_to_have_count(0)
        assert "not run" in page.locator("#explanation").inner_text()  # a function has no gradients
        with page.context.expect_page() as opened:
            page.click("#report")
        expect(opened.value.locator("h1")).to_contain_text("methods side by side")
        opened.value.close()
    assert seen.errors == []


def test_the_api_is_described_on_a_page(browser: Browser, address: str):
    with watched(browser, bypass_csp=True) as (page, seen):
        page.goto(f"{address}/docs")
        said = page.locator("main").inner_text()
        for path in ("POST /api/explain", "POST /api/compare", "POST /api/predict", "GET /api/models/{name}"):
            assert path in said
        assert "One score for each position" in said
        fine_in_every_look(page)
    assert seen.errors == []
    assert all(url.startswith(address) for url in seen.requests)


def fine_in_every_look(page: Page, without: tuple[str, ...] = ()) -> None:
    for look in in_every_look(page):
        assert sideways(page) <= 0, look
        assert findings(page, without) == [], look


def test_progress_is_shown_and_can_be_cancelled(browser: Browser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executor, "CHUNK", 500)
    slow = Slow(0.05)
    app = create_app({"slow": slow.model()})
    with served(app) as address, watched(browser) as (page, seen):
        ready(page, address)
        page.fill("#text", WORDS)
        page.fill("#budget", "8000")
        page.click("#go")
        expect(page.locator("#status")).to_have_text(re.compile(r"asking the model … [\d,]+ queries"))
        expect(page.locator("#bar")).to_be_visible()
        assert page.locator("#go").is_disabled()
        page.click("#cancel")
        expect(page.locator("#status")).to_have_text("Cancelled.")
        expect(page.locator("#go")).to_be_enabled()
        until(lambda: ended(app))
        assert slow.texts < 8000
        assert page.locator("#past-list li").count() == 0

        before = slow.texts
        page.click("#go")
        until(lambda: slow.texts > before + 100)
        page.close()
        until(lambda: ended(app))
        assert slow.texts < before + 8000
    assert seen.errors == []


def test_a_hostile_text_is_inert(browser: Browser, address: str):
    with watched(browser) as (page, seen):
        ready(page, address)
        page.select_option("#model", "lengths")
        page.select_option("#method", "occlusion")
        assert page.locator("#effort").is_disabled()
        explain(page, HOSTILE)
        assert page.locator("#explanation img, #past img").count() == 0
        assert page.locator("#past-list .words").text_content() == HOSTILE
        assert "onerror" in page.locator("#explanation .text").inner_text()
        page.reload()
        expect(page.locator("#past-list .words")).to_have_text(HOSTILE)
    assert seen.errors == []
    assert all(url.startswith(address) for url in seen.requests)


def test_errors_are_said_in_the_page(browser: Browser, address: str):
    with watched(browser) as (page, _):
        ready(page, address)
        page.fill("#text", TEXT)
        page.fill("#budget", "2")
        page.click("#go")
        expect(page.locator("#error")).to_have_text(re.compile("needs at least 3 queries; the budget is 2"))
        page.select_option("#model", "lengths")
        page.fill("#budget", "")
        page.select_option("#method", "gradient")
        page.click("#go")
        expect(page.locator("#error")).to_have_text(re.compile("needs the gradients of a torch model"))
        page.select_option("#method", "occlusion")
        page.click("#go")
        expect(page.locator("#status")).to_have_text(re.compile("^Explained"))
        expect(page.locator("#error")).to_be_hidden()


def test_a_report_that_is_gone_can_be_made_again(browser: Browser):
    app = create_app({"lengths": Slow().model()}, limits=Limits(reports=1))
    with served(app) as address, watched(browser) as (page, _):
        ready(page, address)
        explain(page, "the first text")
        explain(page, "the second text")
        page.locator("#past-list .open").nth(1).click()
        expect(page.locator("#status")).to_contain_text("no longer has this report")
        page.keyboard.press("Enter")  # the focus is on Explain
        expect(page.locator("#status")).to_have_text(re.compile("^Explained"))
        expect(page.locator("#past-list .open")).to_have_count(3)
        page.get_by_label("Remove “the second text” from the history").click()
        expect(page.locator("#past-list .open")).to_have_count(2)


def test_the_token_is_asked_for_once(browser: Browser):
    app = create_app({"lengths": Slow().model()}, token="open-sesame")
    with served(app) as address, watched(browser) as (page, seen):
        page.goto(address)
        dialog = page.locator("#token-dialog")
        expect(dialog).to_be_visible()
        page.fill("#token", "wrong-token")
        page.keyboard.press("Enter")
        expect(page.locator("#token-wrong")).to_have_text("That token was not accepted.")
        page.fill("#token", "open-sesame")
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        explain(page, WORDS)
        with page.context.expect_page() as opened:
            page.click("#report")
        expect(opened.value.locator(".slalom-explanation .text")).to_be_visible()
        opened.value.close()
        page.reload()
        expect(page.locator("#go")).to_be_enabled()
        expect(dialog).to_be_hidden()
        assert "open-sesame" not in page.evaluate("JSON.stringify(localStorage)")
        page.locator("#past-list .open").click()
        expect(page.locator("#explanation .text")).to_be_visible()
    assert all("401" in error for error in seen.errors)


def test_the_page_is_accessible(browser: Browser, address: str):
    # axe brings its script along, which the page's policy refuses; so the test, not the page, lifts it.
    with watched(browser, bypass_csp=True, reduced_motion="reduce") as (page, _):
        ready(page, address)
        page.fill("#text", TEXT)
        page.focus("#text")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#status")).to_have_text(re.compile("^Explained"))
        assert page.evaluate("document.activeElement.id") == "result"
        page.locator("#more summary").click()
        fine_in_every_look(page)


SEEN_IN_REPORTS = ("#explanation .text", "#explanation tbody")
"""Words and numbers, which the tests of reports show to axe, as they stand here."""


def test_all_sorts_of_texts_in_every_look(browser: Browser):
    app = create_app({"lengths": Slow().model()})
    compared = Compared({name: replace(made("Arabic"), method=name) for name in ("slalom", "linear")})
    results = {kind: made(kind) for kind in KINDS}
    kept = {kind: app.state.slalom.reports.put(document(one)) for kind, one in results.items()}
    kept["compared"] = app.state.slalom.reports.put(document(compared))
    asked = {"model": "lengths", "method": "slalom", "seed": 0, "budget": "auto"}
    past = [asked | {"id": name, "text": kind} for kind, name in kept.items()]
    with (
        served(app) as address,
        watched(browser, bypass_csp=True, reduced_motion="reduce") as (page, seen),
    ):
        page.goto(address)
        page.evaluate("past => localStorage.setItem('slalom.history', JSON.stringify(past))", past)
        ready(page, address)
        expect(page.locator("#status")).to_have_text(re.compile("^An example"))
        for kind in kept:
            page.locator("#past-list .open", has_text=re.compile(f"^{kind}")).click()
            shown = page.locator("#explanation .league" if kind == "compared" else "#explanation .whatif")
            expect(shown).to_be_visible()
            if kind in results:
                expect(page.locator("#explanation h2").first).to_have_text(f"Why {results[kind].target}?")
            page.mouse.move(1, 1)  # what is pointed at makes the rest step back
            fine_in_every_look(page, SEEN_IN_REPORTS)
    assert seen.errors == []


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser, address: str):
    with watched(browser, viewport={"width": 360, "height": 740}) as (page, _):
        ready(page, address)
        explain(page, TEXT + " " + "x" * 300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        # at one moment: the page is still moving to the result
        tops = page.evaluate(
            "['#ask', '#result', '#past'].map(id => document.querySelector(id).getBoundingClientRect().top)"
        )
        assert tops == sorted(tops)
