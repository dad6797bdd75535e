"""CONTRIBUTING.md and the examples say what is true."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest
from typer.testing import CliRunner

from slalom.cli import app
from slalom.models import bundled

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TEXT = "The food was great but the service was awful, and the waiter never came back. I will not return."


def test_the_path_of_an_explanation_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([\w/]+\.py)` \| ([^|]+) \|", page, flags=re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, len(rows) + 1))
    assert 20 <= len(rows) <= 25
    for _, file, functions in rows:
        tree = ast.parse((ROOT / "src" / "slalom" / file).read_text(encoding="utf-8"))
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set(re.findall(r"`(\w+)`", functions)) <= there, file


def _called(arguments: list[str]) -> dict[str, set[str]]:
    """By file of `slalom`: the functions and classes that run while a command does, in any thread."""
    home = str(ROOT / "src" / "slalom")
    called: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(home):
            name = code.co_qualname.partition(".")[0]
            called.setdefault(code.co_filename[len(home) + 1 :], set()).add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        done = CliRunner().invoke(app, arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert done.exit_code == 0, done.output
    return called


def test_an_explanation_goes_the_way_that_is_told() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| ([^|]+) \|", page, flags=re.MULTILINE)
    called = _called(["explain", TEXT, "--model", str(bundled())])
    missing = [(file, set(re.findall(r"`(\w+)`", names)) - called.get(file, set())) for file, names in rows]
    assert [one for one in missing if one[1]] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) >= 5
