"""A whole benchmark with tiny numbers; nothing here judges a speed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from rounding import same_scores
from slalom.cli import app
from slalom.errors import InputError, SlalomError
from slalom_lab.bench import PARTS, BenchSettings, peers
from slalom_lab.bench.parts import equal_quality
from slalom_lab.bench.report import markdown
from slalom_lab.bench.run import run
from slalom_lab.bench.setup import Bench
from zoo import SENTENCES, tiny

TINY = {
    "tokens": 14,
    "samples": 24,
    "documents": 2,
    "repeats": 1,
    "slow_documents": 1,
    "peers": ("reference", "lime", "captum"),
    "engines": ("lean",),
    "quality_peers": ("lime", "captum"),
    "quality_tokens": (8, 30),
    "budgets": (10, 20),
    "memory_queries": (10, 40),
    "together_documents": 2,
    "together_tokens": 10,
    "scaling_tokens": (6, 12),
    "scaling_samples": (10, 20),
    "scaling_layers": (1, 2),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    for one in tiny("bert"):
        one.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def finished(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], Path]]:
    """All parts, with a peer that is missing and one that fails."""

    def fail(*_: object) -> Any:
        raise RuntimeError("no such device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(peers.PEERS, "lime", replace(peers.PEERS["lime"], module="no_such_package"))
        patch.setitem(peers.PEERS, "captum", replace(peers.PEERS["captum"], explain=fail))
        out = tmp_path_factory.mktemp("out")
        settings = BenchSettings(model=model, **TINY)
        yield run(settings, SENTENCES, out=out, source="sentences", command="slalom bench"), out


def test_every_part_is_in_the_report(finished: tuple[dict[str, Any], Path]) -> None:
    document, out = finished
    assert list(document["parts"]) == list(PARTS)
    assert not [part for part in document["parts"].values() if "failed" in part]
    written = json.loads((out / "bench.json").read_text())
    assert written == json.loads(json.dumps(document))
    report = (out / "bench.md").read_text()
    assert report.count("\n## ") == 1 + len(PARTS)
    assert (out / "scaling.png").stat().st_size > 1000
    assert "![Time against length, samples and layers](scaling.png)" in report
    assert "    slalom bench" in report


def test_every_goal_of_the_parts_is_judged_by_its_own_numbers(finished: tuple[dict[str, Any], Path]) -> None:
    parts = finished[0]["parts"]
    goals = [found for part in parts.values() for found in part["goals"]]
    assert (
        len(goals) == 11
    )  # one of overhead and memory, two of limits, together and quality, three of samples
    for found in goals:
        if found["ratio"]["n"]:
            above = found["ratio"]["median"] >= found["bound"]
            same = found["ratio"]["median"] == found["bound"]
            assert found["reached"] is ((above if found["sense"] == "at least" else not above) or same)
    missed = {name for name, part in parts.items() if any(g["reached"] is False for g in part["goals"])}
    profiled = {name for name, part in parts.items() if "profile" in part}
    assert profiled == missed - {"memory"}


def test_ratios_follow_from_the_seconds_beside_them(finished: tuple[dict[str, Any], Path]) -> None:
    overhead = finished[0]["parts"]["overhead"]
    ratios = [
        row["seconds"]["explanation"][0] / row["seconds"]["forward"][0] for row in overhead["documents"]
    ]
    assert overhead["goals"][0]["ratio"]["low"] == pytest.approx(min(ratios))
    assert overhead["goals"][0]["ratio"]["n"] == 2
    rows = finished[0]["parts"]["memory"]["rows"]
    assert finished[0]["parts"]["memory"]["goals"][0]["ratio"]["median"] == rows[1]["peak"] / rows[0]["peak"]
    assert rows[0]["peak"] >= rows[0]["loaded"] > 10


def test_equal_quality_times_every_engine_and_ranks_with_the_default(model: str) -> None:
    settings = BenchSettings(model=model, **{**TINY, "engines": ("eager", "lean"), "repeats": 2})
    bench = Bench(settings, SENTENCES)
    found = equal_quality._ours(bench, bench.working(), SENTENCES[0], 10)
    assert list(found["seconds"]) == ["lean", "eager"]  # the default comes first
    assert min(found["seconds"].values()) > 0
    alone = equal_quality._ours(bench, {"lean": bench.explainer}, SENTENCES[0], 10)
    same_scores(found["aopc"], alone["aopc"])


def test_peers_that_cannot_be_measured_say_why(finished: tuple[dict[str, Any], Path]) -> None:
    document, _ = finished
    rows = {row["who"]: row for row in document["parts"]["equal_samples"]["seconds"]}
    assert rows["lime"]["missing"] == "not installed: pip install lime"
    assert rows["captum"]["missing"] == "failed: RuntimeError: no such device"
    assert rows["reference"]["seconds"]["n"] == 2
    report = markdown(document)
    assert "not measured: not installed: pip install lime" in report
    assert "| captum | failed: RuntimeError: no such device |" in report


def test_finished_parts_outlive_an_interruption(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = BenchSettings(model=model, **TINY)

    def interrupted(_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("slalom_lab.bench.parts.together.measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(settings, SENTENCES, parts=("overhead", "together"), out=tmp_path)
    kept = json.loads((tmp_path / "bench.json").read_text())["parts"]
    assert list(kept) == ["overhead"]
    again = run(settings, SENTENCES, parts=(), out=tmp_path)
    assert again["parts"] == kept


def test_another_run_is_not_dropped_unless_asked(model: str, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    settings = BenchSettings(model=model, **TINY)
    run(settings, SENTENCES, parts=("overhead",), out=tmp_path)
    before = file.read_bytes()
    for changed, given in (("samples was 24, now 30", {"samples": 30}), ("seed was 0, now 1", {"seed": 1})):
        with pytest.raises(InputError, match=f"other settings .*{changed}.* --fresh"):
            run(replace(settings, **given), SENTENCES, parts=("overhead",), out=tmp_path)
    with pytest.raises(InputError, match="source was , now other texts"):
        run(settings, SENTENCES, parts=("overhead",), out=tmp_path, source="other texts")
    assert file.read_bytes() == before
    fresh = run(replace(settings, samples=30), SENTENCES, parts=(), out=tmp_path, fresh=True)
    assert fresh["parts"] == {}


def test_a_part_that_fails_is_reported_and_the_others_go_on(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Any:
        raise SlalomError("no memory here")

    monkeypatch.setattr("slalom_lab.bench.parts.memory.measure", broken)
    found = run(BenchSettings(model=model, **TINY), SENTENCES, parts=("memory", "overhead"))
    assert "Not measured: no memory here" in markdown(found)
    assert found["parts"]["overhead"]["goals"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"peers": ("limes",)}, "no peer 'limes'; choose from reference"),
        ({"engines": ("warp",)}, "no engine 'warp'"),
        ({"samples": 0}, "samples must be at least 1; got 0"),
        ({"quality_tokens": (9, 3)}, "shortest and the longest"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        BenchSettings(**wrong)


def test_the_command_prints_json_and_nothing_else(model: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    pandas.DataFrame({"text": SENTENCES, "label": [0, 1] * 4}).to_csv(file, index=False)
    numbers = ["--tokens", "12", "--budget", "10", "-n", "1", "--repeats", "1", "--engines", "eager"]
    given = ["bench", "--data", str(file), "-m", model, *numbers, "--parts", "overhead", "--json"]
    found = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["settings"]["samples"] == 10
    assert document["parts"]["overhead"]["goals"][0]["bound"] == 1.15
    assert (tmp_path / "out" / "bench.md").read_text().startswith("# Speed")


def test_the_command_refuses_a_part_that_does_not_exist(model: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    pandas.DataFrame({"text": SENTENCES, "label": [0, 1] * 4}).to_csv(file, index=False)
    found = CliRunner().invoke(app, ["bench", "--data", str(file), "-m", model, "--parts", "all"])
    assert found.exit_code == 1
    assert "there is no part 'all'; choose from overhead" in found.stderr
