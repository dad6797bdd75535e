"""A real browser for tests: the machine's Chromium, driven by Playwright, and a record of what it did."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

HANGS = 120_000
"""Milliseconds after which something will never happen, however busy the machine is."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def executable() -> str | None:
    """Where Chromium is, if it is anywhere."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running Chromium; skips the test where the machine has none."""
    where = executable()
    if where is None:
        pytest.skip(f"no Chromium here ({', '.join(NAMES)}); `make browser` installs it where apt-get can")
    expect.set_options(timeout=HANGS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


WIDTHS = {"wide": {"width": 1400, "height": 900}, "narrow": {"width": 390, "height": 800}}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def in_every_look(page: Page) -> Iterator[str]:
    """The page wide and narrow, light and dark, one after the other."""
    for width, size in WIDTHS.items():
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            yield f"{width}, {scheme}"


def findings(page: Page, without: tuple[str, ...] = ()) -> list[str]:
    """What axe says against the page as it looks now; the page must be opened with bypass_csp.

    `without` leaves out parts that have been looked at elsewhere.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    # A colour that is just changing is neither the one nor the other.
    page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {})))")
    run = "(without) => axe.run({exclude: without}, {resultTypes: ['violations']}).then((r) => r.violations)"
    found = page.evaluate(run, [[part] for part in without])
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


def sideways(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@dataclass
class Seen:
    """What a page asked for and complained about."""

    requests: list[str] = field(default_factory=list)
    """Addresses, without the page itself and data inside it."""
    errors: list[str] = field(default_factory=list)
    """Console errors and warnings, uncaught exceptions, dialogs that opened."""


@contextmanager
def watched(browser: Browser, **context: Any) -> Iterator[tuple[Page, Seen]]:
    """A new page, and the record of what it does. `context` is Playwright's: viewport, color_scheme …"""
    seen = Seen()
    place = browser.new_context(**context)
    place.set_default_timeout(HANGS)
    try:
        page = place.new_page()
        page.on("request", lambda r: seen.requests.append(r.url) if _outside(r.url) else None)
        page.on("console", lambda m: seen.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: seen.errors.append(str(e)))
        page.on("dialog", lambda d: _refused(d, seen))
        yield page, seen
    finally:
        place.close()


def _refused(dialog: Dialog, seen: Seen) -> None:
    seen.errors.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def _outside(url: str) -> bool:
    return not url.startswith(("file:", "about:", "data:", "blob:"))
