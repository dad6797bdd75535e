"""Tables, figures and files of results that are known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slalom.evaluate.figures import draw
from slalom.evaluate.report import comparisons, document, markdown, render, report, write_report
from slalom.evaluate.results import CurvePoint, Finished, Measurement, Results, Spent
from slalom.evaluate.table import Table, figure, missing, verdict
from slalom.files import to_json

SETTINGS = {
    "model": {"name": "my_model"},
    "data": "reviews | test",
    "cut": 256,
    "target": None,
    "budget": "auto",
    "seed": 0,
    "methods": {"slalom": {}, "lime": {}, "random": {}, "gradient": {}},
    "protocols": {
        "deletion": {"aopc": "high"},
        "removals": {"mse": "low", "r2": "high"},
        "human_attention": {f"n{i}": "high" for i in range(9)},
    },
    "versions": {"numpy": "2"},
}
LEVELS = {"slalom": 0.9, "lime": 0.897, "random": 0.2}
SHIFTS = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1)


def one(place: int) -> Finished:
    name = f"d{place}"
    rows, spent, points = [], [], []
    for method, level in LEVELS.items():
        wiggle = 0.01 * (-1) ** place if method == "lime" else 0.0  # lime: now above, now below slalom
        value = level - SHIFTS[place] + wiggle
        rows.append(Measurement(name, method, "linear", "deletion", "aopc", value))
        rows.append(Measurement(name, method, "linear", "removals", "mse", 1 - value))
        if place < 2:
            rows.append(Measurement(name, method, "linear", "removals", "r2", 100.0 * (level - 0.5)))
        else:
            rows.append(Measurement(name, method, "linear", "removals", None, None, "skipped", "too | short"))
        rows += [Measurement(name, method, "linear", "human_attention", f"n{i}", 1.0) for i in range(9)]
        spent.append(Spent(name, method, 10 + place, 100, 1000 * (place + 1), 0.5, 0.25))
        points += [
            CurvePoint(name, method, curve, k / 4, level * k / 4)
            for curve in ("deletion", "insertion")
            for k in (1, 2, 3, 4)
        ]
    rows.append(Measurement(name, "gradient", None, None, None, None, "failed", "no gradients"))
    return Finished(name, tuple(rows), tuple(spent), tuple(points), wall=30.0)


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(SETTINGS, tuple(one(place) for place in range(6)))


@pytest.fixture(scope="module")
def table(results: Results) -> Table:
    return Table(results)


def test_means_and_standard_errors_over_documents(table: Table):
    cell = table.cells["deletion", "aopc"]["slalom"]
    given = 0.9 - np.array(SHIFTS)
    assert cell.mean == pytest.approx(given.mean())
    assert cell.stderr == pytest.approx(given.std(ddof=1) / math.sqrt(6))
    assert cell.n == 6
    assert table.costs["lime"]["tokens"].mean == 3500


def test_best_or_tied_in_bold_and_n_where_documents_are_missing(table: Table):
    lines = markdown(table).splitlines()
    mine = next(line for line in lines if line.startswith("| `slalom` | **0.850 ± 0.015** |"))
    assert mine == "| `slalom` | **0.850 ± 0.015** | **0.150 ± 0.015** | 1.000 ± 0.000 | 100 | 3,500 | 0 |"
    assert any(line.startswith("| `lime` | **0.847 ± ") for line in lines), "a tie is no defeat"
    assert any(line.startswith("| `random` | 0.150 ± 0.015 | 0.850 ± 0.015") for line in lines)
    assert "| `slalom` | **0.150 ± 0.015** | 40.000 ± 0.000 (2) |" in lines, "two documents show nothing"
    assert "| `gradient` | – | – | – | – | – | – |" in lines
    assert "| method | mse ↓ | r2 ↑ |" in lines


def test_all_alike_is_nobodys_merit(table: Table):
    assert table.cell(("human_attention", "n0"), "random") == "1.000 ± 0.000"


def test_wide_protocols_get_several_tables(table: Table):
    assert [len(page) for page in table.groups()["human_attention"]] == [4, 4, 1]
    assert table.main == [("deletion", "aopc"), ("removals", "mse"), ("human_attention", "n0")]


def test_what_is_missing_is_counted_with_its_reason(table: Table, results: Results):
    text = markdown(table)
    assert "| failed | explaining | 6 (`gradient`) | no gradients |" in text
    assert "| skipped | removals | 4 (`slalom`), 4 (`lime`), 4 (`random`) | too \\| short |" in text
    assert missing(results)["skipped", "removals", "lime", "too | short"] == 4
    complete = replace(
        results.finished[0],
        measurements=tuple(r for r in results.finished[0].measurements if r.status == "ok"),
    )
    assert "Nothing: every method" in markdown(Table(Results(SETTINGS, (complete,))))


def test_the_clock_stands_apart(table: Table, results: Results):
    slower = tuple(
        replace(f, wall=3600.0, spent=tuple(replace(s, seconds=9.0) for s in f.spent))
        for f in results.finished
    )
    other = Table(Results(SETTINGS, slower))
    assert markdown(other) == markdown(table)
    told = report(other, "slalom evaluate --out 'x y'")
    assert told.startswith(markdown(table).rstrip())
    assert "| `lime` | 9.000 | 0.250 |" in told
    assert "Run time: 6 h 0 min." in told
    assert "Run time: 3 min 0 s." in report(table)
    assert "slalom evaluate --out 'x y'" in told
    assert '- versions: `{"numpy": "2"}`' in told
    assert told.splitlines()[0] == "# my\\_model on reviews \\| test"


def test_one_document_has_no_standard_error(results: Results):
    table = Table(Results(SETTINGS, results.finished[:1]))
    assert table.cell(("deletion", "aopc"), "random") == "0.200"


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0.000"), (-0.1234, "-0.123"), (1234.56, "1234.6"), (1e-5, "1.00e-05"), (5e6, "5.00e+06")],
)
def test_digits(value: float, told: str):
    assert figure(value) == told


def test_comparisons_are_paired_and_adjusted(table: Table):
    found = {(c["protocol"], c["number"], c["method"]): c for c in comparisons(table)}
    random = found["deletion", "aopc", "random"]
    assert random["leader"] == "slalom"
    assert random["difference"] == pytest.approx(0.7)
    assert random["p"] < 0.05 < found["deletion", "aopc", "lime"]["p"]


def test_comparisons_say_what_both_sides_cost(results: Results):
    dearer = tuple(
        replace(f, spent=tuple(replace(s, backwards=7) if s.method == "slalom" else s for s in f.spent))
        for f in results.finished
    )
    table = Table(Results(SETTINGS, dearer))
    found = next(c for c in comparisons(table) if c["method"] == "lime")
    assert (found["leader_tokens"], found["method_tokens"]) == (3500, 3500)
    assert (found["leader_backwards"], found["method_backwards"]) == (7, 0)
    assert "| 100 | 3,500 | 7 |" in markdown(table)


def test_too_few_documents_are_said_to_be_too_few(results: Results):
    table = Table(Results(SETTINGS, results.finished[:5]))
    assert verdict(table) == "Too few documents to tell: 5 documents, and no outcome on fewer than 6 can."
    assert not any(table.leads(number, "slalom") for number in table.cells)


def test_the_json_document_is_whole(table: Table):
    told = json.loads(to_json(document(table)))
    first = told["numbers"][0]
    assert (first["protocol"], first["number"], first["good"]) == ("deletion", "aopc", "high")
    assert first["methods"]["slalom"]["best_or_tied"] is True
    assert first["methods"]["random"]["best_or_tied"] is False
    assert told["documents"] == 6
    assert told["cost"]["slalom"]["queries"] == 100
    assert {
        "status": "failed",
        "protocol": None,
        "method": "gradient",
        "reason": "no gradients",
        "documents": 6,
    } in told["skipped_and_failed"]


def test_tidy_parquet(results: Results, tmp_path: Path):
    import pandas

    results.write(tmp_path)
    frame = pandas.read_parquet(tmp_path / "results.parquet")
    assert list(frame) == ["document", "method", "score", "protocol", "number", "value", "status", "reason"]
    assert frame["value"].dtype == float
    assert len(frame) == len(results.measurements)
    random = frame.query("number == 'aopc' and method == 'random'")["value"].to_numpy(dtype=float)
    assert random.mean() == pytest.approx(0.15)
    cost = pandas.read_parquet(tmp_path / "cost.parquet")
    assert (cost["queries"].dtype, cost["seconds"].dtype) == (np.dtype("int64"), np.dtype("float64"))
    assert len(pandas.read_parquet(tmp_path / "curves.parquet")) == 6 * 3 * 8


def test_figures_as_png_and_svg(table: Table, tmp_path: Path):
    paths = {path.name: path for path in write_report(table, tmp_path)}
    drawn = {name for name in paths if name.endswith("png")}
    assert drawn == {
        "deletion.png",
        "removals.png",
        "human_attention_1.png",
        "human_attention_2.png",
        "human_attention_3.png",
        "quality_and_cost.png",
        "curves.png",
    }
    for name in drawn:
        assert paths[name].read_bytes().startswith(b"\x89PNG")
        assert "<svg" in paths[name.replace("png", "svg")].read_text()
    before = paths["curves.svg"].read_bytes()
    draw(table, tmp_path)
    assert paths["curves.svg"].read_bytes() == before, "the same results give the same figure"
    assert (tmp_path / "comparisons.parquet").exists()


def test_the_page_begins_with_the_answer_and_holds_its_figures(table: Table, tmp_path: Path):
    write_report(table, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index(verdict(table)) < page.index("<table>") < page.index("data:image/png;base64,")
    assert '<td class="best">0.850 ±0.015</td>' in page
    assert "reviews | test" in page
    assert "http" not in page.replace("http-equiv", "")
    hostile = dict(SETTINGS, methods={"<script>alert(1)</script>": {}}, data="<b>x</b>")
    told = render(Table(Results(hostile, table.results.finished)))
    assert "<script" not in told
    assert "<b>" not in told


def test_without_results_there_is_a_table_still(tmp_path: Path):
    rows = (Measurement("d0", "slalom", None, None, None, None, "failed", "no"),)
    table = Table(Results(SETTINGS, (Finished("d0", rows, (), ()),)))
    names = [path.name for path in write_report(table, tmp_path)]
    assert names == ["table.md", "comparisons.parquet", "report.html"]
    assert "| failed | explaining | 1 (`slalom`) | no |" in (tmp_path / "table.md").read_text()


def judged(costs: dict[str, int], **levels: float) -> Table:
    """Methods that reach their level, give or take a little, on each of eight documents."""
    finished = []
    for place in range(8):
        name, wiggle = f"d{place}", 0.001 * (-1) ** place
        rows = tuple(
            Measurement(name, method, "attribution", "deletion", "aopc", level + i * wiggle)
            for i, (method, level) in enumerate(levels.items())
        )
        spent = tuple(Spent(name, method, 10, cost, 10 * cost, 0.1, 0.1) for method, cost in costs.items())
        finished.append(Finished(name, rows, spent, ()))
    own = {"methods": {method: {} for method in levels}, "protocols": {"deletion": {"aopc": "high"}}}
    return Table(Results(SETTINGS | own, tuple(finished)))


def test_of_tied_methods_the_better_one_is_recommended():
    """A wide error may tie a method that is much worse by all that was seen."""
    finished, methods = [], ("slalom", "occlusion", "random")
    for place in range(12):
        name = f"d{place}"
        worth = dict(zip(methods, (0.9, 0.9 if place % 6 else -1.0, 0.2), strict=True))
        rows = tuple(
            Measurement(name, m, "attribution", "deletion", "aopc", x + 0.001 * place)
            for m, x in worth.items()
        )
        finished.append(Finished(name, rows, tuple(Spent(name, m, 10, 1, 1, 0.1, 0.1) for m in worth), ()))
    own = {"methods": {m: {} for m in methods}, "protocols": {"deletion": {"aopc": "high"}}}
    table = Table(Results(SETTINGS | own, tuple(finished)))
    assert table.leads(table.main[0], "occlusion")
    assert verdict(table).startswith("Use slalom: ")


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (
            {"slalom": 0.9, "lime": 0.89, "random": 0.1},
            "Use slalom: best or tied in the one number that tells methods apart; lime costs a tenth of it "
            "and is 0.010 behind.",
        ),
        (
            {"slalom": 0.9, "lime": 0.9, "random": 0.1},
            "Use lime: best or tied in the one number that tells methods apart; slalom is so as often.",
        ),
        (
            {"slalom": 0.9, "lime": 0.5, "random": 0.1},
            "Use slalom: best or tied in the one number that tells methods apart.",
        ),
        (
            {"slalom": 0.5, "lime": 0.5, "random": 0.5},
            "Too few documents to tell: on 8 documents a difference shows from 1.1 of its standard "
            "deviations on.",
        ),
        ({"slalom": 0.5}, ""),
    ],
)
def test_the_answer_in_words(levels: dict[str, float], said: str):
    table = judged({"slalom": 1000, "lime": 100, "random": 1}, **levels)
    assert verdict(table) == said
    assert said in markdown(table)
    assert document(table)["verdict"] == said


def with_a_file(call: dict, results: Results) -> Table:
    """The same numbers, where `lime` is a file of scores; its costs, as they were measured, are small."""
    methods = SETTINGS["methods"] | {"lime": {"method": "theirs.parquet", **call}}
    finished = tuple(
        replace(f, spent=tuple(replace(s, tokens=1) if s.method == "lime" else s for s in f.spent))
        for f in results.finished
    )
    return Table(Results(SETTINGS | {"methods": methods}, finished))


def test_a_cost_that_nobody_knows_is_a_dash_and_decides_nothing(results: Results, tmp_path: Path):
    cheap = with_a_file({"outside": {"costs": ["queries", "tokens", "backwards"]}}, results)
    assert "lime costs" in verdict(cheap), "a file may tell its cost"
    assert cheap.asked("lime") == ["100", "1", "0"]
    unknown = with_a_file({}, results)  # as in results that were written before files could tell it
    assert unknown.asked("lime") == ["–", "–", "–"]
    assert "costs" not in verdict(unknown)
    assert verdict(unknown).startswith("Use slalom")
    told = markdown(unknown)
    assert any(line.startswith("| `lime` |") and line.endswith("| – | – | – |") for line in told.splitlines())
    assert "| `lime` | – | – |" in report(unknown)
    assert "<td>–</td><td>–</td><td>–</td>" in render(unknown)
    assert document(unknown)["cost"]["lime"]["tokens"] is None
    write_report(unknown, tmp_path)
    assert "lime" not in (tmp_path / "figures" / "quality_and_cost.svg").read_text().replace("slalom", "")


def test_the_best_method_may_be_one_whose_cost_nobody_knows(results: Results):
    methods = SETTINGS["methods"] | {"slalom": {"method": "theirs.jsonl"}, "lime": {"method": "ours.jsonl"}}
    told = verdict(Table(Results(SETTINGS | {"methods": methods}, results.finished)))
    assert told.startswith("Use slalom: best or tied")
    assert "costs" not in told
