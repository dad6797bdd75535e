from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from explained import rows, same, sentences, write_parquet
from typer.testing import CliRunner

import rounding
from rounding import same_answers, same_scores
from slalom import Explainer
from slalom.cli import app
from slalom.corpus import Totals, Where, explain_corpus, schema
from slalom.corpus import store as stores
from slalom.corpus.store import LOCK, SUCCESS, CorpusFolder
from slalom.corpus.work import PROBE, Worker
from slalom.errors import InputError, MissingExtraError, SlalomError

SMALL: dict[str, Any] = {"budget": 12, "group": 4}
TEXTS = sentences(10)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("corpus") / "reviews.parquet"
    return write_parquet(path, TEXTS, key=pa.array([f"k{i}" for i in range(len(TEXTS))]))


@pytest.fixture(scope="module")
def whole(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an undisturbed run."""
    output = tmp_path_factory.mktemp("whole") / "out"
    totals = explain_corpus(corpus, str(output), tokens_table=True, **SMALL)
    assert (totals.documents, totals.errors, totals.parts, totals.skipped) == (10, 0, 3, 0)
    return output


def test_a_row_is_the_explanation_of_its_text(whole: Path) -> None:
    found = rows(whole, times=True)
    assert [row["row"] for row in found] == list(range(10))
    explainer = Explainer(batch_tokens=4096)
    expected = [e for i in (0, 4, 8) for e in explainer(TEXTS[i : i + 4], budget=12)]
    for row, explanation in zip(found, expected, strict=True):
        assert row["status"] == "ok"
        assert row["error"] is None
        assert row["text"] is None
        assert tuple(row["tokens"]) == explanation.tokens.strings
        assert (row["prediction"], row["target"]) == (explanation.prediction, explanation.target)
        same_answers(row["probability"], explanation.probabilities.max())
        same_answers(row["output"], explanation.output)
        assert row["ranking"] == "share"
        for name, column in schema.SCORES.items():
            same_scores(row[column], explanation.score(name), column)
        for name, error in explanation.stderr.items():
            same_scores(row[f"{schema.SCORES[name]}_stderr"], error, f"{name} stderr")
        same_scores(row["r2"], explanation.fidelity.get("r2"))
        assert (row["queries"], row["query_tokens"]) == (explanation.cost.queries, explanation.cost.tokens)
        assert row["seconds"] > 0


def test_every_reader_reads_it_as_it_is(whole: Path) -> None:
    polars = pytest.importorskip("polars")
    query = duckdb.connect().execute
    by_duckdb = query(f"select * from read_parquet('{whole}/*.parquet') order by row").df()
    by_pandas = pandas.read_parquet(whole)
    by_polars = polars.read_parquet(f"{whole}/*.parquet").sort("row")
    assert (
        by_duckdb["row"].tolist() == by_pandas["row"].tolist() == by_polars["row"].to_list() == [*range(10)]
    )
    assert list(by_duckdb.columns) == list(by_pandas.columns) == by_polars.columns == schema.documents().names
    for i in range(10):
        np.testing.assert_array_equal(by_duckdb["values"][i], by_pandas["values"][i])
        np.testing.assert_array_equal(by_duckdb["values"][i], by_polars["values"].to_list()[i])
    tokens = query(f"select count(*), count(distinct row) from '{whole}/_tokens/*.parquet'").fetchall()
    assert tokens == [(sum(map(len, by_pandas["tokens"])), 10)]


def test_the_table_of_tokens_says_the_same(whole: Path) -> None:
    tokens: Any = pandas.read_parquet(whole / "_tokens")
    for row in rows(whole):
        own = tokens[tokens["row"] == row["row"]].sort_values("position")
        assert own["token"].tolist() == row["tokens"]
        np.testing.assert_array_equal(own["value"], row["values"])
        np.testing.assert_array_equal(own["share_stderr"], row["share_stderr"])
        assert set(own["target"]) == {row["target"]}


def test_parts_carry_their_schema_and_version(whole: Path) -> None:
    schema.check(pq.read_schema(whole / "part-000000.parquet").metadata, "part")
    schema.check(pq.read_schema(whole / "_tokens" / "part-000000.parquet").metadata, "part", "tokens")
    with pytest.raises(InputError, match="no table of tokens"):
        schema.check(pq.read_schema(whole / "part-000000.parquet").metadata, "part", "tokens")
    later = {**schema.documents().metadata, schema.VERSION_KEY: b"9"}
    with pytest.raises(InputError, match="schema version 9"):
        schema.check(later, "part")


def test_a_finished_run_is_not_repeated(corpus: str, whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    totals = explain_corpus(corpus, str(whole), tokens_table=True, **SMALL)
    assert (totals.documents, totals.skipped, totals.parts) == (10, 10, 3)
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()} == before


class StoppedError(Exception):
    """Ends a run from outside."""


def stop_after(parts: int) -> Any:
    def progress(totals: Totals) -> None:
        if totals.parts == parts:
            raise StoppedError

    return progress


def test_an_unfinished_run_goes_on_where_it_was(corpus: str, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(StoppedError):
        explain_corpus(corpus, str(output), tokens_table=True, progress=stop_after(2), **SMALL)
    assert not (output / LOCK).exists()
    first = (output / "part-000000.parquet").stat().st_mtime_ns
    with pytest.raises(InputError, match=r"unfinished run \(2 parts\).*--resume"):
        explain_corpus(corpus, str(output), tokens_table=True, **SMALL)
    (output / "part-000001.parquet").write_bytes(b"PAR1 half")  # damaged: done again
    (output / ".part-000002.parquet.1234.tmp").write_bytes(b"left behind")
    totals = explain_corpus(corpus, str(output), tokens_table=True, resume=True, **SMALL)
    assert (totals.documents, totals.skipped, totals.parts) == (10, 4, 3)
    assert (output / "part-000000.parquet").stat().st_mtime_ns == first
    same(output, whole)
    assert not [path.name for path in output.iterdir() if path.name.startswith(".")]
    assert json.loads((output / SUCCESS).read_text())["documents"] == 10


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("folder", [".", "_tokens", "_checksums"])
def test_a_flipped_bit_anywhere_in_a_part_is_noticed(whole: Path, tmp_path: Path, folder: str) -> None:
    output = shutil.copytree(whole, tmp_path / "out")
    (damaged,) = (output / folder).glob("part-000001.*")
    store, fingerprint = CorpusFolder(str(output)), json.loads((output / SUCCESS).read_text())["fingerprint"]
    assert store.part(1, fingerprint) is not None
    size = damaged.stat().st_size
    for place in range(0, size, max(1, size // 150)):
        flip(damaged, place)
        assert store.part(1, fingerprint) is None, place
        flip(damaged, place)
    assert store.part(1, fingerprint) is not None


def test_damaged_parts_of_a_finished_run_are_made_anew_by_resume(
    corpus: str, whole: Path, tmp_path: Path
) -> None:
    output = shutil.copytree(whole, tmp_path / "out")
    flip(output / "part-000001.parquet", 2000)
    (output / "_tokens" / "part-000002.parquet").unlink()
    totals = explain_corpus(corpus, str(output), tokens_table=True, resume=True, **SMALL)
    assert (totals.documents, totals.skipped, totals.parts) == (10, 4, 3)
    same(output, whole)
    again = explain_corpus(corpus, str(output), tokens_table=True, resume=True, **SMALL)
    assert (again.documents, again.skipped, again.parts) == (10, 10, 3)


def test_the_same_content_with_another_time_is_the_same_corpus(corpus: str, tmp_path: Path) -> None:
    own = shutil.copy(corpus, tmp_path / "reviews.parquet")
    with pytest.raises(StoppedError):
        explain_corpus(str(own), str(tmp_path / "out"), progress=stop_after(1), **SMALL)
    os.utime(own, (0, 0))
    totals = explain_corpus(str(own), str(tmp_path / "out"), resume=True, **SMALL)
    assert (totals.documents, totals.skipped, totals.parts) == (10, 4, 3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "settings call seed is 0 there and 1 here"),
        ({"budget": 13}, "settings call budget is 12 there and 13 here"),
        ({"batch_tokens": 999}, "settings access batch_tokens is 4096 there and 999 here"),
        ({"limit": 5}, "settings limit is None there and 5 here"),
        ({"tokens_table": False}, "settings tokens_table is True there and False here"),
        ({"where": Where(threads=2)}, "settings threads is 1 there and 2 here"),
    ],
)
def test_two_runs_never_mix(corpus: str, whole: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=f"belongs to another run: {told}"):
        explain_corpus(corpus, str(whole), **{"tokens_table": True, "resume": True, **SMALL, **change})


def test_another_corpus_or_model_is_another_run(corpus: str, whole: Path, tmp_path: Path, bert: str) -> None:
    other = write_parquet(tmp_path / "other.parquet", TEXTS)
    with pytest.raises(InputError, match="belongs to another run: input files"):
        explain_corpus(other, str(whole), tokens_table=True, **SMALL)
    with pytest.raises(InputError, match="belongs to another run: model"):
        explain_corpus(corpus, str(whole), tokens_table=True, model=bert, **SMALL)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    from zoo import tiny

    folder = tmp_path_factory.mktemp("bert")
    for part in tiny("bert"):
        part.save_pretrained(folder)
    return str(folder)


def test_other_methods_have_one_score(corpus: str, tmp_path: Path, bert: str) -> None:
    explain_corpus(
        corpus,
        str(tmp_path / "out"),
        model=bert,
        method="occlusion",
        limit=2,
        granularity="words",
        keep_text=True,
        id="key",
    )
    found = rows(tmp_path / "out")
    expected = Explainer(bert)(TEXTS[:2], method="occlusion", granularity="words")
    for row, explanation in zip(found, expected, strict=True):
        assert (row["ranking"], row["values"], row["text"]) == ("attribution", None, explanation.text)
        same_answers(row["attribution"], explanation.score())
    assert [row["id"] for row in found] == ["k0", "k1"]


def test_a_folder_with_other_tables_is_no_output(corpus: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "precious.parquet", ["mine"])
    with pytest.raises(InputError, match="Parquet files of something else"):
        explain_corpus(corpus, str(tmp_path), **SMALL)
    with pytest.raises(InputError, match="is a file"):
        explain_corpus(corpus, str(tmp_path / "precious.parquet"), **SMALL)


def test_poisoned_rows_become_errors_and_nothing_else_changes(tmp_path: Path) -> None:
    texts = sentences(40)
    poison: dict[int, Any] = {
        3: None,
        11: "",
        17: "word " * 210_000,
        18: b"\xff\xfe caf\xe9",
        30: 12,
        33: " \n",
    }
    clean, bad = tmp_path / "clean.jsonl", tmp_path / "bad.jsonl"
    clean.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    with bad.open("wb") as file:
        for row, text in enumerate(texts):
            given = poison.get(row, text)
            line = (
                b'{"text": "' + given + b'"}'
                if isinstance(given, bytes)
                else json.dumps({"text": given}).encode()
            )
            file.write(line + b"\n")
    settings: dict[str, Any] = {"budget": 20, "group": 8}
    explain_corpus(str(clean), str(tmp_path / "clean"), **settings)
    totals = explain_corpus(str(bad), str(tmp_path / "bad"), **settings)
    assert (totals.documents, totals.errors) == (40, len(poison))
    for before, after in zip(rows(tmp_path / "clean"), rows(tmp_path / "bad"), strict=True):
        if after["row"] in poison:
            assert after["status"] == "error"
            assert after["tokens"] is None
        else:
            rounding.same(after, before)
    errors = {row["row"]: row["error"] for row in rows(tmp_path / "bad") if row["status"] == "error"}
    told = {
        3: "null",
        11: "empty or blank",
        17: "1,050,000 characters",
        18: "not UTF-8",
        30: "a int",
        33: "blank",
    }
    assert set(errors) == set(told)
    for row, part in told.items():
        assert part in errors[row]


def test_a_text_that_makes_its_group_fail_fails_alone(corpus: str, tmp_path: Path) -> None:
    texts = [*TEXTS]
    texts[5] = "\u200b"  # not blank, and yet no token
    bad = write_parquet(tmp_path / "a.parquet", texts)
    settings: dict[str, Any] = {"budget": 60, "group": 4}
    explain_corpus(corpus, str(tmp_path / "clean"), **settings)
    explain_corpus(bad, str(tmp_path / "bad"), **settings)
    found = rows(tmp_path / "bad")
    assert [row["status"] for row in found] == ["ok"] * 5 + ["error"] + ["ok"] * 4
    assert "finds no token" in found[5]["error"]
    for before, after in zip(rows(tmp_path / "clean"), found, strict=True):
        if after["row"] != 5:
            rounding.same(after, before)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "slalm"}, "slalm"),
        ({"budget": 2}, "no document can be explained with these settings: .* at least 3 queries"),
        ({"target": "angry"}, "no document can be explained with these settings: .* no label 'angry'"),
        ({"options": {"effort": "huge"}}, "effort must be .fast., .balanced. or .faithful.; got .huge."),
        ({"options": {"nonsense": 1}}, "nonsense"),
        ({"model": "./nowhere"}, "no directory"),
        ({"where": Where(gpus_per_worker=0), "limit": 0}, "limit must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_end_the_run_not_the_documents(
    corpus: str, tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(SlalomError, match=told):
        explain_corpus(corpus, str(tmp_path / "out"), **{**SMALL, **settings})
    assert not list(tmp_path.glob("out/*.parquet"))


def test_a_tokenizer_that_cannot_read_the_probe_ends_no_run(tmp_path: Path) -> None:
    texts = [*TEXTS[:4], f"{TEXTS[4]} unheard"]
    folder = _closed_vocabulary(tmp_path / "model", TEXTS)
    with pytest.raises(Exception, match=r"(?i)unk") as caught:  # the tokenizer's own error, none of ours
        Explainer(folder)(PROBE, method="occlusion")
    assert not isinstance(caught.value, SlalomError)
    corpus = write_parquet(tmp_path / "a.parquet", texts)
    totals = explain_corpus(corpus, str(tmp_path / "out"), model=folder, method="occlusion", group=4)
    assert (totals.documents, totals.errors) == (5, 1)
    found = rows(tmp_path / "out")
    assert [row["status"] for row in found] == ["ok"] * 4 + ["error"]
    assert str(caught.value) in found[4]["error"]
    expected = Explainer(folder)(texts[0], method="occlusion")
    same_answers(found[0]["attribution"], expected.score())


def _closed_vocabulary(folder: Path, texts: list[str]) -> str:
    """A model whose tokenizer raises where a text has a word that is not in these texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from zoo import tiny

    words = sorted({word for text in texts for word in text.split()})
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[PAD]", *words])}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore
    own = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    own.save_pretrained(folder)
    tiny("bert", vocab_size=len(own))[0].save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(("package", "where"), [("ray", Where(2)), ("pyarrow", Where())])
def test_a_missing_extra_gives_the_command_that_installs_it(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, where: Where
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}; .* pip install 'slalom-xai\[cluster\]'"):
        explain_corpus(corpus, str(tmp_path / "out"), where=where, **SMALL)


def test_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no document"):
        explain_corpus(write_parquet(tmp_path / "a.parquet", []), str(tmp_path / "out"), **SMALL)


def test_the_output_may_be_anywhere(corpus: str, whole: Path, tmp_path: Path) -> None:
    explain_corpus(corpus, "memory://explained/here", tokens_table=True, **SMALL)
    fs = fsspec.filesystem("memory")
    fs.get("/explained/here", str(tmp_path / "copy"), recursive=True)
    same(tmp_path / "copy", whole)
    assert not [path.name for path in (tmp_path / "copy").iterdir() if path.name.startswith((".", "_lock"))]


def test_a_second_run_at_the_same_time_is_refused(corpus: str, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    refused: list[str] = []

    def start_another(totals: Totals) -> None:
        with pytest.raises(InputError, match=r"another run is writing to .*out'; wait until it ends") as told:
            explain_corpus(corpus, output, resume=True, **SMALL)
        refused.append(str(told.value))

    explain_corpus(corpus, output, progress=start_another, **SMALL)
    assert len(refused) == 3


HOLDER = """
import sys, time
from slalom.corpus.store import CorpusFolder, locked
with locked(CorpusFolder(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_of_this_machine_ends_with_its_process(tmp_path: Path) -> None:
    store = CorpusFolder(str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another run is writing"), stores.locked(store):
            pass
        holder.kill()
    with stores.locked(store):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["dead process", "silent", "half written"])
def test_a_lock_elsewhere_that_was_left_behind_is_taken_over(kind: str) -> None:
    store = CorpusFolder(f"memory://left/{kind.replace(' ', '-')}")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    import socket

    alive = time.time() - (stores.STALE + 1 if kind == "silent" else 0)
    host = "elsewhere" if kind == "silent" else socket.gethostname()
    there = json.dumps({"host": host, "pid": gone.pid, "token": "x", "alive": alive})
    store.fs.pipe_file(store.path(LOCK), b'{"host"' if kind == "half written" else there.encode())
    if kind == "half written":
        long_ago = datetime.fromtimestamp(time.time() - stores.STALE - 1, tz=UTC)
        store.fs.store[store.path(LOCK)].modified = long_ago  # pyright: ignore[reportAttributeAccessIssue]
    with stores.locked(store):
        assert json.loads(store.fs.cat_file(store.path(LOCK)))["pid"] == os.getpid()
    assert not store.fs.exists(store.path(LOCK))


def test_a_lock_elsewhere_holds_and_shows_that_its_owner_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BEAT", 0.02)
    store = CorpusFolder("memory://held")

    def alive() -> float:
        return json.loads(store.fs.cat_file(store.path(LOCK)))["alive"]

    with stores.locked(store):
        first = alive()
        while alive() <= first:
            time.sleep(0.02)
        with (
            pytest.raises(InputError, match=f"another run is writing .*process {os.getpid()}"),
            stores.locked(store),
        ):
            pass


DEADLY = """
import os, sys
import slalom.corpus.work as work
import torch, transformers  # once for all attempts
from slalom.corpus import explain_corpus

class Deadly(work.Explainer):
    def __call__(self, text, **call):
        if "deadly" in text:
            os._exit(9)  # as if the system had run out of memory
        return super().__call__(text, **call)

work.Explainer = Deadly
ends = []
while not ends or ends[-1]:
    process = os.fork()
    if process == 0:
        explain_corpus(sys.argv[1], sys.argv[2], method="random", group=8, resume=True)
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(ends)
"""


def test_a_document_that_kills_its_worker_becomes_an_error(tmp_path: Path) -> None:
    """Three deaths with the whole group, two with the document alone, and then the run ends well."""
    corpus = write_parquet(tmp_path / "a.parquet", [*sentences(3), "deadly", *sentences(2)])
    command = [sys.executable, "-c", DEADLY, corpus, str(tmp_path / "out")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told.strip() == "[9, 9, 9, 9, 9, 0]"
    found = rows(tmp_path / "out")
    assert [row["status"] for row in found] == ["ok"] * 3 + ["error"] + ["ok"] * 2
    assert found[3]["error"] == "the worker died 2 times while it explained this document"


def test_a_worker_does_not_repeat_a_part(corpus: str, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slalom.corpus.source import groups, open_source
    from slalom.corpus.work import CorpusJob

    fingerprint = json.loads((whole / SUCCESS).read_text())["fingerprint"]
    call = {"method": "random"}
    worker = Worker(CorpusJob(str(whole), fingerprint, None, {}, call))
    group = next(groups(open_source(corpus).documents(), 4))
    before = (whole / "part-000000.parquet").read_bytes()
    assert worker(group).documents == 4
    assert (whole / "part-000000.parquet").read_bytes() == before


def test_the_command(corpus: str, whole: Path, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    arguments = [
        "explain-corpus",
        corpus,
        "--out",
        output,
        "--budget",
        "12",
        "--group",
        "4",
        "--tokens-table",
    ]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.stderr
    assert "10 documents in 3 parts, 0 errors" in first.stderr
    assert "documents per second" in first.stderr
    assert first.stdout == ""
    same(output, whole)
    again = CliRunner().invoke(app, arguments)
    assert "is finished: 10 documents in 3 parts, 0 errors; nothing to do" in again.stderr
    other = CliRunner().invoke(app, [*arguments, "--seed", "1"])
    assert (other.exit_code, other.stderr.count("\n")) == (1, 1)
    wrong = CliRunner().invoke(app, [*arguments, "--words", "--types"])
    assert wrong.exit_code == 2


def test_fresh_begins_again_where_another_run_lies(corpus: str, tmp_path: Path) -> None:
    """Nothing of the other run stays, and nothing that is not of a run goes."""
    output = tmp_path / "out"
    many = ["explain-corpus", corpus, "--out", str(output), "--method", "random", "--group", "4"]
    one = [*many[:-1], "64"]
    assert CliRunner().invoke(app, [*many, "--tokens-table"]).exit_code == 0
    (output / "_notes.txt").write_text("mine")
    refused = CliRunner().invoke(app, one)
    assert (refused.exit_code, "--fresh" in refused.stderr) == (1, True), refused.stderr
    assert len(rows(output)) == len(TEXTS)
    again = CliRunner().invoke(app, [*one, "--fresh"])
    assert again.exit_code == 0, again.stderr
    assert "10 documents in 1 parts, 0 errors" in again.stderr
    names = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
    parts = {"part-000000.parquet", "_checksums/part-000000.json"}
    assert names == parts | {"_notes.txt", "_slalom.json", SUCCESS}
    elsewhere = tmp_path / "elsewhere"
    assert CliRunner().invoke(app, [*one[:3], str(elsewhere), *one[4:], "--fresh"]).exit_code == 0
    same(str(output), elsewhere)
    finished = CliRunner().invoke(app, [*one, "--fresh"])
    assert "nothing to do" not in finished.stderr
