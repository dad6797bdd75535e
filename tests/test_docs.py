"""The site is built, its examples run, and what is generated is up to date."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from slalom import Explainer, Explanation
from slalom.cli import app
from test_pages import commands

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def _run(page: str, **changes: str) -> list[str]:
    """What the Python of a page prints, as one reader would run it from top to bottom."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    names: dict[str, object] = {}
    printed = io.StringIO()
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page, "exec"), names)
    return printed.getvalue().splitlines()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_tutorial_runs() -> None:
    printed = "\n".join(_run("tutorial.md"))
    assert "awful" in printed
    assert "READ" in printed


def test_the_concepts_run() -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert _run("concepts.md") == re.findall(r"^print\(.*\) +# (\[[^\]]*\])", text, flags=re.MULTILINE)


def test_the_guides_run(behave: Any, llm_server: str) -> None:
    del behave
    text = (DOCS / "how-to.md").read_text(encoding="utf-8")
    printed = _run("how-to.md", **{"http://localhost:8000/v1": f"{llm_server}/v1"})
    assert printed[0].startswith("[('dull'")
    assert "positive ['great'" in "\n".join(printed)
    for guide in (
        "my own classifier",
        "a pipeline",
        "an API",
        "a long document",
        "a corpus on Ray",
        "spurious words",
        "methods on my data",
        "my own method",
    ):
        assert guide in text


def test_every_command_of_the_pages_exists() -> None:
    group: Any = typer.main.get_command(app)
    checked = 0
    for page in (*DOCS.glob("*.md"), ROOT / "README.md"):
        for line in commands(page.read_text(encoding="utf-8")):
            name, *words = shlex.split(line, comments=True)[1:]
            known = {
                option for one in group.commands[name].params for option in (*one.opts, *one.secondary_opts)
            }
            given = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
            assert given <= known | {"--help"}, (page.name, line)
            checked += 1
    assert checked > 30


def test_lines_of_prose_are_short() -> None:
    made = ("claims.md", "league.md", "reproduction.md")  # by commands
    pages = [path for path in (*DOCS.glob("*.md"), *ROOT.glob("*.md")) if path.name not in made]
    for page in pages:
        text = re.sub(
            r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        long = [
            line for line in text.splitlines() if len(line) > 120 and line.lstrip()[:1] not in ("|", "<", "!")
        ]
        assert not [line for line in long if not line.startswith("    ")], page.name


def test_screenshots_are_small_and_shown() -> None:
    taken = re.findall(r'Shot\("([\w-]+)"', (ROOT / "scripts" / "screenshots.py").read_text(encoding="utf-8"))
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert len(taken) > 10
    for name in taken:
        assert (DOCS / "images" / f"{name}.png").stat().st_size <= 150_000, name
        assert f"(images/{name}.png)" in pages, name


def test_figures_come_from_the_files_of_results() -> None:
    fill = _script("fill_docs")
    for page in fill.PAGES:
        text = page.read_text(encoding="utf-8")
        assert fill.filled(text, set(fill.FROM_FILES)) == text, f"{page.name}: run scripts/fill_docs.py"


def test_what_the_readme_prints_is_printed() -> None:
    pytest.importorskip("lime")
    pytest.importorskip("shap")
    fill = _script("fill_docs")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    number = r"[+−-]?\d+(?:\.\d+)?"
    for name, make in fill.FROM_RUNS.items():
        ours, theirs = fill.block_of(text, name).split(), make().split()
        assert [re.sub(number, "#", word) for word in ours] == [re.sub(number, "#", word) for word in theirs]
        pairs = zip(re.findall(number, " ".join(ours)), re.findall(number, " ".join(theirs)), strict=True)
        for written, found in pairs:  # log-odds with decimals, percents without
            apart = abs(float(written.replace("−", "-")) - float(found.replace("−", "-")))
            assert apart <= (0.1 if "." in written else 2), (name, written, found)


def _script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_saved_files_run() -> None:
    assert _run("saved-files.md")[0].startswith("slalom-explanation ")


def test_calls_of_others_and_ours_name_the_same_word() -> None:
    for package in ("captum", "lime", "shap"):
        pytest.importorskip(package)
    printed = _run("coming-from.md")
    assert len(printed) == 6  # theirs and ours, three times
    assert all("awful" in line for line in printed), printed


def test_every_page_stands_in_the_navigation():
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert not {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - set(named)
    assert len(named) == len(set(named))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a broken link is an error."""
    pytest.importorskip("mkdocs")
    where = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(where)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return where


def test_the_site_is_built_without_a_broken_link(site: Path) -> None:
    assert "slalom.api.Explainer" in (site / "api.html").read_text(encoding="utf-8")
    assert "slalom explain-corpus" in (site / "cli.html").read_text(encoding="utf-8")
    for name in (
        "index.html",
        "search/search_index.js",
        "explanation.schema.json",
        "notebooks/first_steps.ipynb",
    ):
        assert (site / name).is_file(), name


def test_the_gallery_is_live(site: Path) -> None:
    reports = sorted(path.stem for path in (site / "gallery").glob("*.html"))
    linked = re.findall(r"\]\(gallery/(\w+)\.html\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert reports == sorted(linked)
    pages = {name: (site / "gallery" / f"{name}.html").read_text(encoding="utf-8") for name in reports}
    assert all(page.lower().startswith("<!doctype html>") for page in pages.values())
    assert "<script" in pages["review"]  # what if


def test_the_page_for_decision_makers_prints_well(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    import browser

    with browser.chromium() as chromium:
        page = chromium.new_page()
        page.goto((site / "decision-makers.html").as_uri())
        page.emulate_media(media="print")
        for hidden in (".md-header", ".md-sidebar--primary", ".md-footer"):
            assert not page.locator(hidden).first.is_visible(), hidden
        widths = "e => e.getBoundingClientRect().width"
        article = page.locator("article").first.evaluate(widths)
        assert page.locator("article table").first.evaluate(widths) <= article + 1
        page.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 4


def test_the_pages_can_be_read_from_the_disk(site: Path) -> None:
    """Nothing that a page loads comes from another host."""
    outside = r'<(?:script|img|iframe|link rel="stylesheet")[^>]* (?:src|href)="(?:https?:)?//[^"]*"'
    pages = [*site.glob("*.html"), *site.glob("results/*.html")]
    assert len(pages) > 40
    for page in pages:
        assert re.findall(outside, page.read_text(encoding="utf-8")) == [], page.name


def test_the_search_works_from_the_disk(site: Path) -> None:
    pytest.importorskip("playwright")
    import browser

    with browser.chromium() as chromium:
        page = chromium.new_page()
        page.goto((site / "index.html").as_uri())
        page.locator(".md-search__input").click()
        page.keyboard.type("faithful")
        page.locator(".md-search-result__item").first.wait_for(timeout=60_000)
        assert "matching documents" in page.locator(".md-search-result__meta").inner_text()


def test_saved_explanations_have_their_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((DOCS / "explanation.schema.json").read_text(encoding="utf-8"))
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema)
    check = kind(schema)
    explainer = Explainer()
    for options in (
        {"every_class": True},
        {"method": "linear"},
        {"method": "gradient"},
        {"granularity": "types"},
    ):
        explanation: Explanation = explainer("not bad, just dull", **options)  # type: ignore[arg-type]
        explanation.save("saved.json")
        check.validate(json.loads(Path("saved.json").read_text()))
    check.validate(json.loads((ROOT / "tests" / "saved_by_0.1.json").read_text(encoding="utf-8")))
    wrong = {**json.loads(Path("saved.json").read_text()), "scores": {"share": ["much"]}}
    assert not check.is_valid(wrong)


def test_dockerfiles_pass_their_linter() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed")
    files = sorted(map(str, (ROOT / "docker").glob("*.Dockerfile")))
    assert len(files) == 2
    done = subprocess.run([linter, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
