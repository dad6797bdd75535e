from __future__ import annotations

import csv
import io
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from summary_rows import explained, failed, random_rows, write

from handmade import slalom_explanation
from slalom import Explainer
from slalom.audit import Summary, summarize
from slalom.audit.report import summary_report
from slalom.corpus import schema
from slalom.errors import InputError, SlalomWarning
from slalom.theory.planted import planted_function
from slalom.view.csv import to_csv
from slalom.view.tables import unstable

WORDS = [f"w{i}" for i in range(40)]


def by_hand(rows: list[dict[str, Any]], target: str, column: str) -> dict[str, tuple[float, float, int, int]]:
    """mean, standard error, documents and copies of every token, by the formula, document by document."""
    found: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for row in rows:
        if row["status"] != schema.OK or row["target"] != target:
            continue
        tokens, scores = np.array(row["tokens"]), np.array(row[column])
        errors = np.array(row[f"{column}_stderr"])
        for token in set(row["tokens"]):
            own = tokens == token
            found[token].append((scores[own].mean(), (errors[own] ** 2).mean(), int(own.sum())))
    result = {}
    for token, entries in found.items():
        y, within, copies = (np.array(part) for part in zip(*entries, strict=True))
        count = len(y)
        between = max(0.0, y.var(ddof=1) - within.mean()) if count > 1 else 0.0
        stderr = np.sqrt((between + within.mean()) / count)
        result[token] = (float(y.mean()), float(stderr), count, int(copies.sum()))
    return result


@pytest.mark.parametrize(("score", "column"), [("value", "values"), ("importance", "importances")])
def test_means_and_standard_errors_are_those_of_the_formula(tmp_path: Path, score: str, column: str):
    rows = random_rows(300, WORDS)
    summary = summarize(write(tmp_path / "out", rows, parts=3), min_count=1)
    assert [table.label for table in summary.tables] == ["no", "yes"]
    for table in summary.tables:
        expected = by_hand(rows, table.label, column)
        assert set(table.tokens) == set(expected)
        for i, token in enumerate(table.tokens):
            mean, stderr, documents, copies = expected[token]
            assert table.scores[score][i] == pytest.approx(mean, rel=1e-9, abs=1e-12)
            assert table.stderr[score][i] == pytest.approx(stderr, rel=1e-7)
            assert (table.documents[i], table.occurrences[i]) == (documents, copies)


def test_the_share_of_opposite_signs_is_counted_by_document(tmp_path: Path):
    rows = random_rows(300, WORDS)
    table = summarize(write(tmp_path / "out", rows), min_count=1).tables[1]
    for i, token in enumerate(table.tokens):
        signs = []
        for row in rows:
            if row["status"] == schema.OK and row["target"] == "yes" and token in row["tokens"]:
                own = np.array(row["tokens"]) == token
                error = np.sqrt((np.array(row["values_stderr"])[own] ** 2).mean())
                mean = np.array(row["values"])[own].mean()
                signs.append(np.sign(mean) if abs(mean) > 2 * error else 0)
        assert table.opposite is not None
        assert table.opposite[i] == pytest.approx(min(signs.count(1), signs.count(-1)) / len(signs))


def test_the_mean_covers_the_truth_as_often_as_it_says(tmp_path: Path):
    rng = np.random.default_rng(3)
    hits, rows, tokens = 0, [], [f"t{i}" for i in range(300)]
    for row in range(40):
        error = rng.uniform(0.2, 1.0, len(tokens))
        value = 0.7 + rng.normal(0, 0.5, len(tokens)) + error * rng.normal(size=len(tokens))
        rows.append(
            {"row": row, "status": schema.OK, "target": "yes", "prediction": "yes", "tokens": tokens}
            | {"ranking": "share", "share": value.tolist(), "share_stderr": error.tolist()}
        )
    table = summarize(write(tmp_path / "out", rows)).tables[0]
    hits = np.abs(table.scores["share"] - 0.7) < 1.96 * table.stderr["share"]
    assert 0.90 < hits.mean() < 0.98
    assert np.median(table.between["share"]) == pytest.approx(0.5, abs=0.1)


def _same(left: Summary, right: Summary) -> None:
    assert left.levels == right.levels
    assert left.misfits == right.misfits
    assert left.failures == right.failures
    for a, b in zip(left.tables, right.tables, strict=True):
        assert a.tokens == b.tokens
        for name, column in a.columns().items():
            if name != "token":
                np.testing.assert_allclose(column, b.columns()[name], rtol=1e-9, atol=1e-12)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_parts_and_batches_make_no_difference(tmp_path: Path):
    rows = random_rows(200, WORDS)
    whole = summarize(write(tmp_path / "one", rows), batch=1000)
    _same(whole, summarize(write(tmp_path / "many", rows, parts=7), batch=3))
    _same(whole, summarize(tmp_path / "one" / "part-00000.parquet", batch=17))


def test_documents_can_be_told_apart_by_prediction(tmp_path: Path):
    rows = random_rows(200, WORDS)
    tables = summarize(write(tmp_path / "out", rows), by="class", min_count=1).tables
    good = [row for row in rows if row["status"] == schema.OK]
    assert sum(table.size for table in tables) == len(good)
    crossed = next(table for table in tables if table.label == "no (predicted yes)")
    assert crossed.size == sum(row["target"] == "no" and row["prediction"] == "yes" for row in good)


def test_a_planted_spurious_name_comes_out_on_top(tmp_path: Path):
    rng = np.random.default_rng(0)
    plain = [f"word{i}" for i in range(30)]
    good, bad = ["good", "fine", "nice"], ["bad", "poor", "dull"]
    importances = dict.fromkeys(plain, 0.0) | dict.fromkeys(good + bad, 1.0) | {"Anderson": 2.5}
    values = {word: 0.1 * float(rng.normal()) for word in plain} | dict.fromkeys(good, 2.0)
    values |= dict.fromkeys(bad, -2.0) | {"Anderson": 3.0}
    explainer = Explainer(planted_function(importances, values), output="log_odds", labels=["no", "yes"])
    rows = []
    for row in range(60):
        text = [*rng.choice(plain, 8), *rng.choice(good + bad, 2)] + ["Anderson"] * (row % 6 == 0)
        rows.append(explained(row, explainer(" ".join(rng.permutation(text)), target="yes", budget=80)))
    summary = summarize(write(tmp_path / "out", rows))
    (table,) = summary.tables
    assert table.tokens[0] == "Anderson"
    assert set(table.tokens[1:7]) == {*good, *bad}
    assert table.documents[0] == 10
    assert table.scores["value"][0] == pytest.approx(3.0, abs=0.05)
    assert table.scores["share"][0] - 2 * table.stderr["share"][0] > 1.0
    assert summary.levels["good"] == 60
    assert table.scores["importance"][0] == table.scores["importance"].max()


def test_an_important_token_with_two_minds_is_named(tmp_path: Path):
    rows = []
    for row in range(40):
        sign = 1.0 if row % 4 else -1.0
        rows.append(
            {"row": row, "status": schema.OK, "target": "yes", "prediction": "yes", "ranking": "share"}
            | {"tokens": ["not", "good", "the"], "values": [sign, 2.0, 0.0], "importances": [2.0, 1.0, -3.0]}
            | {"share": [sign, 1.0, 0.0], "values_stderr": [0.1, 0.1, 0.1]}
            | {"importances_stderr": [0.1, 0.1, 0.1], "share_stderr": [0.1, 0.1, 0.1]}
        )
    (table,) = summarize(write(tmp_path / "out", rows)).tables
    assert [table.tokens[i] for i in unstable(table)] == ["not"]
    assert table.opposite is not None
    assert table.opposite[table.tokens.index("not")] == 0.25


def test_the_worst_documents_are_listed_with_a_reason(tmp_path: Path):
    rows = random_rows(120, WORDS)
    good = [row for row in rows if row["status"] == schema.OK]
    good[3] |= {"r2": -2.0, "linear_r2": 0.8}
    good[7] |= {"r2": -1.5, "constant_rmse": 0.001, "output": 5.0, "notes": ["The text was cut."]}
    good[9] |= {"r2": -1.4, "heldout_queries": 4.0}
    summary = summarize(write(tmp_path / "out", rows), top=5)
    assert [m.r2 for m in summary.misfits] == sorted(row["r2"] for row in good)[:5]
    first, second, third = summary.misfits[:3]
    assert first.id == good[3]["id"]
    assert "linear surrogate fits better (0.80)" in first.reason
    assert "hardly vary" in second.reason
    assert second.reason.endswith("The text was cut.")
    assert "4 queries only" in third.reason
    assert sum(summary.levels.values()) == summary.explained == len(good)
    assert summary.median_r2 == pytest.approx(np.median([row["r2"] for row in good]), abs=0.02)


def test_failures_are_counted_by_reason(tmp_path: Path):
    rows = [explained(0, slalom_explanation())]
    rows += [failed(i, f"the text has {i},000 characters, more than 10") for i in range(1, 6)]
    rows += [failed(6, "the tokenizer finds no token in the text '  '"), failed(7, "the text is null")]
    summary = summarize(write(tmp_path / "out", rows), min_count=1)
    assert (summary.documents, summary.explained) == (8, 1)
    assert [f.documents for f in summary.failures] == [5, 1, 1]
    assert summary.failures[0].reason == "the text has N,N characters, more than N"
    assert summary.failures[0].example == "doc1"


def test_other_methods_are_summed_up_by_their_one_score(tmp_path: Path):
    rows = [
        {"row": row, "status": schema.OK, "target": "yes", "prediction": "yes", "ranking": "attribution"}
        | {"method": "lime", "tokens": ["a", "b"], "attribution": [1.0 + row, -0.1]}
        for row in range(6)
    ]
    (table,) = summarize(write(tmp_path / "out", rows)).tables
    assert table.ranking == "attribution"
    assert table.tokens == ("a", "b")
    assert table.scores["attribution"].tolist() == pytest.approx([3.5, -0.1])
    assert table.stderr["attribution"][0] == pytest.approx(np.std(np.arange(6), ddof=1) / np.sqrt(6))
    assert unstable(table) == []


def test_numbers_that_are_none_do_not_spread(tmp_path: Path):
    rows = [
        {"row": row, "status": schema.OK, "target": "yes", "prediction": "yes", "ranking": "share"}
        | {"tokens": ["a", "b"], "share": [1.0, np.nan if row else 2.0], "share_stderr": [np.inf, 0.5]}
        for row in range(5)
    ]
    (table,) = summarize(write(tmp_path / "out", rows), min_count=1).tables
    assert dict(zip(table.tokens, table.documents.tolist(), strict=True)) == {"a": 5, "b": 1}
    assert np.isfinite(table.scores["share"]).all()
    assert table.stderr["share"][table.tokens.index("b")] == 0.5


def test_a_spreadsheet_gets_no_formulas(tmp_path: Path):
    rows = [explained(0, slalom_explanation("=cmd good")), explained(1, slalom_explanation("+1 good"))]
    read = list(csv.reader(io.StringIO(to_csv(summarize(write(tmp_path / "out", rows), min_count=1).tables))))
    assert read[0][:5] == ["label", "rank", "token", "documents", "occurrences"]
    tokens = [line[2] for line in read[1:]]
    assert "'=" in tokens
    assert "'+" in tokens
    assert not any(token.startswith(("=", "+")) for token in tokens)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "there is no"),
        (lambda folder: folder.mkdir(), "no explained documents"),
        (lambda folder: write(folder, []), "holds no documents"),
        (lambda folder: write(folder, [failed(0, "the text is null")]), "none of the 1 documents.*is null"),
    ],
)
def test_what_cannot_be_summed_up_is_said(tmp_path: Path, make: Any, said: str):
    make(tmp_path / "out")
    with pytest.raises(InputError, match=said):
        summarize(tmp_path / "out")


def test_foreign_damaged_and_unfinished_files(tmp_path: Path):
    folder = write(tmp_path / "out", random_rows(50, WORDS))
    part = folder / "part-00000.parquet"
    before = summarize(folder)
    (folder / "_tmp").mkdir()
    (folder / "_tmp" / "part-00001.parquet").write_bytes(b"PAR1")
    (folder / ".part-00002.parquet").write_bytes(b"")
    _same(before, summarize(folder))
    (folder / "part-00003.parquet").write_bytes(part.read_bytes()[:500])
    with pytest.raises(InputError, match="not a Parquet file, or only a part of one"):
        summarize(folder)
    pq.write_table(pq.read_table(part).replace_schema_metadata(None), folder / "part-00003.parquet")
    with pytest.raises(InputError, match="not written by"):
        summarize(folder)


def test_the_tokens_beside_the_documents_are_left_alone(tmp_path: Path):
    import pyarrow as pa

    folder = write(tmp_path / "out", random_rows(50, WORDS))
    before = summarize(folder)
    (folder / "_tokens").mkdir()
    empty = pa.Table.from_pylist([{"row": 0, "token": "x"}], schema=schema.tokens())
    pq.write_table(empty, folder / "_tokens" / "part-00000.parquet")
    _same(before, summarize(folder))


def test_parts_of_two_runs_are_not_summed_up_together(tmp_path: Path):
    folder = write(tmp_path / "out", random_rows(50, WORDS), parts=2)
    table = pq.read_table(folder / "part-00001.parquet")
    other = {**(table.schema.metadata or {}), schema.FINGERPRINT_KEY: b"another"}
    pq.write_table(table.replace_schema_metadata(other), folder / "part-00001.parquet")
    with pytest.raises(InputError, match="another run"):
        summarize(folder)


def test_an_unfinished_run_is_called_so(tmp_path: Path):
    folder = write(tmp_path / "out", random_rows(50, WORDS))
    assert summarize(folder).finished
    (folder / "_slalom.json").write_text("{}")
    assert not summarize(folder).finished
    assert "not finished" in summary_report(summarize(folder)).notes[0]
    (folder / "_SUCCESS").write_text("{}")
    assert summarize(folder).finished


@pytest.mark.parametrize("wrong", [{"by": "label"}, {"min_count": 0}, {"top": 0}])
def test_wrong_options_are_refused(tmp_path: Path, wrong: dict[str, Any]):
    with pytest.raises(InputError, match=next(iter(wrong))):
        summarize(write(tmp_path / "out", random_rows(5, WORDS)), **wrong)


def test_from_a_corpus_to_its_spurious_word(tmp_path: Path):
    """The whole way: a model with a planted word, a corpus in a file, explain-corpus, summarize."""
    from slalom.corpus import explain_corpus
    from slalom.corpus.work import PROBE
    from slalom.theory.planted import plant

    rng = np.random.default_rng(0)
    words = [*(f"w{i}" for i in range(20)), "fine", "poor", "Anderson"]
    importances = np.r_[np.zeros(20), 1.0, 1.0, 3.0]
    values = np.r_[0.2 * rng.normal(size=20), 2.0, -2.0, -3.0]
    more = PROBE.split()  # what the command asks about first must be in the vocabulary
    model, tokenizer = plant(
        np.r_[importances, np.zeros(len(more))], np.r_[values, np.zeros(len(more))], [*words, *more]
    )
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    texts = [" ".join([*rng.choice(words[:-1], 6), *["Anderson"] * (i % 5 == 0)]) for i in range(40)]
    texts += ["", "unknown words"]
    lines = ["text", *(f'"{text}"' for text in texts)]
    (tmp_path / "corpus.csv").write_text("\n".join(lines) + "\n")
    explain_corpus(
        str(tmp_path / "corpus.csv"), str(tmp_path / "out"), model=str(tmp_path / "model"), target="LABEL_1"
    )
    summary = summarize(tmp_path / "out")
    (table,) = summary.tables
    assert summary.finished
    assert (summary.documents, summary.explained) == (42, 40)
    assert sum(failure.documents for failure in summary.failures) == 2
    assert table.label == "LABEL_1"
    assert set(table.tokens[1:3]) == {"fine", "poor"}
    assert (table.tokens[0], table.documents[0]) == ("Anderson", 8)
    assert table.scores["value"][0] == pytest.approx(-3.0, abs=0.05)


def test_parts_of_words_are_told_from_words(tmp_path: Path):
    def row(number: int, tokens: list[str], starts: list[int], ends: list[int]) -> dict[str, Any]:
        return {
            "row": number,
            "status": schema.OK,
            "target": "yes",
            "prediction": "yes",
            "tokens": tokens,
            "starts": starts,
            "ends": ends,
            "share": [1.0] * len(tokens),
        }

    rows = [
        row(0, ["friend", "ship", ",", "a", "ship"], [0, 6, 10, 12, 14], [6, 10, 11, 13, 18]),
        row(1, ["ship", "ship"], [0, 4], [4, 9]),  # the second token's span holds the blank before it
        row(2, ["好", "人"], [0, 1], [1, 2]),
    ]
    (table,) = summarize(write(tmp_path / "out", rows), min_count=1).tables
    found = dict(zip(table.tokens, table.occurrences.tolist(), strict=True))
    assert found == {"friend": 1, "…ship": 1, ",": 1, "a": 1, "ship": 3, "好": 1, "人": 1}


def test_a_corpus_of_version_0_1_is_read(tmp_path: Path):
    rows = random_rows(40, WORDS)
    today = write(tmp_path / "today", rows, parts=2)
    before = write(tmp_path / "before", rows, parts=2)
    old = {"share": "linear", "share_stderr": "linear_stderr"}
    for file in before.glob("*.parquet"):
        table = pq.read_table(file)
        renamed = table.rename_columns([old.get(name, name) for name in table.column_names])
        pq.write_table(renamed.replace_schema_metadata(table.schema.metadata), file)
    wanted, found = (summarize(folder, min_count=1).tables[0] for folder in (today, before))
    assert (found.ranking, list(found.scores)) == ("share", list(wanted.scores))
    assert found.tokens == wanted.tokens
    np.testing.assert_array_equal(found.scores["share"], wanted.scores["share"])
    np.testing.assert_array_equal(found.stderr["share"], wanted.stderr["share"])
    with pytest.warns(SlalomWarning, match="is called 'share' now"):
        assert found.scores["linear"] is found.scores["share"]
