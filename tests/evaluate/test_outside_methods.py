"""Methods of others in an evaluation: a function by its name, scores from files."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from planted_cases import IMPORTANCES, TEXT, VALUES, WORDS, explainer
from slalom import Explainer, explainers
from slalom.data.dataset import Document
from slalom.errors import InputError, SlalomError
from slalom.evaluate import parse_method
from slalom.evaluate.run import evaluate
from slalom.evaluate.table import Table, verdict
from slalom.outside import is_outside

WORTH = dict(zip(WORDS, (np.exp(IMPORTANCES) * VALUES).tolist(), strict=True))


def gives_none(text: str, predict, target: int) -> None:
    """Forgets to give anything back."""


def halves(text: str, predict, target: int) -> list:
    return [("w1", 1.0), 2.0]


def letters(text: str, predict, target: int) -> list:
    return ["a" for _ in text.split()]


def asking(ask, target, *, budget: int = 5) -> list[float]:
    return [float(budget)] * len(ask.tokens)


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

    for function in (leave_one_out, wrong, broken, gives_none, halves, letters, asking):
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
    assert np.isnan(table.costs[name]["queries"].mean), "the file does not say it"


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


def explained(name: str, text: Any = TEXT, target: int | str = 1, **model: Explainer):
    explainers.open_outside(name)
    return model.get("by", explainer())(text, method=name, target=target)


def test_what_a_file_tells_of_its_cost_is_its_cost():
    documents = texts(8)
    rows = [{"text": d.text, "scores": [WORTH[w] for w in str(d.text).split()]} for d in documents]
    cost = {"queries": 700, "tokens_read": 6000, "backwards": 0}
    write("dear.jsonl", [row | cost for row in rows])
    write("dear.parquet", [row | cost for row in rows])
    write("queries.jsonl", [row | {"queries": 70} for row in rows])
    write("silent.jsonl", rows)
    names = ["dear.jsonl", "dear.parquet", "queries.jsonl", "silent.jsonl"]
    results = evaluate(
        explainer(), documents, [*names, "occlusion", "random"], ["deletion", "cost"], "out", target=1
    )
    judged = {row.method: row.status for row in results.measurements if row.protocol == "cost"}
    assert {name for name, status in judged.items() if status == "ok"} == {*names, "occlusion", "random"} - {
        "silent.jsonl"
    }
    table = Table(results)
    assert [table.asked(name) for name in names] == [
        ["700", "6,000", "0"],
        ["700", "6,000", "0"],
        ["70", "–", "–"],
        ["–", "–", "–"],
    ]
    assert math.isnan(table.costs["dear.jsonl"]["seconds"].mean), "nobody has measured them"
    import pyarrow.parquet as pq

    spent = {row["method"]: row for row in pq.read_table("out/cost.parquet").to_pylist()}
    assert [spent["silent.jsonl"][part] for part in ("queries", "tokens", "backwards", "seconds")] == [
        None
    ] * 4
    assert (spent["dear.jsonl"]["queries"], spent["dear.jsonl"]["seconds"]) == (700, None)
    assert spent["occlusion"]["seconds"] > 0
    assert "silent.jsonl" not in verdict(table).partition(":")[0], (
        "of equal methods the cheapest, where known"
    )
    told = explained("dear.jsonl", documents[0].text)
    assert (told.cost.queries, told.cost.tokens, told.cost.backwards) == (700, 6000, 0)
    assert "cost is not known" in " ".join(explained("silent.jsonl", documents[0].text).notes)


def test_a_changed_file_or_function_is_another_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    documents = texts(2)
    row = {"text": documents[0].text, "scores": [1.0] * 12}
    source = tmp_path / "changing.py"
    source.write_text("def ones(text, predict, target):\n    return [1.0] * len(text.split())\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    write("scores.jsonl", [row])
    methods = ["scores.jsonl", "changing:ones"]

    def run(count: int) -> None:
        evaluate(explainer(), documents[:count], methods, ["deletion"], "out", target=1)

    run(1)
    run(2)
    write("scores.jsonl", [row | {"scores": [2.0] * 12}])
    with pytest.raises(InputError, match=r"methods.scores.jsonl.outside.digest was \w+, now \w+"):
        run(2)
    write("scores.jsonl", [row])
    run(2)
    source.write_text(source.read_text().replace("1.0", "2.0"))
    with pytest.raises(InputError, match=r"methods.changing:ones.outside.digest was"):
        run(2)


def test_tokens_of_another_text_are_no_scores_of_this_one():
    write("other.jsonl", [{"text": TEXT, "tokens": ["zzz"] * 24, "scores": [1.0] * 24}])
    with pytest.raises(InputError, match=r"most of the tokens do not stand in the text .*'zzz'"):
        explained("other.jsonl")
    words = TEXT.split()
    tokens = ["[CLS]", *words, "[SEP]", *["<pad>"] * 40]
    write("special.jsonl", [{"text": TEXT, "tokens": tokens, "scores": [1.0] * len(tokens)}])
    assert explained("special.jsonl").score().tolist() == [1.0] * 24
    longer = f"{TEXT} {' '.join(f'more{i}' for i in range(90))}"
    scores = list(range(len(longer.split())))
    write("longer.jsonl", [{"text": longer, "tokens": longer.split(), "scores": scores}])
    write("blanks.jsonl", [{"text": longer, "scores": scores}])
    for name in ("longer.jsonl", "blanks.jsonl"):
        assert explained(name).score().tolist() == list(range(24)), "a cut text has the rest elsewhere"


def test_a_file_says_for_which_label_its_scores_are():
    def row(worth: float, **target: object) -> dict:
        return {"text": TEXT, "scores": [worth] * 24, **target}

    labels = explainer().labels
    write("both.jsonl", [row(1.0, target=labels[0]), row(2.0, target=labels[1])])
    write("places.jsonl", [row(1.0, target=0), row(2.0, target=1.0)])
    for name in ("both.jsonl", "places.jsonl"):
        assert [explained(name, target=target).score()[0] for target in (0, 1)] == [1.0, 2.0]
    write("one.parquet", [row(1.0, target=labels[0])])
    with pytest.raises(InputError, match=f"for the label '{labels[0]}', and not for '{labels[1]}'"):
        explained("one.parquet")
    write("strange.jsonl", [row(1.0, target="strange"), row(3.0)])
    assert explained("strange.jsonl").score()[0] == 3.0
    documents = [Document(TEXT, 1, "t")]
    results = evaluate(explainer(), documents, ["one.parquet", "random"], ["deletion"], "out", target=1)
    assert [row.method for row in results.measurements if row.status == "failed"] == ["one.parquet"]


def test_a_text_that_stands_twice_has_the_same_scores_or_is_refused():
    row = {"text": TEXT, "scores": [1.0] * 24}
    write("same.jsonl", [row, row])
    assert explained("same.jsonl").score()[0] == 1.0
    write("two.jsonl", [row, row | {"scores": [2.0] * 24}])
    with pytest.raises(InputError, match=r"'two.jsonl', row 2: .* has other scores in a row before"):
        parse_method("two.jsonl")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0]], "row 1: it needs columns `text` and `scores`"),
        ([{"text": "a", "scores": [1.0]}, 7], "row 2: it needs columns"),
        ([{"text": "a", "scores": None}], "row 1: `scores` are no list of finite numbers: None"),
        ([{"text": "a", "scores": 1.0}], "row 1: `scores` are no list"),
        ([{"text": "a", "scores": "a"}], "row 1: `scores` are no list"),
        ([{"text": "a", "scores": [[1.0]]}], "row 1: `scores` are no list"),
        ([{"text": "a", "scores": [1.0, None]}], "row 1: `scores` are no list"),
        ([{"text": "a", "scores": [float("nan")]}], "row 1: `scores` are no list"),
        ([{"text": "a", "scores": [1.0], "tokens": ["a", "b"]}], "row 1: 2 tokens, but 1 scores"),
        ([{"text": "a", "scores": [1.0], "tokens": [3]}], "row 1: `tokens` must be a list of strings"),
        ([{"text": 7, "scores": [1.0]}], "row 1: `text` must be a list of strings"),
        ([{"text": ["a"], "scores": [1.0]}], "row 1: `text` must be a string, or a list of two"),
        ([{"text": "a", "scores": [1.0], "target": 0.5}], "row 1: `target` must be a whole number"),
        ([{"text": "a", "scores": [1.0], "queries": -1}], "row 1: `queries` must be a whole number"),
        (
            [{"text": "a", "scores": [1.0], "queries": 3}, {"text": "b", "scores": [1.0]}],
            "row 2: `queries` is missing; give it in every row, or in none",
        ),
        ([], "has no rows"),
    ],
)
def test_a_bad_row_is_named_when_the_file_is_opened(rows: list, message: str):
    write("bad.jsonl", rows)
    with pytest.raises(InputError, match=message) as error:
        parse_method("bad.jsonl")
    assert "'bad.jsonl'" in str(error.value)


def test_lines_end_at_line_feeds_alone():
    Path("odd.jsonl").write_text(json.dumps({"text": "w1\u2028w2", "scores": [1.0]}, ensure_ascii=False))
    assert parse_method("odd.jsonl").method == "odd.jsonl"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gives_none", "must give a score for each word, or pairs of string and score; got None"),
        ("halves", "must give a score for each word, or pairs"),
        ("letters", "the scores are no list of finite numbers"),
    ],
)
def test_what_a_function_gives_is_checked(name: str, message: str):
    with pytest.raises(SlalomError, match=f"theirs:{name}.*{message}"):
        explained(f"theirs:{name}")


def test_a_budget_of_a_function_s_own_holds_where_none_is_given():
    asking = sys.modules["theirs"].asking
    assert explained("theirs:asking").score()[0] == 5.0
    assert explainer()(TEXT, method=asking, target=1).score()[0] == 5.0
    assert explainer()(TEXT, method=asking, target=1, budget=9).score()[0] == 9.0


def test_scores_of_words_between_blanks():
    text = "the film's end isn't bad"
    write("words.jsonl", [{"text": text, "scores": [1.0, 2.0, 3.0, 4.0, 5.0]}])
    bundled = Explainer()
    told = explained("words.jsonl", text, "positive", by=bundled)
    assert len(told) > 5, "the tokenizer has more words"
    assert told.score().sum() == pytest.approx(15.0)
    assert dict(zip(told.tokens.strings, told.score(), strict=True))["bad"] == 5.0


@pytest.mark.parametrize("name", ["pair.jsonl", "pair.parquet"])
def test_a_file_holds_pairs_as_lists(name: str):
    pair = ("a good film", "a bad film")
    write(name, [{"text": list(pair), "scores": [0.0, 1.0, 0.0, 0.0, -1.0, 0.0]}])
    told = explained(name, pair, 0, by=Explainer(lambda texts: [[0.4, 0.6]] * len(texts)))
    assert told.score().tolist() == [0.0, 1.0, 0.0, 0.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("theirs:good", True),
        ("theirs:good:seed=1", True),
        ("scores.jsonl", True),
        ("folder/scores.parquet:seed=1", True),
        ("slalom", False),
        ("lime:budget=100", False),
        ("slalom:effort=fast:seed=3", False),
    ],
)
def test_options_do_not_make_a_method_ours(name: str, outside: bool):
    assert is_outside(name) is outside
