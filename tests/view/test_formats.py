"""Formats of explanations: what each holds, which file gets which, and one from outside."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from handmade import slalom_explanation
from slalom import view
from slalom.cli import app
from slalom.errors import InputError
from slalom.explanation import Explanation
from slalom.view import markdown
from slalom.view.answer import answer

SHOUTED = '''"""Shouted: the strongest word, loud. A toy."""
SUFFIX = ".loud"


def render(explanation):
    return explanation.top(1)[0][0].strip().upper() + "!"
'''


@pytest.fixture
def explanation() -> Explanation:
    return slalom_explanation("a |fine| film =SUM(1)")


def test_the_formats_are_found_in_the_folder() -> None:
    assert view.names() == ("csv", "html", "json", "markdown", "terminal")
    with pytest.raises(InputError, match="no format 'xml'; choose one of: csv, html, json"):
        view.load("xml")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.html", "html"),
        ("a.HTM", "html"),
        ("a.json", "json"),
        ("a", "json"),
        ("a.xyz", "json"),
        ("a.md", "markdown"),
        ("a.csv", "csv"),
        ("a.txt", "terminal"),
    ],
)
def test_the_ending_of_a_file_is_its_format(name: str, expected: str) -> None:
    assert view.of_path(name) == expected


@pytest.mark.parametrize("name", view.names())
def test_every_format_is_written(name: str, explanation: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "file"
    view.write(explanation, path, name)
    assert path.read_text(encoding="utf-8") == view.load(name)(explanation)
    assert "fine" in path.read_text(encoding="utf-8")


def test_json_is_read_again(explanation: Explanation, tmp_path: Path) -> None:
    view.write(explanation, tmp_path / "a.json")
    again = Explanation.load(tmp_path / "a.json")
    np.testing.assert_array_equal(again.scores["share"], explanation.scores["share"])


def test_csv_has_every_word_and_no_formula(explanation: Explanation) -> None:
    rows = list(csv.DictReader(io.StringIO(view.load("csv")(explanation))))
    shown = explanation.shown
    assert len(rows) == len(shown.listed)
    assert [float(row["share"]) for row in rows] == pytest.approx(shown.scores["share"].tolist())
    assert {row["label"] for row in rows} == {shown.target}
    assert not any(cell.startswith("=") for row in rows for cell in row.values())


def test_markdown_begins_with_the_answer_and_escapes_the_text(explanation: Explanation) -> None:
    text = view.load("markdown")(explanation)
    plain = text.splitlines()[0].replace("*", "").replace("\\", "")
    assert plain == answer(explanation).replace("“", "").replace("”", "")
    assert r"\|fine\|" in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.replace(r"\|", "").count("|") for line in table}) == 1
    assert markdown.escape("*a* _b_ <i>") == r"\*a\* \_b\_ \<i\>"


@pytest.fixture
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_view.py").write_text(SHOUTED)
    info = tmp_path / "outside_views-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-views\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[slalom.views]\nshouted = outside_view\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_outside")
def test_a_format_of_another_package_is_a_format(
    explanation: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strongest = explanation.shown.top(1)[0][0].strip().upper()
    assert "shouted" in view.names()
    monkeypatch.chdir(tmp_path)
    explanation.shown.save("saved.json")
    result = CliRunner().invoke(app, ["show", "saved.json", "--format", "shouted", "--out", "a.loud"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{strongest}!\n"
    assert Path("a.loud").read_text() == f"{strongest}!"
    assert "wrote a.loud" in result.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--format", "xml"], "no format 'xml'"),
        (["--json", "--format", "csv"], "leave one of them out"),
        (["--format", "csv", "--all"], "leave --all out"),
        (["--html", "a", "--out", "a"], "name the same file"),
    ],
)
def test_outputs_that_contradict_each_other_are_refused(
    given: list[str], message: str, explanation: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    explanation.save("saved.json")
    result = CliRunner().invoke(app, ["show", "saved.json", *given])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_one_document_and_nothing_else(
    explanation: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    explanation.save("saved.json")
    flag = CliRunner().invoke(app, ["show", "saved.json", "--json"])
    named = CliRunner().invoke(app, ["show", "saved.json", "--format", "json"])
    assert flag.stdout == named.stdout
    assert json.loads(flag.stdout)["format"] == "slalom-explanation"
