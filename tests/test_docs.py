"""The site is built, its examples run, and what is generated is up to date."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slalom import Explainer, Explanation

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def _run(page: str) -> list[str]:
    """What the Python of a page prints, as one reader would run it from top to bottom."""
    text = (DOCS / page).read_text(encoding="utf-8")
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


def test_saved_files_run() -> None:
    assert _run("saved-files.md")[0].startswith("slalom-explanation ")


def test_calls_of_others_and_ours_name_the_same_word() -> None:
    for package in ("captum", "lime", "shap"):
        pytest.importorskip(package)
    printed = _run("coming-from.md")
    assert len(printed) == 6  # theirs and ours, three times
    assert all("awful" in line for line in printed), printed


def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert "slalom.api.Explainer" in page
    assert "slalom explain-corpus" in (tmp_path / "cli.html").read_text(encoding="utf-8")
    for name in ("index.html", "search/search_index.js", "explanation.schema.json"):
        assert (tmp_path / name).is_file(), name


def test_the_pages_can_be_read_from_the_disk() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in config
    assert "offline" in config
    assert "use_directory_urls: false" in config


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
