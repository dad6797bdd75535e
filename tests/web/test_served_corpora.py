"""Explained corpora of a server: listed, shown as pages, guarded by the token, made again when they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from summary_rows import explained, write

from browser import chromium, findings, in_every_look, sideways, watched
from handmade import slalom_explanation
from serving import Slow, served
from slalom.errors import InputError
from slalom.web import create_app

TOKEN = "a-secret-of-some-length"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [explained(i, slalom_explanation("the food was great but awful"), id=f"d{i}") for i in range(12)]
    return Path(write(tmp_path / "reviews", rows))


def app(folder: Path, **more: Any) -> Any:
    return create_app({"slow": Slow().model()}, corpora={"reviews": folder}, **more)


def test_a_corpus_is_listed_and_shown(folder: Path) -> None:
    with served(app(folder)) as address, httpx.Client(base_url=address) as http:
        assert http.get("/api/corpora").json() == [{"name": "reviews", "page": "/corpora/reviews"}]
        answer = http.get("/corpora/reviews")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "great" in answer.text
        assert "12" in answer.text
        assert http.get("/corpora/others").status_code == 404


def test_a_corpus_that_has_grown_is_read_again(folder: Path, tmp_path: Path) -> None:
    with served(app(folder)) as address, httpx.Client(base_url=address) as http:
        before = http.get("/corpora/reviews").text
        assert http.get("/corpora/reviews").text == before
        more = [explained(i, slalom_explanation("a dull film but fine"), id=f"e{i}") for i in range(12, 24)]
        part = next(Path(write(tmp_path / "more", more)).glob("*.parquet"))
        part.rename(folder / "part-00000007.parquet")
        assert "dull" in http.get("/corpora/reviews").text


def test_a_token_guards_corpora_and_a_link_opens_one(folder: Path) -> None:
    with served(app(folder, token=TOKEN)) as address, httpx.Client(base_url=address) as http:
        assert http.get("/api/corpora").status_code == 401
        assert http.get("/corpora/reviews").status_code == 401
        (listed,) = http.get("/api/corpora", headers={"Authorization": f"Bearer {TOKEN}"}).json()
        assert listed["page"].startswith("/corpora/reviews?key=")
        assert TOKEN not in listed["page"]
        assert http.get(listed["page"]).status_code == 200
        key = listed["page"].partition("?")[2]
        assert http.get(f"/reports/reviews?{key}").status_code == 401


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        ("reviews", "nowhere", "the corpus 'reviews' cannot be shown: there is no"),
        ("a b", ".", "name of a corpus"),
    ],
)
def test_a_folder_that_cannot_be_shown_is_refused_at_the_start(name: str, where: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        create_app({"slow": Slow().model()}, corpora={name: where})


def test_the_page_links_to_corpora(folder: Path) -> None:
    with (
        served(app(folder)) as address,
        chromium() as browser,
        watched(browser, bypass_csp=True) as (page, _),
    ):
        page.goto(address)
        link = page.get_by_role("link", name="reviews")
        expect(link).to_be_visible()
        expect(page.locator("#go")).to_be_enabled()
        for look in in_every_look(page):
            assert sideways(page) <= 0, look
            assert findings(page) == [], look
        page.goto(f"{address.rstrip('/')}/{link.get_attribute('href')}")
        expect(page.get_by_role("heading", name="Value and importance").first).to_be_visible()
        for look in in_every_look(page):
            assert sideways(page) <= 0, look
            assert findings(page) == [], look
