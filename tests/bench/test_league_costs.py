"""What the league knows of a file of scores: its cost, where it says it, and whether it has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slalom.data import Document
from slalom.errors import InputError
from slalom.evaluate.results import Finished, Measurement, Results
from slalom.files import plain
from slalom.outside import facts
from slalom_lab.bench.league_page import write_page
from slalom_lab.bench.league_rows import lacking


def row(method: str, **cost: Any) -> dict[str, Any]:
    numbers = {"all_scales r2": {"mean": 0.5, "stderr": 0.1, "n": 9, "tied": False}}
    return {"method": method, "family": method, "outside": True, "numbers": numbers, **cost}


def test_an_unknown_cost_is_a_dash_and_no_point_of_the_figure(tmp_path: Path):
    unknown = dict.fromkeys(("queries", "tokens", "backwards", "seconds"))
    known = {"queries": 10, "tokens": 1234.0, "backwards": 0, "seconds": 0.5}
    cell = {
        "name": "a",
        "title": "A",
        "cut": 9,
        "documents": 9,
        "tokens": 9.0,
        "hours": 0.1,
        "good": {"all_scales r2": "high"},
        "versions": {},
        "rows": [
            row("random", **known),
            row("silent.jsonl", **unknown),
            row("tells.jsonl", **known | {"seconds": None}),
            row("looked_up.jsonl", **known),  # before files told their cost
        ],
    }
    page, picture, _ = write_page({"cells": [cell]}, tmp_path / "league.md", command="slalom league")
    lines = {line.split("`")[1]: line for line in page.read_text().splitlines() if line.startswith("| `")}
    ends = {name: line.split(" | ")[-3:] for name, line in lines.items()}
    assert ends == {
        "random": ["1,234", "0", "0.50 |"],
        "silent.jsonl": ["–", "–", "– |"],
        "tells.jsonl": ["1,234", "0", "– |"],
        "looked_up.jsonl": ["–", "–", "– |"],
    }
    drawn = picture.read_text()
    assert "tells.jsonl" in drawn
    assert "silent.jsonl" not in drawn
    assert "looked_up.jsonl" not in drawn


def test_rows_of_a_file_that_has_changed_are_not_added_to(tmp_path: Path):
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps({"text": "a", "scores": [1.0]}))
    name, documents = str(path), [Document("a", id="one"), Document("b", id="two")]
    rows = (Measurement("one", name, None, "deletion", "aopc", 1.0),)
    call = {"method": name, "outside": plain(facts(name))}
    found = Results({"methods": {name: call}, "protocols": {}}, (Finished("one", rows, (), ()),))
    assert list(lacking(found, documents, [name])) == [(name,)]
    path.write_text(json.dumps({"text": "a", "scores": [2.0]}))
    with pytest.raises(InputError, match=r"has changed since its rows were measured; .* --again"):
        lacking(found, documents, [name])
    older = Results({"methods": {name: {"method": name}}, "protocols": {}}, found.finished)
    assert lacking(older, documents, [name]), "earlier runs do not say what their file was"
    assert lacking(found, documents, ["random"])
