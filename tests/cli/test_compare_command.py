from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from slalom import Explanation
from slalom.cli import app
from slalom.explainers import names

TEXT = "attention based explanations are popular but questionable"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("SLALOM_DEBUG", raising=False)


def run(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(app, ["compare", *arguments], **more)


def test_every_method_with_the_bundled_model_aligned():
    result = run(TEXT, "--html", "methods.html")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("explaining", 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if "questionable" in line)
    ran = [name for name in names() if name != "naive_bayes"]
    shown = lines[start + 1 : start + 1 + len(ran)]
    assert sorted(line.split()[0] for line in shown) == sorted(ran)
    column = lines[start].index("questionable")
    slalom = next(line for line in shown if line.startswith("slalom "))
    assert slalom[column : column + 4] == "++++"
    assert "naive_bayes: not run. 'naive_bayes' needs labelled data" in result.stdout
    assert result.stderr == "wrote methods.html\n"
    page = Path("methods.html").read_text()
    assert all(f'<th scope="row">{name}</th>' in page for name in ran)


def test_json_is_one_document():
    Path("data.csv").write_text("text,label\npopular,positive\nquestionable,negative\n")
    result = run(
        TEXT, "--json", "--methods", "occlusion, naive_bayes,random", "--corpus", "data.csv", "-t", "negative"
    )
    document = json.loads(result.stdout)
    assert (
        list(document["methods"])
        == ["occlusion", "naive_bayes", "random"]
        == document["correlations"]["order"]
    )
    found = Explanation.from_dict(document["methods"]["naive_bayes"])
    assert found.target == "negative"
    assert found.top(2) == [
        ("popular", pytest.approx(np.log(20 / 21))),
        ("questionable", pytest.approx(np.log(21 / 20))),
    ]
    assert np.shape(document["correlations"]["signed"]) == (3, 3)
    assert document["not_run"] == {}
    assert result.stderr == ""


def test_budget_seed_and_words():
    result = run("-", "--json", "--methods", "lime", "--budget", "50", "--seed", "4", "--words", input=TEXT)
    found = Explanation.from_dict(json.loads(result.stdout)["methods"]["lime"])
    assert found.tokens.strings == tuple(TEXT.split())
    assert (found.settings["budget"], found.settings["seed"]) == (50, 4)


def test_a_wrong_name_is_one_line():
    result = run(TEXT, "--methods", "slalom,shapp")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is no method 'shapp'; choose one of: attention,")
    assert result.stderr.count("\n") == 1


def test_help_shows_how():
    assert "slalom compare" in run("--help").stdout
