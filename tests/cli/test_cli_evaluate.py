"""`slalom evaluate` as a user meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner, Result

from slalom.cli import app
from slalom.cli.run import RENAMED
from zoo import tiny

ROWS = [
    ("an honest and moving film with a wonderful cast", 1, "test"),
    ("dull, lifeless and far too long to sit through", 0, "test"),
    ("the jokes land and the music is a joy to hear", 1, "test"),
    ("a wonderful joy", 1, "train"),
    ("a dull bore", 0, "train"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("SLALOM_DEBUG", raising=False)
    monkeypatch.delenv("SLALOM_DATA", raising=False)
    pandas.DataFrame(ROWS, columns=["text", "label", "split"]).to_csv("reviews.csv", index=False)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert")
    for part in tiny("bert"):
        part.save_pretrained(folder)
    return str(folder)


def run(*arguments: str, **more: Any) -> Result:
    given = [
        "--data",
        "reviews.csv",
        "--methods",
        "occlusion,random",
        "--protocols",
        "deletion",
        "--out",
        "out",
    ]
    return CliRunner().invoke(app, ["evaluate", *given, *arguments], **more)


def test_a_table_files_and_a_second_run_that_repeats_nothing():
    result = run()
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert next(line for line in lines if line.startswith("occlusion ")).split()[-3:] == ["11", "101", "0"]
    assert result.stderr == "wrote out/table.md and the tables and figures beside it\n"
    table = Path("out/table.md").read_text()
    assert "3 documents of 9 to 11 tokens" in table
    assert table.startswith("# bundled on reviews (test)")
    assert Path("out/figures/deletion.png").exists()
    frame = pandas.read_parquet("out/results.parquet")
    assert sorted(frame["method"]) == ["occlusion"] * 3 + ["random"] * 3
    before = Path("out/documents.jsonl").read_bytes()
    assert run("--no-figures").exit_code == 0
    assert Path("out/documents.jsonl").read_bytes() == before


def test_without_matplotlib_there_are_no_figures_unless_they_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(sys.modules["slalom.cli.evaluate"], "find_spec", lambda name: None)
    result = run()
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "wrote out/table.md and the tables beside it\n"
    assert not Path("out/figures").exists()
    assert "slalom-xai[plot]" in run("--figures", "--fresh").stderr


def test_json_is_one_document_and_quiet_is_quiet():
    result = run("--json", "--quiet", "--no-figures", "-n", "2", "--length", "6", "--budget", "30")
    told = json.loads(result.stdout)
    assert result.stderr == ""
    assert told["documents"] == 2
    assert told["settings"]["cut"] == 6
    assert told["settings"]["budget"] == 30
    assert set(told["numbers"][0]["methods"]) == {"occlusion", "random"}
    assert not Path("out/figures").exists()


def test_split_corpus_target_and_variants():
    result = run(
        *(
            "--split",
            "train",
            "--corpus",
            "reviews.csv",
            "--target",
            "positive",
            "--no-figures",
            "--length",
            "4",
        ),
        *("--methods", "naive_bayes,slalom:effort=fast,slalom:effort=fast:score=value"),
        *("--protocols", "leave_one_out,naive_bayes_agreement", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert list(told["settings"]["methods"]) == [
        "naive_bayes",
        "slalom:effort=fast",
        "slalom:effort=fast:score=value",
    ]
    assert (told["documents"], told["settings"]["corpus"]["texts"]) == (2, 2)
    assert told["settings"]["target"] == "positive"
    agreement = next(n for n in told["numbers"] if n["protocol"] == "naive_bayes_agreement")
    assert agreement["methods"]["naive_bayes"]["mean"] == pytest.approx(1.0)


def test_the_settings_name_the_engine(bert: str):
    result = run("-m", bert, "--engine", "lean", "--no-figures", "--quiet", "-n", "2")
    assert result.exit_code == 0, result.stderr
    kept = json.loads(Path("out/settings.json").read_text())
    assert kept["model"]["engine"] == "lean"
    other = run("-m", bert, "--no-figures", "-n", "2")
    assert other.exit_code == 1
    assert "other settings (model.engine was lean, now absent)" in other.stderr


def test_other_settings_need_another_directory_or_fresh():
    assert run("--no-figures", "--quiet").exit_code == 0
    result = run("--no-figures", "--seed", "1")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: 'out' holds an evaluation with other settings (seed was 0, now 1); "
        "choose another --out, or --fresh to begin again there\n"
    )
    assert run("--no-figures", "--seed", "1", "--fresh").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--methods", "occlusion,shapp"), "error: there is no method 'shapp'; choose one of:"),
        (("--protocols", "delete"), "error: there is no protocol 'delete'; choose one of:"),
        (("--data", "none.csv"), "error: cannot read 'none.csv'"),
        (("--split", "dev"), "error: reviews has no split 'dev'"),
        (("--target", "neutral"), "error: the model has no label 'neutral'"),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], told: str):
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1
    assert not Path("out/table.md").exists()


def test_a_run_in_which_nothing_could_be_measured_fails_with_the_reason():
    result = run("--methods", "lime:budget=1", "--no-figures")
    assert result.exit_code == 1
    assert "error: nothing could be measured: 'lime' needs at least 2 queries" in result.stderr
    assert "| failed | explaining | 3 (every method) |" in Path("out/table.md").read_text()


def test_wrong_usage_and_help():
    assert CliRunner().invoke(app, ["evaluate", "--out", "out"]).exit_code == 2
    assert run("--limit", "0").exit_code == 2
    told = run("--help").stdout
    assert "slalom evaluate --data reviews.csv --out results" in told
    assert "--protocols" in told


DOCS = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_docs_name_every_protocol_and_their_example_runs(capsys: pytest.CaptureFixture[str]):
    from slalom.evaluate import names

    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in names() if f"`{name}`" not in text] == []
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert "Average(mean=" in capsys.readouterr().out
    assert Path("judged/results.parquet").exists()


def test_a_narrow_terminal_has_an_answer_standard_errors_and_whole_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "44")
    result = run("--protocols", "deletion,removals,leave_one_out,cost", "--no-figures")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("Too few documents to tell: 3 documents")
    assert max(map(len, result.stdout.splitlines())) <= 44
    words = set(result.stdout.replace("\n", " ").split())
    assert {"deletion", "removals", "queries", "method"} <= words
    assert any(word.startswith("±0.") for word in words)


def test_options_by_the_names_they_had_before():
    result = run("--documents=2", "--no-figures")
    assert result.exit_code == 0, result.stderr
    assert "warning: --documents is called --limit now" in result.stderr.splitlines()
    assert Path("out/documents.jsonl").read_text().count("\n") == 2
    for command, renamed in RENAMED.items():
        told = CliRunner().invoke(app, [command, "--help"]).stdout
        for before, now in renamed.items():
            assert now in told
            assert f"{before} " not in told
