"""Files of every format give the same documents; what is wrong with a file is said with its place."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slalom.data import Document, draw, read, splits
from slalom.errors import InputError

ROWS: list[dict[str, Any]] = [
    {"text": "great food, honestly", "label": "good", "split": "train"},
    {"text": 'a "slow"\tservice\nand cold soup', "label": "bad", "split": "train"},
    {"text": "café, naïve \u2028 and 東京", "label": "good", "split": "test"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    else:
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "jsonl", "ndjson", "json"])
def test_every_format_gives_the_same_documents(tmp_path: Path, suffix: str):
    found = read(write(tmp_path / f"reviews.{suffix}", ROWS))
    assert (found.name, found.labels, found.split) == ("reviews", ("bad", "good"), None)
    assert [document.text for document in found] == [row["text"] for row in ROWS]
    assert [document.label for document in found] == [1, 0, 1]
    assert [document.id for document in found] == [f"reviews row {place}" for place in (1, 2, 3)]
    assert found.pairs()[1] == (ROWS[1]["text"], "bad")
    assert splits(tmp_path / f"reviews.{suffix}") == ("train", "test")
    assert [one.text for one in read(tmp_path / f"reviews.{suffix}", split="test")] == [ROWS[2]["text"]]


@pytest.mark.parametrize(
    ("values", "names", "wanted"),
    [
        ([0, 1, 2], None, [0, 1, 2]),
        (["0", "1", "-1"], None, [0, 1, None]),
        ([1.0, None, 0.0], None, [1, None, 0]),
        ([True, False, None], None, [1, 0, None]),
        (["yes", " no ", ""], ("no", "yes"), [1, 0, None]),
        ([0, 1, "many"], ("0", "1", "many"), [0, 1, 2]),
        ([5, 1, "many"], ("1", "5", "many"), [1, 0, 2]),
    ],
)
def test_labels_of_every_kind(
    tmp_path: Path, values: list[Any], names: tuple[str, ...] | None, wanted: list[int | None]
):
    found = read(write(tmp_path / "a.jsonl", [{"text": "x", "label": value} for value in values]))
    assert found.labels == names
    assert [document.label for document in found] == wanted


def test_names_stand_beside_the_numbers_or_are_given(tmp_path: Path):
    rows = [{"text": "x", "label": i, "label_name": name} for i, name in ((1, "up"), (0, "down"), (1, "up"))]
    path = write(tmp_path / "a.parquet", rows)
    assert read(path).labels == ("down", "up")
    strings = write(tmp_path / "b.csv", [{"text": "x", "label": name} for name in ("up", "down")])
    found = read(strings, labels=("up", "down"))
    assert (found.labels, [one.label for one in found]) == (("up", "down"), [0, 1])
    with pytest.raises(InputError, match=r"b, row 2: the label 'down' is not one of up, left"):
        read(strings, labels=("up", "left"))


def test_columns_are_guessed_or_named(tmp_path: Path):
    rows = [{"sentence": "one", "headline": "two", "sentiment": 1, "id": 7}]
    path = write(tmp_path / "a.jsonl", rows)
    assert read(path)[0] == Document("one", 1, "7")
    assert read(path, text="headline")[0].text == "two"
    assert read(path, text=("headline", "sentence"))[0].text == ("two", "one")
    pairs = write(tmp_path / "b.csv", [{"premise": "rain", "hypothesis": "wet", "label": 0}])
    assert read(pairs)[0].text == ("rain", "wet")
    with pytest.raises(InputError, match="a has no column 'body'; its columns are sentence, headline"):
        read(path, text="body")
    with pytest.raises(InputError, match="a has no column 'stars'"):
        read(path, label="stars")
    other = write(tmp_path / "c.csv", [{"x": 1, "y": 2}])
    with pytest.raises(InputError, match=r"no column that looks like the text.*its columns are x, y"):
        read(other)


def test_words_and_maps_are_read_where_they_are(tmp_path: Path):
    rows = [
        {"text": "so good", "label": 1, "words": ["so", "good"], "majority": [0, 1], "rationale": [1, 1]},
        {"text": "meh", "label": 0, "words": [], "majority": [], "rationale": []},
        {"text": "a b", "label": 0, "words": ["a", "b"], "majority": [1, 0], "rationale": []},
    ]
    for suffix in ("jsonl", "parquet"):
        first, second, third = read(write(tmp_path / f"a.{suffix}", rows))
        assert (first.words, first.maps) == (("so", "good"), {"majority": (0, 1), "rationale": (1, 1)})
        assert (second.words, second.maps) == (None, {})
        assert third.maps == {"majority": (1, 0)}


BAD = [
    ({"text": None, "label": 0}, "the text is null"),
    ({"text": 5, "label": 0}, "the text is of type int, not a string"),
    ({"text": "  ", "label": 0}, "the text is empty"),
    ({"text": "half \ud800", "label": 0}, "the text holds half a surrogate pair"),
    ({"text": "x", "label": 0.5}, "the label 0.5 is not one of numbers from 0"),
    ({"text": "x", "label": [1]}, "the label [1] is not one of numbers from 0"),
    ({"text": "x", "label": -3}, "the label -3 is not one of numbers from 0"),
    ({"text": "x", "words": ["x"], "union": [0, 1]}, "the map 'union' has 2 marks for 1 words"),
    ({"text": "x", "words": ["x"], "union": [2]}, "the map union holds something else than 0 and 1"),
    ({"text": "x", "words": ["x", 3]}, "the words are not all strings"),
    ([1, 2], "a JSON list, not an object"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_bad_row_is_named_or_skipped_and_counted(tmp_path: Path, row: Any, reason: str):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in ({"text": "fine", "label": 1}, row)))
    with pytest.raises(InputError) as raised:
        read(path)
    assert str(raised.value).startswith("a, row 2: ")
    assert reason in str(raised.value)
    found = read(path, on_bad="skip")
    assert [document.text for document in found] == ["fine"]
    assert list(found.skipped.values()) == [1]
    assert reason in next(iter(found.skipped))


def test_broken_lines_are_bad_rows(tmp_path: Path):
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "fine"}\n{"text": \n{"text": "fine too"}\n')
    with pytest.raises(InputError, match="a, row 2: not JSON"):
        read(lines)
    assert len(read(lines, on_bad="skip")) == 2
    table = tmp_path / "b.csv"
    table.write_text("text,label\nfine,1\ntoo,many,fields\nshort\n")
    found = read(table, on_bad="skip")
    assert found.skipped == {"more fields than the header has": 1}
    assert [one.label for one in found] == [1, None]


def test_long_texts_fit_into_a_csv_field(tmp_path: Path):
    text = "word " * 100_000
    assert read(write(tmp_path / "a.csv", [{"text": text, "label": 1}]))[0].text == text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"text,label\ncaf\xe9,1\n", "is not UTF-8"),
        ("a.parquet", b"no parquet", "as Parquet"),
        ("a.xlsx", b"", "files are read in .parquet, .csv"),
        ("a.csv", b"", "no column that looks like the text"),
        ("a.csv", b"text,label\n", "holds no usable document"),
        ("a.json", b"[1, ", "is not JSON"),
    ],
)
def test_unreadable_files_say_why(tmp_path: Path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_splits_that_are_not_there(tmp_path: Path):
    path = write(tmp_path / "a.csv", ROWS)
    with pytest.raises(InputError, match="no split 'dev'; its splits are train, test"):
        read(path, split="dev")
    plain = write(tmp_path / "b.csv", [{"text": "x", "label": 1}])
    assert splits(plain) == ()
    with pytest.raises(InputError, match="no column 'split'"):
        read(plain, split="train")


def test_a_sample_is_reproducible_and_nested(tmp_path: Path):
    path = write(tmp_path / "a.csv", [{"text": f"text {i}", "label": int(i % 10 == 0)} for i in range(200)])
    assert [one.text for one in read(path, limit=3)] == ["text 0", "text 1", "text 2"]
    large, small = read(path, limit=60, seed=4), read(path, limit=20, seed=4)
    assert large.documents[:20] == small.documents
    assert len(set(large.documents)) == 60
    assert read(path, limit=20, seed=5).documents != small.documents
    assert sorted(one.id for one in read(path, seed=4)) == sorted(one.id for one in read(path))
    even = read(path, balanced=True, seed=1)
    assert Counter(one.label for one in even) == {0: 20, 1: 20}
    assert Counter(one.label for one in read(path, balanced=True, limit=10, seed=1)) == {0: 5, 1: 5}
    assert read(path, balanced=True, limit=10, seed=1).documents == even.documents[:10]


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": True}, {"seed": -1}, {"on_bad": "ignore"}])
def test_senseless_options_are_refused(tmp_path: Path, options: dict[str, Any]):
    path = write(tmp_path / "a.csv", ROWS)
    with pytest.raises(InputError, match=next(iter(options))):
        read(path, **options)


def test_a_balanced_sample_needs_two_labels():
    with pytest.raises(InputError, match="two labels or more; there are 1"):
        draw([Document("a", 0), Document("b", 0), Document("c")], balanced=True)


def test_documents_refuse_maps_that_do_not_fit():
    with pytest.raises(InputError, match="2 marks for 1 words"):
        Document("x", words=("x",), maps={"union": (1, 0)})
    with pytest.raises(InputError, match="not the words"):
        Document("x", maps={"union": (1,)})


@pytest.mark.parametrize("source", ["nowhere.csv", "./nowhere", "no_such_name", "/nowhere/at/all"])
def test_unknown_sources_list_what_is_known(source: str):
    with pytest.raises(InputError, match=r"there is no such file.*one of imdb, yelp"):
        read(source)
