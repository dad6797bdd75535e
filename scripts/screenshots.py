"""The pictures in docs/images: reports of real explanations by the bundled model, as Chromium shows them.

    python scripts/screenshots.py [DIRECTORY]

Needs the packages of the extra `dev` and Chromium.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import slalom
from slalom.compare import compare
from slalom.view import compare_html as comparison_view
from slalom.view.html import render

REVIEW = (
    "I came here with my family on a Friday night. The room is lovely and the music was just right, but we "
    "waited almost an hour for our food. When it finally arrived, the pasta was cold and the fish was dry. "
    "The desserts, however, were delicious. I would give the kitchen another chance, but not on a busy night."
)
SHORT = "The food was great but the service was awful, and the waiter never came back."
METHODS = ("slalom", "slalom_sgd", "linear", "lime", "kernel_shap", "occlusion", "attention", "gradient")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COLOURS = 256
"""Of a picture; more would only make it larger."""


def main(directory: Path) -> None:
    """Take every picture."""
    report = render(slalom.explain(REVIEW))
    methods = comparison_view.render(compare(slalom.Explainer(), SHORT, METHODS))
    wide = {"viewport": {"width": 1180, "height": 900}}
    phone = {"viewport": {"width": 390, "height": 1250}, "device_scale_factor": 2, "is_mobile": True}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=["--headless", "--no-sandbox"])
        for name, source, context, act in (
            ("report-light", report, wide, _hover("delicious")),
            ("report-dark", report, wide | {"color_scheme": "dark"}, _click("delicious")),
            ("report-phone", report, phone, _click("delicious")),
            ("compare", methods, {"viewport": {"width": 1180, "height": 600}}, _nothing),
            ("compare-phone", methods, phone, _nothing),
        ):
            _take(browser, directory / f"{name}.png", source, context, act, full=not name.endswith("-phone"))
        browser.close()


def _chromium() -> str:
    found = next((where for where in map(shutil.which, BROWSERS) if where), None)
    if found is None:
        raise SystemExit(f"no Chromium found ({', '.join(BROWSERS)})")
    return found


def _take(
    browser: Browser,
    path: Path,
    source: str,
    context: dict[str, Any],
    act: Callable[[Page], None],
    full: bool,
) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(source, encoding="utf-8")
        place = browser.new_context(**context)
        page = place.new_page()
        page.goto(file.as_uri())
        act(page)
        page.wait_for_timeout(500)  # until everything that moves has arrived
        page.screenshot(path=path, full_page=full)
        place.close()
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} KB")


def _token(page: Page, word: str) -> Any:
    return page.locator(".text .t").get_by_text(word, exact=True).first


def _hover(word: str) -> Callable[[Page], None]:
    return lambda page: _token(page, word).hover()


def _click(word: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        _token(page, word).click()
        page.mouse.move(2, 2)
        page.evaluate("document.activeElement.blur()")

    return act


def _nothing(page: Page) -> None:
    pass


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images"))
