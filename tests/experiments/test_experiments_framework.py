"""Experiments are found by their names, run one by one, kept, and reported as they came out."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slalom.cli import app
from slalom.errors import InputError
from slalom_lab import experiments
from slalom_lab.experiments._shared import real, runner
from slalom_lab.experiments._shared.outcome import Row, RunSettings, mean_row, read_outcome
from slalom_lab.experiments._shared.report import table, write_report
from slalom_lab.experiments._shared.runner import ExperimentReport, read_reports, reproduce

NAMES = experiments.names()


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(__file__).parent
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(here / "added")])
    monkeypatch.syspath_prepend(here)
    monkeypatch.delenv("SLALOM_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


def runs(out: Path) -> int:
    return len((out / "toy_sum" / "runs.txt").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_all_its_parts(name: str) -> None:
    told, module = experiments.describe(name), experiments.load(name)
    assert told.title == module.TITLE
    assert told.claim == module.CLAIM
    assert set(module.SIZES) == {"quick", "full"}
    assert callable(module.run)
    assert callable(module.judge)


def test_the_papers_items_are_there() -> None:
    wanted = {
        "recovery",
        "fig3_repeats",
        "fig5_scatter",
        "fig6_shap_repeats",
        "fig9_ana",
        "fig10_human_map",
        "fig11_review",
        "table2a_naive_bayes",
        "table2b_human_attention",
        "table2c_deletion",
        "table6_surrogates",
        "table9_insertion",
        "table10_tfidf",
        "table11_runtime",
        "table12_samples",
        "table13_larger",
    }
    assert wanted <= set(NAMES)


def test_a_new_file_is_a_new_experiment() -> None:
    assert {"toy_sum", "toy_data", "toy_broken"} <= set(experiments.names())
    assert experiments.describe("toy_sum").claim == "one and one are two"


def test_listing_loads_no_model_library() -> None:
    code = (
        "import sys; from slalom_lab import experiments; experiments.experiments(); "
        "print([name for name in ('torch', 'transformers', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="no experiment 'fig99'; choose one of: "):
        experiments.load("fig99")


def test_the_first_word_of_a_name_is_enough_where_it_is_one() -> None:
    assert experiments.full_name("table2a") == "table2a_naive_bayes"
    assert experiments.full_name("recovery") == "recovery"
    with pytest.raises(InputError, match="no experiment 'toy'"):
        experiments.full_name("toy")


def test_a_run_writes_rows_outcome_figure_and_report(tmp_path: Path) -> None:
    [report] = reproduce(["toy_sum"], tmp_path, RunSettings())
    write_report(tmp_path)
    folder = tmp_path / "toy_sum"
    assert {"rows.csv", "outcome.json", "figure.png", "figure.svg"} <= {p.name for p in folder.iterdir()}
    with (folder / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {
        "model": "counting",
        "measure": "sum",
        "ours": "2.0",
        "error": "",
        "n": "1",
        "paper": "2.0",
        "paper_error": "0.5",
    }
    document = json.loads((folder / "outcome.json").read_text())
    assert document["run"] == {"mode": "quick", "seed": 0, "encoder": None, "size": {"numbers": 2}}
    assert read_outcome(document["outcome"]) == report.outcome
    text = (tmp_path / "reproduction.md").read_text()
    assert "**holds**: the sum is 2" in text
    assert "| counting | 2 (2 ± 0.5) |" in text
    assert "![toy_sum](toy_sum/figure.png)" in text


def test_the_verdict_follows_the_rows(tmp_path: Path) -> None:
    [quick] = reproduce(["toy_sum"], tmp_path / "quick", RunSettings())
    [full] = reproduce(["toy_sum"], tmp_path / "full", RunSettings("full", seed=4))
    assert (quick.verdict, full.verdict) == ("holds", "does not hold")
    assert full.outcome is not None
    assert full.outcome.seeds == (4,)
    assert full.sentence == "the sum is 3"


def test_an_encoder_that_joins_by_itself_belongs_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "installed", lambda: None)
    reproduce(["toy_sum"], tmp_path, RunSettings("full"))
    monkeypatch.setattr(real, "installed", lambda: tmp_path)
    with pytest.raises(InputError, match=r"other settings .*installed None"):
        reproduce(["toy_sum"], tmp_path, RunSettings("full"))
    reproduce(["toy_sum"], tmp_path, RunSettings("full"), fresh=True)
    document = json.loads((tmp_path / "toy_sum" / "outcome.json").read_text())
    assert document["run"]["installed"] == real.PACKAGE
    reproduce(["toy_sum"], tmp_path / "quick", RunSettings())
    assert "installed" not in json.loads((tmp_path / "quick" / "toy_sum" / "outcome.json").read_text())["run"]


def test_what_is_kept_from_another_commit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(runner, "commit", lambda _: "aaa")
    reproduce(["toy_sum"], tmp_path, RunSettings())
    reproduce(["toy_sum"], tmp_path, RunSettings(), tell=lambda _, what: said.append(what))
    assert said == []
    monkeypatch.setattr(runner, "commit", lambda _: "bbb")
    reproduce(["toy_sum"], tmp_path, RunSettings(), tell=lambda _, what: said.append(what))
    assert said == ["kept from commit aaa; this is bbb (--fresh runs it again)"]
    assert runs(tmp_path) == 1


def test_time_before_an_interruption_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, settings = experiments.load("toy_sum"), RunSettings()
    whole, now = module.run, [100.0]
    monkeypatch.setattr(runner.time, "perf_counter", lambda: now[0])

    def stopped(here: RunSettings) -> None:
        now[0] += 50.0
        here.say("half of it")
        raise KeyboardInterrupt

    def ended(here: RunSettings) -> object:
        now[0] += 7.0
        return whole(here)

    monkeypatch.setattr(module, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce(["toy_sum"], tmp_path, settings)
    assert json.loads((tmp_path / "toy_sum" / "spent.json").read_text())["seconds"] == 50.0
    monkeypatch.setattr(module, "run", ended)
    assert reproduce(["toy_sum"], tmp_path, settings)[0].seconds == 57.0
    assert not (tmp_path / "toy_sum" / "spent.json").exists()
    assert reproduce(["toy_sum"], tmp_path, settings, fresh=True)[0].seconds == 7.0


def test_missing_data_and_failures_do_not_stop_the_others(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def done(report: ExperimentReport, before: bool) -> None:
        seen.append((report.name, before))

    names = ["toy_broken", "toy_data", "toy_sum"]
    reports = reproduce(names, tmp_path, RunSettings(), done=done)
    assert [report.verdict for report in reports] == ["failed", "not run", "holds"]
    assert reports[0].reason == "RuntimeError: it broke"
    assert "needs the data set yelp_hat" in reports[1].sentence
    assert seen == [(name, False) for name in names]
    assert {report.name: report.verdict for report in read_reports(tmp_path)} == {
        "toy_broken": "failed",
        "toy_data": "not run",
        "toy_sum": "holds",
    }
    text = write_report(tmp_path).read_text()
    assert "**failed**: RuntimeError: it broke" in text


def test_a_missing_package_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "shap" else real(name, *a)
    )
    [report] = reproduce(["fig6_shap_repeats"], tmp_path, RunSettings())
    assert report.verdict == "not run"
    assert report.sentence == "needs shap; install them with: pip install 'slalom-xai[methods]'"


def test_finished_experiments_are_not_repeated(tmp_path: Path) -> None:
    [first] = reproduce(["toy_sum"], tmp_path, RunSettings())
    [again] = reproduce(["toy_sum"], tmp_path, RunSettings())
    assert (runs(tmp_path), again) == (1, first)
    reproduce(["toy_sum"], tmp_path, RunSettings(), fresh=True)
    assert runs(tmp_path) == 2
    reproduce(["toy_broken"], tmp_path, RunSettings())
    [broken] = reproduce(["toy_broken"], tmp_path, RunSettings())  # what failed is tried again
    assert broken.status == "failed"


def test_a_folder_keeps_to_its_settings(tmp_path: Path) -> None:
    reproduce(["toy_sum"], tmp_path, RunSettings())
    with pytest.raises(InputError, match=r"other settings .*mode quick, seed 0.*--fresh"):
        reproduce(["toy_sum"], tmp_path, RunSettings("full"))
    assert runs(tmp_path) == 1


def test_an_experiment_whose_sizes_changed_is_repeated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["toy_sum", "toy_other"]
    reproduce(names, tmp_path, RunSettings())
    module = experiments.load("toy_sum")
    monkeypatch.setitem(module.SIZES, "quick", module.Size(3))
    seen: dict[str, bool] = {}
    reproduce(names, tmp_path, RunSettings(), done=lambda report, before: seen.update({report.name: before}))
    assert seen == {"toy_sum": False, "toy_other": True}
    assert runs(tmp_path) == 2


@pytest.mark.parametrize("given", [{"mode": "slow"}, {"seed": -1}, {"seed": 1.5}])
def test_wrong_settings_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(InputError):
        RunSettings(**given)  # type: ignore[arg-type]


def test_a_mean_and_its_standard_error() -> None:
    row = mean_row({}, "x", [1.0, 2.0, 3.0])
    assert row == Row({}, "x", 2.0, row.error, 3)
    assert row.error == pytest.approx(1 / 3**0.5)
    assert mean_row({}, "x", []).ours is None


def test_the_table_has_a_line_for_each_place_and_a_column_for_each_measure() -> None:
    rows = [
        Row({"model": "a|b", "layers": 1}, "x", 0.123456, 0.01, paper=0.5),
        Row({"model": "a|b", "layers": 1}, "y", None),
        Row({"model": "c", "layers": 2}, "x", 1234.5),
    ]
    assert table(rows).splitlines() == [
        "| model | layers | x | y |",
        "|---|---|---|---|",
        "| a\\|b | 1 | 0.123 ± 0.01 (0.5) | – |",
        "| c | 2 | 1234 |  |",
    ]


def test_a_report_judges_rows_by_todays_criteria(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce(["toy_sum"], tmp_path, RunSettings())
    monkeypatch.setattr(experiments.load("toy_sum"), "judge", lambda rows: (None, f"{len(rows)} rows, newer"))
    text = write_report(tmp_path).read_text()
    assert "**undecided**: 2 rows, newer." in text
    assert "| undecided | quick |" in text

    def lacking(_: object) -> None:
        raise KeyError("a row of today")

    monkeypatch.setattr(experiments.load("toy_sum"), "judge", lacking)
    assert "**holds**: the sum is 2." in write_report(tmp_path).read_text()


def test_the_report_goes_elsewhere_with_its_rows_and_figures(tmp_path: Path) -> None:
    reproduce(["toy_sum", "toy_other"], tmp_path / "first", RunSettings())
    reproduce(["toy_sum"], tmp_path / "out", RunSettings())
    where, beside = tmp_path / "docs" / "reproduction.md", tmp_path / "docs" / "reproduction"
    write_report(tmp_path / "first", where)
    assert (beside / "toy_other" / "outcome.json").is_file()
    write_report(tmp_path / "out", where)
    assert not (beside / "toy_other").exists(), "that was another run"
    assert sorted(path.name for path in (beside / "toy_sum").iterdir()) == ["figure.png", "outcome.json"]
    text = where.read_text()
    assert "](reproduction/toy_sum/figure.png)" in text
    where.unlink()
    assert write_report(beside, where).read_text() == text, "it is made of the rows beside it"


def test_the_document_is_the_report_of_the_rows_beside_it(tmp_path: Path) -> None:
    """If criteria changed: `slalom reproduce report docs/reproduction --write docs/reproduction.md`."""
    docs = Path(__file__).parents[2] / "docs"
    shutil.copytree(docs / "reproduction", tmp_path / "reproduction")
    found = write_report(tmp_path / "reproduction", tmp_path / "reproduction.md")
    assert found.read_text() == (docs / "reproduction.md").read_text()


def test_the_report_is_in_the_papers_order_and_analyses_the_rows(tmp_path: Path) -> None:
    reproduce(["toy_sum", "toy_broken", "toy_other"], tmp_path, RunSettings())
    text = write_report(tmp_path).read_text()
    assert text.index("## toy_other") < text.index("## toy_sum")  # Fig. 2 stands before Fig. 10
    assert "Analysis: of 2 numbers each is 1." in text
    assert "3 experiments in 0 minutes" in text
    assert "before. Verdicts: holds: 2, failed: 1." in text
    assert "--encoder" not in text


def test_the_report_names_an_encoder_that_was_given(tmp_path: Path) -> None:
    reproduce(["toy_sum"], tmp_path, RunSettings("full", encoder=tmp_path / "mine"))
    assert "--full --data-dir DIR --encoder ENCODER --out OUT" in write_report(tmp_path).read_text()


def test_the_command_prints_one_summary_and_tells_failures(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run = CliRunner().invoke
    fine = run(app, ["reproduce", "toy_sum", "toy_data", "--out", out])
    assert fine.exit_code == 0, fine.output
    assert "holds" in fine.stdout
    assert "not run" in fine.stdout
    assert "needs the data set yelp_hat" in " ".join(fine.stdout.split())
    assert "not run: 1, holds: 1" in fine.stdout
    assert run(app, ["reproduce", "toy_broken", "--out", out]).exit_code == 1
    assert "toy_sum" in run(app, ["reproduce", "list"]).stdout
    written = run(app, ["reproduce", "report", out, "--write", str(tmp_path / "r.md")])
    assert written.exit_code == 0, written.output
    assert "the sum is 2" in (tmp_path / "r.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["nothing_like_it"], 1, "there is no experiment"),
        (["toy_sum", "--write", "x.md"], 2, "--write goes with report"),
        (["toy_sum", "--encoder", "x"], 2, "--encoder is for --full"),
        (["report"], 2, "report needs the folder"),
        (["report", "nowhere"], 1, "holds no experiment"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, arguments: list[str], code: int, told: str) -> None:
    done = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == code
    assert told in done.output
