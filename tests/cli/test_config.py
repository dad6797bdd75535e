"""Options from a file: slalom.toml or --config; the command line goes before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from slalom.cli import app

TEXT = "the food was great"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "150")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def settings(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["settings"]


def test_options_stand_in_the_file_here_and_the_command_line_goes_before():
    Path("slalom.toml").write_text(
        'seed = 7\nport = 1\n[explain]\nmethod = "occlusion"\njson = true\n[serve]\nwaiting = 3\n'
    )
    result = run("explain", TEXT)
    assert settings(result)["seed"] == 7
    assert json.loads(result.stdout)["method"] == "occlusion"
    assert result.stderr == "options from slalom.toml\n"
    assert settings(run("explain", TEXT, "--seed", "2"))["seed"] == 2


def test_another_file_lists_and_arguments():
    Path("long.toml").write_text(
        f'[explain]\ntext = "{TEXT}"\nmethod = "lime"\nbudget = 60\njson = true\noption = ["kernel_width=5"]'
    )
    found = settings(run("explain", "--config", "long.toml"))
    assert (found["budget"], found["kernel_width"]) == (60, 5)
    assert settings(run("explain", "--config=long.toml", "--budget", "40"))["budget"] == 40


def test_old_names_are_told():
    Path("slalom.toml").write_text("[global]\nqueries = 5\n")
    result = run("global", "nothing.csv")
    assert "warning: --queries is called --budget now" in result.stderr
    assert result.exit_code == 2
    assert "--budget" in result.stderr.split("Error")[1]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[explain]\ncolour = 3\n", "has no option 'colour'; it has: all, budget"),
        ("[explain\n", "is not TOML"),
        ("explain = 3\n", "must be a table"),
        ('[explain]\nseed = "x"\n', "Invalid value for '--seed'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(written: str, said: str):
    Path("slalom.toml").write_text(written)
    result = run("explain", TEXT)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_file_that_is_not_there():
    result = run("explain", TEXT, "--config", "missing.toml")
    assert result.exit_code == 2
    assert "'missing.toml' cannot be read: No such file" in " ".join(result.stderr.replace("│", " ").split())


def test_every_command_has_the_option():
    for name in ("explain", "compare", "evaluate", "explain-corpus", "global", "serve", "bench", "train"):
        assert "--config" in run(name, "--help").stdout
