"""What the README says is run: its Python as it stands, its `slalom` lines through the command line."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from slalom.cli import app
from slalom.errors import SlalomWarning

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BEFORE = (ROOT / "tests" / "readme_of_0.1.md").read_text(encoding="utf-8")
"""The README of version 0.1, as it was."""


def blocks(language: str, source: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", source, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_is_read_in_a_minute() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert next(number for number, line in enumerate(lines) if "pip install slalom-xai" in line) < 10
    first = blocks("python")[0].splitlines()
    assert len(first) <= 4


def test_python_snippets_run() -> None:
    names: dict[str, object] = {}
    printed = io.StringIO()
    for block in blocks("python"):
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "README.md", "exec"), names)
    assert "awful" in printed.getvalue()
    assert "READ" in printed.getvalue()


def test_the_python_of_version_0_1_still_runs(capsys: pytest.CaptureFixture[str]):
    source = "\n".join(blocks("python", BEFORE))
    names: dict[str, object] = {}
    with pytest.warns(SlalomWarning) as told:
        exec(compile(source, "README of 0.1", "exec"), names)
    assert [str(warning.message) for warning in told] == ["the score 'linear' is called 'share' now"]
    assert isinstance(names["several"], list)
    assert "[-0.75]\n[3.]\n[0.]\n[-3.75]" in capsys.readouterr().out


def test_the_commands_of_version_0_1_still_run():
    told = ran(blocks("sh", BEFORE))
    assert len(told) == 7
    assert [line for line in told if "warning" in told[line]] == [
        "slalom explain --file review.txt --effort fast --save review.json"
    ]
    assert (
        "--save is called --out now"
        in told["slalom explain --file review.txt --effort fast --save review.json"]
    )
    assert {"report.html", "review.json"} <= {path.name for path in Path().iterdir()}


def test_commands_in_the_table_of_version_0_1_are_understood():
    """Their arguments, that is: what they do takes long, and other tests do it."""
    table = BEFORE.split("## What else there is")[1].split("\n## ")[0]
    lines = re.findall(r"`(slalom [^`]+)`", table)
    assert len(lines) == 10
    commands = typer.main.get_command(app)
    for line in lines:
        _, name, *words = shlex.split(line)
        command = commands.commands[name]  # type: ignore[attr-defined]
        command.make_context(name, words, resilient_parsing=False).close()


def test_shell_lines_run():
    told = ran(blocks("sh"))
    assert len(told) >= 5
    assert {"report.html", "review.json"} <= {path.name for path in Path().iterdir()}


def ran(scripts: Iterable[str]) -> dict[str, str]:
    """What each `slalom` line of these scripts said on stderr."""
    told: dict[str, str] = {}
    for line in "".join(scripts).splitlines():
        words = shlex.split(line)
        if words[0] == "echo":
            assert words[-2] == ">"
            Path(words[-1]).write_text(" ".join(words[1:-2]) + "\n")
            continue
        assert words[0] == "slalom", line
        line, _, source = line.partition(" < ")
        given = Path(source).read_text() if source else None
        result = CliRunner().invoke(app, shlex.split(line)[1:], input=given)
        assert result.exit_code == 0, (line, result.stderr)
        assert result.stdout, line
        told[line] = result.stderr
    return told


def test_links_and_names_lead_somewhere():
    for name in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / name).is_file(), name
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = re.findall(r"(?:^ +|`)make ([\w-]+)", README, flags=re.MULTILINE)
    assert {"demo", "test", "docs"} <= set(named) <= set(targets)


def test_every_option_of_the_readme_exists():
    shown = CliRunner().invoke(app, ["explain", "--help"], env={"COLUMNS": "200"}).stdout
    for option in re.findall(r"slalom explain [^`\n]*?(--[a-z-]+)", README):
        assert option in shown, option
