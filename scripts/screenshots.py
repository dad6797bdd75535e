"""The pictures in docs/images: pages of commands and of the server, with the bundled model, in Chromium.

    python scripts/screenshots.py [DIRECTORY] [--data sst2.parquet] [--only NAME,NAME]

Needs the packages of the extra `dev`, Chromium, and a file of SST-2 (by default the one in SLALOM_DATA).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from slalom.web import create_app
from slalom.web.server import Server, listening

REVIEW = (
    "I came here with my family on a Friday night. The room is lovely and the music was just right, but we "
    "waited almost an hour for our food. When it finally arrived, the pasta was cold and the fish was dry. "
    "The desserts, however, were delicious. I would give the kitchen another chance, but not on a busy night."
)
SHORT = "The food was great but the service was awful, and the waiter never came back."
METHODS = "slalom,slalom_sgd,linear,lime,kernel_shap,occlusion,attention,gradient"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MOST = 150_000
"""Bytes of a picture: it gets fewer colours until it fits."""
PATIENCE = 300_000
"""Milliseconds for whatever the page waits for."""

Act = Callable[[Page], None]


@dataclass(frozen=True)
class Shot:
    """One picture: which page, how wide, in which scheme, what was done before; `tall` limits a long page."""

    name: str
    page: str
    act: Act | None = None
    phone: bool = False
    dark: bool = False
    tall: int = 0

    @property
    def context(self) -> dict[str, Any]:
        """Of Playwright."""
        scheme = {"color_scheme": "dark" if self.dark else "light", "reduced_motion": "reduce"}
        if self.phone:
            size = {"width": 390, "height": self.tall or 1150}
            return scheme | {"viewport": size, "device_scale_factor": 1.5, "is_mobile": True}
        return scheme | {"viewport": {"width": 1400, "height": self.tall or 900}}


def shots() -> tuple[Shot, ...]:
    """Every picture."""
    return (
        Shot("report-light", "report", _hover("delicious")),
        Shot("report-dark", "report", _click("delicious"), dark=True),
        Shot("report-phone", "report", _click("delicious"), phone=True),
        Shot("compare", "compare"),
        Shot("compare-phone", "compare", phone=True),
        Shot("corpus", "corpus", tall=1500),
        Shot("corpus-phone", "corpus", phone=True, dark=True),
        Shot("global", "global", dark=True, tall=1500),
        Shot("global-phone", "global", phone=True),
        Shot("evaluation", "evaluation", tall=1300),
        Shot("serve", "server", _landed, tall=1300),
        Shot("serve-dark", "server", _landed, dark=True, tall=1300),
        Shot("serve-phone", "server", _tapped, phone=True),
        Shot("serve-compare", "server", _compared, tall=1500),
        Shot("serve-corpus-phone", "server", _corpus, phone=True, dark=True),
    )


def main() -> None:
    """Take every picture, or those named."""
    arguments = parse()
    only = arguments.only.split(",") if arguments.only else [shot.name for shot in shots()]
    arguments.directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=["--headless", "--no-sandbox"])
        pages = Pages(Path(place), arguments.data)
        for shot in shots():
            if shot.name not in only:
                continue
            if shot.page == "server":
                with _served(pages.explained()) as address:
                    take(browser, shot, address, arguments.directory)
            else:
                take(browser, shot, getattr(pages, shot.page)().as_uri(), arguments.directory)
        browser.close()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    images = Path(__file__).parents[1] / "docs" / "images"
    data = Path(os.environ.get("SLALOM_DATA", ".")) / "sst2.parquet"
    parser.add_argument("directory", type=Path, nargs="?", default=images, help="where the pictures go")
    parser.add_argument("--data", type=Path, default=data, help="sentences of SST-2")
    parser.add_argument("--only", help="names of pictures; all by default")
    return parser.parse_args()


class Pages:
    """The pages of commands, each made once, when a picture needs it."""

    def __init__(self, place: Path, data: Path):
        self._place, self._data = place, str(data.resolve())

    @cache  # noqa: B019 - there is one of it
    def report(self) -> Path:
        return self._written("report.html", "explain", REVIEW, "--html")

    @cache  # noqa: B019
    def compare(self) -> Path:
        return self._written("compare.html", "compare", SHORT, "--methods", METHODS, "--html")

    @cache  # noqa: B019
    def explained(self) -> Path:
        given = ("--split", "validation", "--limit", "200", "--target", "positive", "--effort", "fast")
        self._run("explain-corpus", self._data, "--out", "reviews", *given, "--keep-text")
        return self._place / "reviews"

    @cache  # noqa: B019
    def corpus(self) -> Path:
        return self._written("corpus.html", "summarize", self.explained().name, "--html")

    @cache  # noqa: B019
    def global_(self) -> Path:
        given = ("--split", "train", "--limit", "3000")
        return self._written("global.html", "global", self._data, *given, "--html")

    @cache  # noqa: B019
    def evaluation(self) -> Path:
        out = self._place / "evaluation"
        methods = ("--methods", "slalom,linear,lime,occlusion,random", "--protocols", "deletion,removals")
        self._run("evaluate", "--data", self._data, "--limit", "25", *methods, "--out", str(out))
        return out / "report.html"

    def _written(self, name: str, *arguments: str) -> Path:
        self._run(*arguments, str(self._place / name))
        return self._place / name

    def _run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "slalom", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._place)


setattr(Pages, "global", Pages.global_)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The address of a server of the bundled model and an explained corpus, while it runs."""
    server = Server(create_app({"bundled": None}, corpora={"reviews": folder}))
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=partial(server.run, sockets=[listener]))
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _chromium() -> str:
    found = next((where for where in map(shutil.which, BROWSERS) if where), None)
    if found is None:
        raise SystemExit(f"no Chromium found ({', '.join(BROWSERS)})")
    return found


def take(browser: Browser, shot: Shot, address: str, directory: Path) -> None:
    """One picture, with as many colours as fit."""
    path = directory / f"{shot.name}.png"
    place = browser.new_context(**shot.context)
    place.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    page = place.new_page()
    page.goto(address)
    if shot.act is not None:
        shot.act(page)
    page.wait_for_timeout(500)  # until everything that moves has arrived
    page.screenshot(path=path, full_page=not (shot.phone or shot.tall))
    place.close()
    with Image.open(path) as picture:
        whole = picture.convert("RGB")
    for colours in (256, 128, 64, 32):
        whole.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= MOST:
            break
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, {whole.width} × {whole.height}", flush=True)


def _token(page: Page, word: str) -> Any:
    return page.locator(".text .t").get_by_text(word, exact=True).first


def _hover(word: str) -> Act:
    return lambda page: _token(page, word).hover()


def _click(word: str) -> Act:
    def act(page: Page) -> None:
        _token(page, word).click()
        page.mouse.move(2, 2)
        page.evaluate("document.activeElement.blur()")

    return act


def _landed(page: Page) -> None:
    expect(page.locator("#status")).to_have_text(re.compile("^An example"))


def _tapped(page: Page) -> None:
    """A word of the example is left out, on a phone."""
    _landed(page)
    _click("awful")(page)
    expect(page.locator("#explanation .sheet")).to_be_visible()


def _compared(page: Page) -> None:
    _landed(page)
    page.fill("#budget", "500")
    page.click("#compare")
    expect(page.locator("#status")).to_have_text(re.compile(r"^Compared"))


def _corpus(page: Page) -> None:
    """The page of the explained corpus, through its link."""
    link = page.get_by_role("link", name="reviews")
    expect(link).to_be_visible()
    page.goto(f"{page.url.rstrip('/')}/{link.get_attribute('href')}")


if __name__ == "__main__":
    main()
