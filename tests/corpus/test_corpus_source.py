from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from explained import write_parquet
from hypothesis import given
from hypothesis import strategies as st

from slalom import data
from slalom.corpus.cluster import from_table, to_table
from slalom.corpus.schema import CorpusDocument
from slalom.corpus.source import Columns, _data_set, document, groups, open_source
from slalom.errors import InputError

TEXTS = ["good film", 'bad "film", really\nbad', "größer ☃"]


def read(path: Path | str, columns: Columns | None = None, most: int = 100) -> list[CorpusDocument]:
    return list(open_source(str(path), columns, most).documents())


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def texts(documents: list[CorpusDocument]) -> list[str | None]:
    return [None if one.text is None else one.text.decode() for one in documents]


def test_every_format_gives_the_same_documents(tmp_path: Path) -> None:
    table = [["key", "text"], *([f"k{i}", text] for i, text in enumerate(TEXTS))]
    names = pa.array(["k0", "k1", "k2"])
    found = [
        write_parquet(tmp_path / "a.parquet", TEXTS, key=names),
        write_parquet(tmp_path / "large.parquet", TEXTS, pa.large_string(), key=names),
        write_parquet(tmp_path / "b.parquet", [t.encode() for t in TEXTS], pa.binary(), key=names),
        write_parquet(tmp_path / "d.parquet", TEXTS, pa.dictionary(pa.int32(), pa.string()), key=names),
        write_csv(tmp_path / "a.csv", table),
        write_csv(tmp_path / "a.tsv", table, "\t"),
        write_jsonl(tmp_path / "a.jsonl", [{"key": f"k{i}", "text": t} for i, t in enumerate(TEXTS)]),
    ]
    packed = tmp_path / "z.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    for path in (*found, packed):
        documents = read(path, Columns(id="key"))
        assert texts(documents) == TEXTS, path
        assert [one.id for one in documents] == ["k0", "k1", "k2"]
        assert [one.row for one in documents] == [0, 1, 2]


def test_without_a_name_the_row_is_the_name(tmp_path: Path) -> None:
    assert [one.id for one in read(write_parquet(tmp_path / "a.parquet", TEXTS))] == ["0", "1", "2"]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_parquet(tmp_path / f"{name}.parquet", [f"text {name}"])
    (tmp_path / "_SUCCESS").write_text("{}")
    (tmp_path / "README.md").write_text("not part of it")
    assert texts(read(tmp_path)) == ["text a", "text b", "text c"]
    assert texts(read(tmp_path / "[bc].parquet".replace("[bc]", "*"))) == ["text a", "text b", "text c"]


def test_a_folder_of_texts_has_its_paths_as_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("second", encoding="utf-8")
    (tmp_path / "a.txt").write_bytes(b"first \xff")
    (tmp_path / "deep" / "c.txt").write_text("third", encoding="utf-8")
    documents = read(tmp_path)
    assert [one.id for one in documents] == ["a.txt", "b.txt", "deep/c.txt"]
    assert documents[0].text == b"first \xff"


def test_any_fsspec_address(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", TEXTS)
    fsspec.filesystem("memory").pipe_file("/somewhere/a.parquet", Path(path).read_bytes())
    assert texts(read("memory://somewhere/a.parquet")) == TEXTS
    assert texts(read("memory://somewhere")) == TEXTS


def test_a_split(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", TEXTS, split=pa.array(["train", "test", "train"]))
    assert texts(read(path, Columns(split="train"))) == [TEXTS[0], TEXTS[2]]
    assert [one.row for one in read(path, Columns(split="train"))] == [0, 1]


def test_a_data_set_is_read_through_the_datasets_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "owner" / "name"
    folder.mkdir(parents=True)
    write_jsonl(folder / "train.jsonl", [{"review": t} for t in TEXTS])
    write_jsonl(folder / "test.jsonl", [{"review": "held out"}])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    columns = Columns(text="review", split="test")
    _, _, rows = _data_set("owner/name", columns)
    assert [row["review"] for _, row in rows() if isinstance(row, dict)] == ["held out"]
    assert _data_set("owner/name", Columns())[0].text == "review"
    with pytest.raises(InputError, match="no column 'key'"):
        _data_set("owner/name", Columns(id="key"))


def test_rows_that_cannot_be_used_stay_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        b'{"text": "good"}',
        b'{"text": null}',
        b'{"text": 3}',
        b'{"text": "\xff\xfe"}',
        b'{"text": "lone \\ud800"}',
        b"{broken",
        b"[1]",
        b"{}",
        json.dumps({"text": "x" * 101}).encode(),
    ]
    path.write_bytes(b"\n".join(lines))
    documents = read(path)
    assert [one.row for one in documents] == list(range(9))
    problems = [one.problem for one in documents]
    assert problems[0] is None
    assert problems[1] == "the text is null"
    assert problems[2] == "the text is no text but a int: 3"
    for place in (3, 4):  # told by the worker, which decodes
        with pytest.raises(UnicodeDecodeError):
            (documents[place].text or b"").decode()
    assert problems[5] is not None
    assert problems[5].startswith("the line is not JSON")
    assert problems[6] is not None
    assert problems[6].startswith("the line is no JSON object")
    assert problems[7] == "the text is null"
    assert problems[8] is not None
    assert problems[8].startswith("the text has 101 characters, more than the limit of 100")


def test_short_lines_and_wrong_bytes_of_csv_stay_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"key,text\n1,good\n2\n3,\xff\n4," + b"x" * 200_000 + b"\n")
    documents = read(path, Columns(id="key"))
    assert [one.id for one in documents] == ["1", "2", "3", "4"]
    assert documents[1].problem == "the text is null"
    assert documents[2].text == b"\xff"
    assert documents[3].problem is not None


def test_wrong_bytes_in_parquet_cost_their_own_row_only(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(
        3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")
    )
    pq.write_table(pa.table({"text": bad}), tmp_path / "a.parquet")
    assert [one.text for one in read(tmp_path / "a.parquet")] == [b"a", b"\xff", b"c"]


@pytest.mark.parametrize(
    ("given", "columns", "told"),
    [
        ("missing.csv", Columns(), "there is no file, folder or data set"),
        ("a.csv", Columns(), "has no column 'text', only: key, remark"),
        ("a.csv", Columns("remark", id="name"), "has no column 'name'"),
        ("a.parquet", Columns("number"), "holds int64, not text"),
        ("mixed", Columns(), "files of different kinds: csv, parquet"),
        ("empty", Columns(), "holds no corpus"),
        ("plain", Columns("text"), "has no columns"),
        ("broken.parquet", Columns(), "cannot read"),
        ("nosuch://bucket/x.csv", Columns(), "cannot reach"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, given: str, columns: Columns, told: str) -> None:
    for folder in ("mixed", "empty", "plain"):
        (tmp_path / folder).mkdir()
    write_csv(tmp_path / "a.csv", [["key", "remark"], ["1", "good"]])
    write_csv(tmp_path / "mixed" / "a.csv", [["text"], ["good"]])
    write_parquet(tmp_path / "mixed" / "a.parquet", ["good"])
    write_parquet(tmp_path / "a.parquet", ["good"], number=pa.array([1]))
    (tmp_path / "plain" / "a.txt").write_text("good")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    where = given if "://" in given else str(tmp_path / given)
    with pytest.raises(InputError, match=told):
        read(where, columns)


def test_the_identity_is_that_of_the_content(tmp_path: Path) -> None:
    path = Path(write_parquet(tmp_path / "a.parquet", TEXTS))
    before = open_source(str(path)).identity()
    os.utime(path, (0, 0))
    assert open_source(str(path)).identity() == before
    (tmp_path / "moved").mkdir()
    shutil.copy(path, tmp_path / "moved" / "a.parquet")
    assert open_source(str(tmp_path / "moved" / "a.parquet")).identity() == before
    fsspec.filesystem("memory").pipe_file("/identity/a.parquet", path.read_bytes())
    assert open_source("memory://identity/a.parquet").identity() == before
    write_parquet(path, [*TEXTS[:-1], "größer ☂"])
    os.utime(path, (0, 0))
    assert open_source(str(path)).identity() != before


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 7), st.integers(1, 80))
def test_groups_hold_every_document_once_and_are_bounded(sizes: list[int], size: int, most: int) -> None:
    documents = [document(i, None, "x" * n) for i, n in enumerate(sizes)]
    cut = list(groups(iter(documents), size, most))
    assert [one for group in cut for one in group.documents] == documents
    assert [group.number for group in cut] == list(range(len(cut)))
    assert all(len(group.documents) <= size for group in cut)
    assert all(group.size <= most or len(group.documents) == 1 for group in cut)


def test_a_group_survives_its_way_to_a_worker() -> None:
    documents = [
        document(0, "a", "text"),
        document(1, None, None),
        document(2, 7, b"\xff"),
        document(3, "", 5),
    ]
    (group,) = groups(iter(documents))
    assert from_table(to_table(group)) == group


@pytest.mark.parametrize("name", ["text", "sentence", "review"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_text_column_with_a_usual_name_is_found(tmp_path: Path, kind: str, name: str):
    frame = pandas.DataFrame({"label": [0, 1], name: ["good", "bad"]})
    path = tmp_path / f"it.{kind}"
    if kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        (frame.to_csv if kind == "csv" else frame.to_parquet)(path, index=False)
    assert texts(read(path)) == ["good", "bad"]
    assert [one.text for one in data.read(path).documents] == ["good", "bad"], "as the other commands read it"


def test_the_usual_names_have_an_order_and_a_named_column_goes_first(tmp_path: Path):
    path = tmp_path / "it.csv"
    pandas.DataFrame({"review": ["r"], "sentence": ["s"], "words": ["w"]}).to_csv(path, index=False)
    assert texts(read(path)) == ["s"]
    assert texts(read(path, Columns(text="words"))) == ["w"]
