"""One name for one thing in every command; the names that options had before are taken, and told."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from slalom.cli import app
from slalom.cli.run import RENAMED

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OPTIONS = {
    command: {name: param for param in found.params for name in param.opts if name.startswith("-")}
    for command, found in COMMANDS.items()
}
LONG = ("bench", "evaluate", "explain-corpus", "reproduce")
"""Commands that go on where they were, and begin again when they are told to."""
OTHER_NAMES = {
    "--documents": "--limit",
    "--samples": "--budget",
    "--queries": "--budget",
    "--resume": "--fresh",
    "--continue": "--fresh",
    "--save": "--out",
    "--output": "--out",
    "--column": "--text",
    "--text-column": "--text",
    "--label-column": "--label",
    "--second": "--pair",
    "--name": "--id",
    "--cut": "--length",
    "--max-length": "--length",
}
"""What the things that several commands have could be called, too."""
DIFFERS = {
    "--model": "serve and league take several, each with a name",
    "-m": "the same",
    "--pair": "a text, or the column of one",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_has_a_name_of_its_own_for_what_others_have(command: str) -> None:
    assert set(OPTIONS[command]).isdisjoint(OTHER_NAMES)


def test_an_option_is_of_one_kind_in_all_commands() -> None:
    kinds: dict[str, set[tuple[bool, bool]]] = defaultdict(set)
    for options in OPTIONS.values():
        for name, param in options.items():
            kinds[name].add((bool(param.is_flag), bool(param.multiple)))
    assert {name for name, found in kinds.items() if len(found) > 1} <= set(DIFFERS)


def test_a_letter_stands_for_one_option() -> None:
    letters: dict[str, set[str]] = defaultdict(set)
    for options in OPTIONS.values():
        for name, param in options.items():
            if len(name) == 2:
                letters[name].add(max(param.opts, key=len))
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {}
    everywhere = {letter: next(iter(names)) for letter, names in letters.items()}
    for letter, name in everywhere.items():
        if letter in ("-m", "-n", "-q", "-t", "-w"):
            assert all(letter in options[name].opts for options in OPTIONS.values() if name in options), name


@pytest.mark.parametrize("command", LONG)
def test_long_commands_go_on_and_begin_again_when_told_to(command: str) -> None:
    assert {"--out", "--fresh"} <= set(OPTIONS[command])
    assert OPTIONS[command]["--fresh"].is_flag


@pytest.mark.parametrize("command", ["train", "evaluate", "explain-corpus", "global"])
def test_commands_that_read_data_name_columns_alike(command: str) -> None:
    columns = {"train": {"--pair", "--label"}, "evaluate": {"--pair", "--label"}, "explain-corpus": {"--id"}}
    for name in {"--text", *columns.get(command, ())}:
        assert OPTIONS[command][name].metavar == "COLUMN"
    assert "--limit" in OPTIONS[command]


@pytest.mark.parametrize(
    ("command", "old", "new"), [(c, old, new) for c, names in RENAMED.items() for old, new in names.items()]
)
def test_an_old_name_is_taken_and_told(command: str, old: str, new: str) -> None:
    assert new in OPTIONS[command]
    assert old not in OPTIONS[command]
    flag = OPTIONS[command][new].is_flag
    result = CliRunner().invoke(app, [command, *([old] if flag else [old, "1"]), "--no-such-option"])
    assert result.exit_code == 2
    assert "warning: " in result.stderr
    assert new in result.stderr.splitlines()[0]
    assert f"No such option: {old}" not in result.stderr


def test_behind_two_dashes_nothing_is_an_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["explain", "--json", "--quiet", "--budget", "9", "--", "--save"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["tokens"]["text"] == "--save"


ROWS = [{"sentence": "a good film", "label": "positive"}, {"sentence": "a bad film", "label": "negative"}] * 4


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--data", "rows.jsonl", "--out", "model", "--epochs", "1", "--layers", "1", "--width", "8"],
        ["evaluate", "--data", "rows.jsonl", "--out", "results", "--methods", "random", "--limit", "2"],
        ["explain-corpus", "rows.jsonl", "--out", "explained", "--method", "random"],
        ["global", "rows.jsonl", "--budget", "200"],
    ],
    ids=lambda command: command[0],
)
def test_the_usual_columns_are_found_by_every_command(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    more = ["--protocols", "deletion:step=1", "--no-figures"] if command[0] == "evaluate" else []
    result = CliRunner().invoke(app, [*command, *more])
    assert result.exit_code == 0, result.stderr
