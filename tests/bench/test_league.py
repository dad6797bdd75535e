"""The league table: it continues, takes further methods, says what is missing, and writes its page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from planted_cases import IMPORTANCES, VALUES, WORDS, explainer
from prompts import causal
from slalom import Explainer, explainers
from slalom.cli import app
from slalom.errors import InputError, SlalomError, SlalomWarning
from slalom.evaluate import store
from slalom_lab.bench import league as module
from slalom_lab.bench import league_cells as cells_module
from slalom_lab.bench import league_origin
from slalom_lab.bench.league import LeagueCell, family, league
from slalom_lab.bench.league_cells import CELLS, documents, topic_pairs
from slalom_lab.bench.league_page import sentences, write_page
from slalom_lab.bench.league_rows import run_name, runs


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
    (usual,) = (tmp_path / "out/planted").glob("*/documents.jsonl")
    lines = usual.read_bytes()
    again = league("out", cells[:1], limit=6, methods=["linear:budget=40"], open_model=opened)
    assert usual.read_bytes() == lines, "nothing is run twice"
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


def without_seconds(cell: Any) -> Any:
    """What a cell of the table says, but for time."""
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in cell["rows"]]
    return {name: value for name, value in cell.items() if name != "hours"} | {"rows": rows}


def test_methods_run_apart_make_the_table_of_one_run(cells: list[LeagueCell]):
    whole = league("whole", cells[:1], limit=6, open_model=opened)["cells"][0]
    league("parts", cells[:1], limit=6, only=["random", "occlusion"], open_model=opened)
    league("parts", cells[:1], limit=4, only=["lime:budget=60"], open_model=opened)
    part = league("parts", cells[:1], limit=6, only=["random"], open_model=opened)["cells"][0]
    assert [row["method"] for row in part["rows"]] == ["occlusion", "lime:budget=60", "random"]
    assert part["documents"] == 4, "documents that all rows have"
    found = league("parts", cells[:1], limit=6, open_model=opened)["cells"][0]
    assert without_seconds(found) == without_seconds(whole)


def test_rows_are_measured_again_and_the_others_stay(cells: list[LeagueCell], tmp_path: Path):
    ran: list[str] = []

    def watch(name: str):
        ran.append(name)

    first = league("out", cells[:1], limit=6, open_model=opened)["cells"][0]
    found = league("out", cells[:1], limit=6, again=["lime"], open_model=opened, progress=watch)["cells"][0]
    assert ran == ["planted lime:budget=30, lime:budget=60"]
    assert without_seconds(found) == without_seconds(first)
    times = {row["method"]: row["seconds"] for row in first["rows"]}
    kept = [row["method"] for row in found["rows"] if row["seconds"] == times[row["method"]]]
    assert {"occlusion", "random"} <= set(kept)
    assert len(list((tmp_path / "out/planted").glob("*/documents.jsonl"))) == 2
    league("out", cells[:1], limit=6, open_model=opened, progress=watch)
    assert len(ran) == 1, "nothing is missing"
    with pytest.raises(InputError, match=r"another setting \(seed\)"):
        league("out", cells[:1], limit=6, seed=1, open_model=opened)


def test_cells_of_an_earlier_table_stay_and_own_ones_replace_them(cells: list[LeagueCell]):
    earlier = league("earlier", cells[:1], limit=5, open_model=opened)
    earlier["cells"].append(earlier["cells"][0] | {"name": "elsewhere"})
    kept = league("out", cells[1:], earlier=earlier, open_model=opened)["cells"]
    assert [cell["name"] for cell in kept] == ["planted", "elsewhere", "gone"]
    assert kept[1] == earlier["cells"][1]
    own = league("out", cells[:1], limit=6, earlier=earlier, open_model=opened)["cells"]
    assert [cell.get("documents") for cell in own] == [6, 5, None]
    later = league("out", [], earlier=earlier)["cells"]
    assert later == own
    nowhere = LeagueCell("planted", "the model has gone", "x", "y")
    assert league("out", [nowhere], open_model=opened)["cells"][0]["documents"] == 6


def test_the_reason_why_a_cell_was_not_run_is_the_last_one(cells: list[LeagueCell]):
    earlier = league("earlier", cells[1:], open_model=opened)
    other = [replace(cells[1], model="y")]
    assert league("out", other, earlier=earlier, open_model=opened)["cells"][0]["not_run"] == "no model y"
    assert league("out", [], earlier=earlier)["cells"][0]["not_run"] == "no model y"
    assert league("out", cells[1:], open_model=opened)["cells"][0]["not_run"] == "no model x"


@pytest.mark.parametrize("missing", ["gone.jsonl", "no_such_module:function", "json:no_such_function"])
def test_a_method_that_is_not_there_is_told_before_a_model_is_opened(cells: list[LeagueCell], missing: str):
    def never(cell: LeagueCell, models: Any) -> Any:
        raise AssertionError("a model was opened")

    with pytest.raises(InputError, match=missing):
        league("out", cells, methods=[missing], open_model=never)


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
    methods = ["scores.jsonl", "theirs:lengths", "theirs:lengths:seed=1"]
    found = league("out", cells[:1], limit=6, methods=methods, open_model=opened)
    ranked = {row["method"]: row["numbers"]["deletion aopc"]["mean"] for row in found["cells"][0]["rows"]}
    assert list(ranked) == ["random", *methods]
    assert ranked["scores.jsonl"] > max(ranked["random"], ranked["theirs:lengths"])
    assert [row["outside"] for row in found["cells"][0]["rows"]] == [False, True, True, True]


def test_two_processes_write_one_table(cells: list[LeagueCell]):
    """While one works on its cell, another one finishes its own: both rows stay, also after a failure."""
    other = LeagueCell("other", "the same model", "planted", "texts.jsonl")

    def during(cell: LeagueCell, models: Any) -> Any:
        league("out", [other], limit=6, open_model=opened)
        return opened(cell, models)

    found = league("out", cells[:1], limit=6, open_model=during)
    assert {cell["name"]: cell["documents"] for cell in found["cells"]} == {"other": 6, "planted": 6}
    later = league("out", [LeagueCell("other", "no model", "x", "y")], open_model=opened)
    assert {cell["name"]: cell.get("documents") for cell in later["cells"]} == {"other": 6, "planted": 6}


def test_what_another_process_works_on_is_left_to_it(cells: list[LeagueCell], tmp_path: Path):
    """A group of methods that is at work elsewhere is not run, and the next cell is."""
    busy = tmp_path / "out" / "planted" / run_name(module.METHODS)
    busy.mkdir(parents=True)
    other = LeagueCell("other", "the same model", "planted", "texts.jsonl")
    with (
        store.locked(busy),
        pytest.warns(SlalomWarning, match=r"planted: occlusion, .* not run: another process"),
    ):
        found = league("out", [cells[0], other], limit=6, open_model=opened)["cells"]
    assert [cell.get("documents") for cell in found] == [None, 6]
    assert league("out", cells[:1], limit=6, open_model=opened)["cells"][0]["documents"] == 6


def test_nothing_is_forgotten_of_what_another_process_writes(cells: list[LeagueCell], tmp_path: Path):
    league("out", cells[:1], limit=6, open_model=opened)
    run = tmp_path / "out" / "planted" / run_name(module.METHODS)
    there = {path.name: path.read_bytes() for path in run.iterdir()}
    again = {"again": ["lime"], "limit": 6, "open_model": opened}
    with store.locked(run), pytest.warns(SlalomWarning, match="planted: nothing was forgotten"):
        league("out", cells[:1], **again)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == there
    rest = run.parent / run_name(["occlusion", "random"])
    rest.mkdir()
    with store.locked(rest), pytest.warns(SlalomWarning, match="planted: nothing was forgotten"):
        league("out", cells[:1], **again)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == there
    league("out", cells[:1], **again)
    assert [path.name for path in run.iterdir()] == [store.LOCK], (
        "the lock stays, so that it is one and the same"
    )


def page_of(found: Any, folder: Path) -> str:
    return write_page(found, folder / "league.md", command="slalom league --page league.md")[0].read_text()


def test_commands_and_commits_are_kept_and_told(
    cells: list[LeagueCell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def run(command: str, commit: str, **more: Any) -> Any:
        monkeypatch.setattr(league_origin, "commit", lambda _: commit)
        return league("out", cells[:1], limit=6, open_model=opened, command=command, **more)

    run("slalom one", "abc1234", only=["occlusion", "lime"])
    found = run("slalom two", "def5678")
    both = [{"command": "slalom one", "commit": "abc1234"}, {"command": "slalom two", "commit": "def5678"}]
    assert sorted(found["cells"][0]["made"], key=str) == both
    assert run("slalom nothing to do", "9999999")["cells"] == found["cells"]
    page = page_of(found, tmp_path / "docs")
    assert "```sh\nslalom league --page league.md\n```" in page
    assert "slalom one\n" in page
    assert "slalom two\n" in page
    assert "abc1234" in page
    assert "def5678" in page
    assert f"torch {found['cells'][0]['versions']['torch']}" in page
    kept = run("slalom three", "fed", again=["random"])["cells"][0]["made"]
    assert sorted(one["command"] for one in kept) == ["slalom one", "slalom three"]
    kept = run("slalom four", "fed", again=["lime"])["cells"][0]["made"]
    assert sorted(one["command"] for one in kept) == ["slalom four", "slalom one", "slalom three"], (
        "occlusion is still of the first command"
    )


def test_runs_that_say_nothing_are_of_unknown_origin(cells: list[LeagueCell], tmp_path: Path):
    first = league("out", cells[:1], limit=3, open_model=opened)
    (run,) = runs(tmp_path / "out" / "planted")
    (run / league_origin.MADE_BY).unlink()
    assert first["cells"][0]["made"] == [league_origin.origin(None)]
    found = league("out", cells[:1], limit=6, open_model=opened, command="slalom on")["cells"][0]["made"]
    assert found == [{"command": None, "commit": None}, league_origin.origin("slalom on")]
    assert (run / store.SETTINGS).exists()


def test_every_method_of_the_library_has_a_row_or_a_reason():
    """A new file in `explainers` needs a line in METHODS or in LEFT_OUT (CONTRIBUTING.md says so)."""
    files = {path.stem for path in Path(explainers.__file__).parent.glob("[!_]*.py")}
    ranked = {method.partition(":")[0] for method in module.METHODS}
    assert ranked | module.LEFT_OUT.keys() == files
    assert ranked.isdisjoint(module.LEFT_OUT)
    assert all(len(reason) > 10 for reason in module.LEFT_OUT.values())


def test_dear_cells_leave_out_what_costs_most(monkeypatch: pytest.MonkeyPatch):
    cell = LeagueCell("a", "b", "c", "d")
    everything = module.usual_methods(cell)
    assert everything == list(module.METHODS)
    dear = module.usual_methods(replace(cell, dear=True))
    assert set(everything) - set(dear) == set(module.DEAR)
    fewer = module.usual_methods(replace(cell, without=("random",)))
    assert set(everything) - set(fewer) == {"random"}
    outside = module.usual_methods(replace(cell, inside=False))
    assert {m.partition(":")[0] for m in set(everything) - set(outside)} == set(module.INSIDE)


def test_pairs_of_news_are_of_one_topic_or_of_two(tmp_path: Path):
    rows = [{"text": f"news {i} of topic {i % 4}", "label": i % 4, "split": "test"} for i in range(40)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "agnews.parquet")
    pairs = topic_pairs("test", 30, seed=3, data_dir=tmp_path)
    for pair in pairs:
        first, second = pair.text
        assert (first.split()[-1] == second.split()[-1]) == bool(pair.label)
        assert first != second
    assert sum(pair.label or 0 for pair in pairs) == 15
    assert topic_pairs("test", 12, seed=3, data_dir=tmp_path) == pairs[:12], "fewer are the beginning of more"
    cell = next(cell for cell in CELLS if cell.name == "pairs")
    assert documents(cell, 12, 3, tmp_path) == pairs[:12]


def row(method: str, tokens: float, fidelity: float, deletion: float, *, tied: tuple[bool, bool]) -> Any:
    numbers = {"all_scales r2": (fidelity, tied[0]), "deletion aopc": (deletion, tied[1])}
    means = {name: {"mean": mean, "stderr": 0.01, "tied": best} for name, (mean, best) in numbers.items()}
    return {"method": method, "tokens": tokens, "numbers": means, "removal_error": 1 - fidelity}


def test_sentences_say_what_the_numbers_say():
    rows = [
        row("slalom", 1000, 0.9, 0.7, tied=(True, False)),
        row("lime:budget=1000", 5000, 0.5, 0.8, tied=(False, True)),
        row("theirs.jsonl", 10, 0.4, 0.75, tied=(False, True)) | {"outside": True},
    ]
    good = {"all_scales r2": "high", "deletion aopc": "high"}
    cell = {"name": "a", "title": "A", "documents": 100, "tokens": 30.0, "good": good, "rows": rows}
    few = cell | {"name": "b", "documents": 9}
    said = "\n".join(sentences([cell, few]))
    assert "All-scale R²: a SLALOM leads in 1 of 1 cells" in said
    assert "`a` `slalom` 0.900, `lime:budget=1000` 0.500." in said
    assert "Deletion: a SLALOM leads in 0 of 1 cells" in said
    assert "`a` 1/5.0 of the tokens, R² 0.900 and 0.500, deletion 0.700 and 0.800" in said
    assert "shown to be behind the leader: `a` deletion (`lime:budget=1000` 0.800)" in said
    assert "`a` 1 of 3 in all-scale R² and 2 of 3 in deletion" in said
    assert "`a`, `theirs.jsonl`: 3 in all-scale R² and 2 in deletion of 3" in said
    assert "is least for: `a` `slalom` 0.100, 3 of 3 below 1" in said
    assert "Too few documents to decide anything: `b` (9)" in said
    assert said.count("`b`") == 1


def test_nothing_is_said_of_nothing():
    assert sentences([]) == []
    cell = {"name": "a", "title": "A", "documents": 100, "tokens": 30.0, "good": {}, "rows": []}
    assert not [said for said in sentences([cell]) if "told apart" in said]


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
    assert "Best or tied" not in told.stdout
    told = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "o"), "-m", "gpt3=./gpt3"])
    assert told.exit_code == 1
    assert "no cell has a model 'gpt3'; those that can be given are: encoder, gpt2, smollm2," in told.stderr
    told = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "o"), "--only", "lime,limes"])
    assert told.exit_code == 1
    assert "the league has no method 'limes'; it has: slalom, lime," in told.stderr


def test_the_command_makes_a_page_of_an_earlier_table(tmp_path: Path):
    earlier = Path(__file__).parents[2] / "docs" / "results" / "league.json"
    page = tmp_path / "league.md"
    options = ["--cells", "gpt2-imdb", "--from", str(earlier), "--page", str(page), "--quiet"]
    told = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "o"), *options])
    assert told.exit_code == 0, told.stderr
    cells = json.loads(earlier.read_text())["cells"]
    assert json.loads((tmp_path / "results" / "league.json").read_text())["cells"] == cells
    assert all(f"## {cell['title']}\n" in page.read_text() for cell in cells)


def test_the_command_tells_how_far_it_is_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given: dict[str, Any] = {}

    def run(out: Path, cells: Any, *, progress: Any, **more: Any) -> Any:
        given.update(more)
        if progress:
            tell = progress("bundled-sst2 lime")
            for done in range(31):
                tell(done, 30, "")
        return {"cells": []}

    monkeypatch.setattr(module, "league", run)
    monkeypatch.setattr("sys.argv", ["slalom", "league", "--out", "/far/away/league", "-m", "gpt2=/far/gpt2"])
    call = ["league", "--out", str(tmp_path), "-m", "gpt2=/far/gpt2"]
    told = CliRunner().invoke(app, call)
    lines = [line for line in told.stderr.splitlines() if line.startswith("bundled-sst2 lime: ")]
    assert len(lines) == 11
    assert lines[0] == "bundled-sst2 lime: 0 of 30 explanations"
    assert lines[-1].startswith("bundled-sst2 lime: 30 of 30 explanations")
    assert given["models"] == {"gpt2": "/far/gpt2"}
    assert given["command"] == "slalom league --out league -m gpt2=gpt2"
    assert "lime" not in CliRunner().invoke(app, [*call, "--quiet"]).stderr


def test_a_language_model_that_is_given_is_prompted(tmp_path: Path):
    language, own = causal("gpt2")
    language.save_pretrained(tmp_path / "tiny")
    own.save_pretrained(tmp_path / "tiny")
    cell = next(cell for cell in CELLS if cell.model == "smollm2")
    asked = cells_module.opened(cell, {"smollm2": str(tmp_path / "tiny")})
    assert asked.labels == ("negative", "positive")
    same = Explainer(language, own, prompt=cells_module.PROMPT, labels=cells_module.ANSWERS, chat=False)
    assert asked.predict("the film") == pytest.approx(same.predict("the film"), rel=1e-4)
    call = [
        "league",
        "--out",
        str(tmp_path / "o"),
        "--cells",
        cell.name,
        "-m",
        f"smollm2={tmp_path / 'gone'}",
    ]
    told = CliRunner().invoke(app, call)
    assert told.exit_code == 0, told.stderr
    assert f"not run: there is no directory {tmp_path / 'gone'}" in told.stdout.replace("\n", " ")


def test_a_file_in_the_place_of_the_folder_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = CliRunner().invoke(app, ["league", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "error: cannot write to the folder" in result.stderr
    assert "unexpected" not in result.stderr
    assert (tmp_path / "file").read_text() == "mine"
