"""The league table: it continues, takes further methods, says what is missing, and writes its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planted_cases import IMPORTANCES, VALUES, WORDS, explainer
from slalom.cli import app
from slalom.errors import SlalomError
from slalom_lab.bench import league as module
from slalom_lab.bench.league import LeagueCell, family, league
from slalom_lab.bench.league_page import sentences, write_page


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[LeagueCell]:
    rng = np.random.default_rng(0)
    rows = [{"text": " ".join(rng.permutation(WORDS)[:9]), "label": 1, "split": "test"} for _ in range(7)]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(module, "METHODS", ("occlusion", "lime:budget=30", "lime:budget=60", "random"))
    monkeypatch.setattr(module, "PROTOCOLS", ("all_scales:copies=40", "deletion"))
    monkeypatch.chdir(tmp_path)
    return [
        LeagueCell("planted", "a planted model", "planted", "texts.jsonl"),
        LeagueCell("gone", "no model", "x", "y"),
    ]


def opened(cell: LeagueCell, _: Any) -> Any:
    if cell.model != "planted":
        raise SlalomError(f"no model {cell.model}")
    return explainer()


def test_it_runs_continues_and_takes_another_row(cells: list[LeagueCell], tmp_path: Path):
    steps: list[int] = []

    def watch(_: str):
        return lambda done, total, what: steps.append(done)

    found = league("out", cells, limit=6, open_model=opened, progress=watch)
    first, gone = found["cells"]
    assert first["documents"] == 6
    assert [row["method"] for row in first["rows"]] == list(module.METHODS)
    assert gone["not_run"] == "no model x"
    lines = (tmp_path / "out/planted/usual/documents.jsonl").read_bytes()
    again = league("out", cells[:1], limit=6, methods=["linear:budget=40"], open_model=opened)
    assert (tmp_path / "out/planted/usual/documents.jsonl").read_bytes() == lines, "nothing is run twice"
    rows = {row["method"]: row for row in again["cells"][0]["rows"]}
    assert list(rows) == [*module.METHODS, "linear:budget=40"]
    assert rows["random"]["numbers"].keys() == rows["linear:budget=40"]["numbers"].keys()
    assert rows["lime:budget=60"]["tokens"] > rows["lime:budget=30"]["tokens"]
    assert [cell["name"] for cell in again["cells"]] == ["planted", "gone"], "what was there stays"
    paths = write_page(again, tmp_path / "docs" / "league.md", command="slalom league --out out")
    page = paths[0].read_text()
    assert "slalom league --out out" in page
    assert "Not run: no model x" in page
    assert "| `linear:budget=40` |" in page
    assert "Fewer than 100" in page
    assert sentences(again["cells"][:1])[0] in page
    assert "<svg" in paths[1].read_text()


def test_a_file_of_scores_and_an_outside_function_are_ranked(
    cells: list[LeagueCell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The planted values as a file are ahead of the lengths of words, which a function gives."""
    rows = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    worth = dict(zip(WORDS, (np.exp(IMPORTANCES) * VALUES).tolist(), strict=True))
    told = [
        {
            "text": row["text"],
            "tokens": row["text"].split(),
            "scores": [worth[w] for w in row["text"].split()],
        }
        for row in rows
    ]
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, told)))
    lengths = "def lengths(text, predict, target):\n    return [len(word) for word in text.split()]\n"
    (tmp_path / "theirs.py").write_text(lengths)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "METHODS", ("random",))
    methods = ["scores.jsonl", "theirs:lengths"]
    found = league("out", cells[:1], limit=6, methods=methods, open_model=opened)
    ranked = {row["method"]: row["numbers"]["deletion aopc"]["mean"] for row in found["cells"][0]["rows"]}
    assert list(ranked) == ["random", *methods]
    assert ranked["scores.jsonl"] > max(ranked["random"], ranked["theirs:lengths"])


def test_a_family_is_a_method_without_its_budget():
    assert family("lime:budget=300") == family("lime") == "lime"
    assert family("slalom:effort=fast") == "slalom"
    assert family("slalom:gradients=false:effort=fast") == "slalom:gradients=false"
    assert family("theirs:function") == "theirs:function"


def test_the_command_knows_its_cells(tmp_path: Path):
    told = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "o"), "--cells", "nowhere"])
    assert told.exit_code == 1
    assert "there is no cell 'nowhere'" in told.stderr
    told = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "o"), "--cells", "gpt2-imdb"])
    assert told.exit_code == 0, told.stderr
    assert "not run: no model was given for this cell: --model gpt2=DIR" in told.stdout


def test_a_file_in_the_place_of_the_folder_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "error: cannot write to the folder" in result.stderr
    assert "unexpected" not in result.stderr
    assert (tmp_path / "file").read_text() == "mine"
