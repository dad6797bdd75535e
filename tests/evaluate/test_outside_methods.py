"""Methods of others in an evaluation: a function by its name, scores from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from planted_cases import IMPORTANCES, TEXT, VALUES, WORDS, explainer
from slalom import explainers
from slalom.data.dataset import Document
from slalom.errors import InputError
from slalom.evaluate import parse_method
from slalom.evaluate.run import evaluate
from slalom.evaluate.table import Table

WORTH = dict(zip(WORDS, (np.exp(IMPORTANCES) * VALUES).tolist(), strict=True))


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package of someone else, which knows nothing of this one."""
    theirs = ModuleType("theirs")

    def leave_one_out(text: str, predict, target: int) -> list[tuple[str, float]]:
        words = text.split()
        copies = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
        told = predict([text, *copies])[:, target]
        return list(zip(words, (told[0] - told[1:]).tolist(), strict=True))

    def wrong(text: str, predict, target: int) -> list[float]:
        return [1.0, 2.0]

    def broken(text: str, predict, target: int) -> list[float]:
        raise RuntimeError("out of luck")

    for function in (leave_one_out, wrong, broken):
        setattr(theirs, function.__name__, function)
    theirs.number = 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "theirs", theirs)
    monkeypatch.setattr(explainers, "_OUTSIDE", {})
    monkeypatch.chdir(tmp_path)


def write(name: str, rows: list[dict]) -> str:
    if name.endswith("jsonl"):
        Path(name).write_text("\n".join(map(json.dumps, rows)))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), name)
    return name


def texts(count: int) -> list[Document]:
    rng = np.random.default_rng(0)
    return [Document(" ".join(rng.permutation(WORDS)[:12]), 1, f"t{i}") for i in range(count)]


@pytest.mark.parametrize("name", ["scores.jsonl", "scores.parquet"])
def test_a_file_and_a_function_are_ranked_beside_ours(name: str):
    documents = texts(14)  # enough for both tests of a difference
    rows = [
        {"text": d.text, "tokens": str(d.text).split(), "scores": [WORTH[w] for w in str(d.text).split()]}
        for d in documents
    ]
    write(name, rows)
    methods = [name, "theirs:leave_one_out", "occlusion", "random"]
    results = evaluate(explainer(), documents, methods, ["leave_one_out", "deletion"], "out", target=1)
    table = Table(results)
    assert results.methods == tuple(methods)
    cells = table.cells["leave_one_out", "spearman"]
    assert cells["theirs:leave_one_out"].mean == pytest.approx(cells["occlusion"].mean, abs=0.02)
    assert table.leads(("leave_one_out", "spearman"), "theirs:leave_one_out")
    assert not table.leads(("leave_one_out", "spearman"), "random")
    assert cells[name].mean > 0.5
    assert table.costs["theirs:leave_one_out"]["queries"].mean == 14, "its questions are counted"
    assert table.costs[name]["queries"].mean == 1


def test_a_method_of_others_explains_too():
    explainers.open_outside("theirs:leave_one_out")
    found = explainer()(TEXT, method="theirs:leave_one_out", target=1)
    assert found.method == "theirs:leave_one_out"
    assert len(found) == 24


def test_a_file_that_has_changed_is_read_again():
    for scores in ([1.0] * 24, [2.0] * 24):
        write("scores.jsonl", [{"text": TEXT, "scores": scores}])
        explainers.open_outside("scores.jsonl")
        found = explainer()(TEXT, method="scores.jsonl", target=1)
        assert found.score().tolist() == scores


def test_names_are_not_opened_unless_asked_for():
    with pytest.raises(InputError, match="no method 'theirs:leave_one_out'"):
        explainers.load("theirs:leave_one_out")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("theirs:nothing", "cannot find the function"),
        ("nowhere_at_all:f", "cannot find the function"),
        ("theirs:number", "is no function"),
        ("missing.jsonl", "no file"),
        ("theirs:wrong:budget", "cannot be read at 'budget'"),
    ],
)
def test_what_cannot_be_opened_is_said_at_once(spec: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_method(spec)


def test_options_still_follow_colons():
    found = parse_method("theirs:leave_one_out:seed=3")
    assert (found.method, found.call) == ("theirs:leave_one_out", {"seed": 3})


def test_scores_that_do_not_fit_are_rows_that_say_why():
    write("few.jsonl", [{"text": "another text", "scores": [1.0]}])
    documents = texts(1)
    methods = ["theirs:wrong", "theirs:broken", "few.jsonl", "occlusion"]
    results = evaluate(explainer(), documents, methods, ["deletion"], "out", target=1)
    reasons = {row.method: row.reason or "" for row in results.measurements if row.status == "failed"}
    assert "2 scores for 12 tokens" in reasons["theirs:wrong"]
    assert "out of luck" in reasons["theirs:broken"]
    assert "no scores for the text" in reasons["few.jsonl"]
    write("bad.jsonl", [{"scores": [1.0]}])
    with pytest.raises(InputError, match="needs columns"):
        parse_method("bad.jsonl")


def test_a_cut_text_is_found_by_its_beginning_and_words_need_no_strings():
    words = TEXT.split()
    write("whole.jsonl", [{"text": TEXT, "tokens": words, "scores": list(range(24))}])
    write("plain.jsonl", [{"text": " ".join(words[:8]), "scores": list(range(8))}])
    for name in ("whole.jsonl", "plain.jsonl"):
        explainers.open_outside(name)
        found = explainer()(" ".join(words[:8]), method=name, target=1)
        np.testing.assert_allclose(found.score(), np.arange(8.0))
