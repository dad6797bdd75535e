"""The known data sets in the form in which they are published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest

from slalom.data import locate, read, splits
from slalom.data.public import KNOWN, from_hub
from slalom.errors import InputError

HATE = ("hatespeech", "normal", "offensive")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SLALOM_DATA", raising=False)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))


def public(rows: dict[str, list[dict[str, Any]]], names: list[str] | None = None) -> Any:
    parts: Any = datasets.DatasetDict(
        {split: datasets.Dataset.from_list(part) for split, part in rows.items()}
    )
    return parts if names is None else parts.cast_column("label", datasets.ClassLabel(names=names))


CASES = [
    (
        "imdb",
        {
            "train": [{"text": "Good.<br /><br />Really  good.", "label": 1}],
            "test": [{"text": "Bad.", "label": 0}],
            "unsupervised": [{"text": "Unknown.", "label": -1}],
        },
        [("Good. Really good.", 1), ("Bad.", 0)],
    ),
    (
        "yelp",
        {
            "train": [{"text": 'Said \\""no\\"" twice.\\n\\nNever again', "label": 0}],
            "test": [{"text": "Nice", "label": 1}],
        },
        [('Said "no" twice. Never again', 0), ("Nice", 1)],
    ),
    (
        "sst2",
        {
            "train": [{"idx": 0, "sentence": "a fine film", "label": 1}],
            "validation": [{"idx": 0, "sentence": "dull", "label": 0}],
            "test": [{"idx": 0, "sentence": "unlabelled", "label": -1}],
        },
        [("a fine film", 1), ("dull", 0)],
    ),
    (
        "agnews",
        {"train": [{"text": "Stocks fell\\on Monday", "label": 2}], "test": [{"text": "A goal", "label": 1}]},
        [("Stocks fell on Monday", 2), ("A goal", 1)],
    ),
    (
        "emotion",
        {
            "train": [{"text": "i feel low", "label": 0}],
            "validation": [{"text": "i feel amazed", "label": 5}],
            "test": [{"text": "i feel loved", "label": 2}],
        },
        [("i feel low", 0), ("i feel amazed", 5), ("i feel loved", 2)],
    ),
]


@pytest.mark.parametrize("form", ["saved", "parquet"])
@pytest.mark.parametrize(("name", "rows", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_published_columns_become_documents(
    tmp_path: Path, name: str, rows: dict[str, Any], wanted: list[tuple[str, int]], form: str
):
    parts = public(rows, list(KNOWN[name].labels))
    folder = tmp_path / name
    if form == "saved":
        parts.save_to_disk(str(folder))
    else:
        (folder / "data").mkdir(parents=True)
        for split, part in parts.items():
            part.to_parquet(str(folder / "data" / f"{split}-00000-of-00001.parquet"))
    found = read(name, data_dir=tmp_path)
    assert [(one.text, one.label) for one in found] == wanted
    assert (found.name, found.labels) == (name, KNOWN[name].labels)
    assert splits(name, data_dir=tmp_path) == KNOWN[name].splits
    assert found[0].id == f"{name} train row 1"
    last = KNOWN[name].splits[-1]
    assert [one.text for one in read(name, split=last, data_dir=tmp_path)] == [wanted[-1][0]]


def test_a_data_set_of_the_hub_that_has_no_name_here(tmp_path: Path):
    rows = {"train": [{"review": "yes", "label": 1}, {"review": "no", "label": 0}]}
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    public(rows, ["cold", "hot"])["train"].to_parquet(str(folder / "data" / "train.parquet"))
    table = from_hub(str(folder), None)  # what is loaded by a hub id is loaded by the same call
    assert (table.columns, table.labels) == (("split", "review", "label"), ("cold", "hot"))
    found = read(folder)
    assert [(one.text, one.label) for one in found] == [("yes", 1), ("no", 0)]
    assert (found.labels, splits(folder)) == (("cold", "hot"), ("train",))


def test_one_split_saved_alone(tmp_path: Path):
    public({"train": [{"text": "yes", "label": 1}]})["train"].save_to_disk(str(tmp_path / "a"))
    assert [(one.text, one.label) for one in read(tmp_path / "a")] == [("yes", 1)]


def test_hatexplain_votes_and_joins_the_maps(tmp_path: Path):
    def post(own: str, labels: list[int], rationales: list[list[int]]) -> dict[str, Any]:
        return {
            "id": own,
            "annotators": {"label": labels, "annotator_id": [1, 2, 3], "target": [["None"]] * 3},
            "rationales": rationales,
            "post_tokens": ["you", "are", "bad"],
        }

    rows = {
        "train": [
            post("a", [2, 2, 0], [[0, 0, 1], [1, 0, 1], [1, 1, 0]]),
            post("b", [1, 1, 1], []),
            post("c", [0, 1, 2], [[0, 0, 1]]),
            post("d", [0, 0, 1], [[0, 1, 1], [0, 0, 1]]),
        ]
    }
    public(rows).save_to_disk(str(tmp_path / "hatexplain"))
    first, normal, undecided, half = read("hatexplain", data_dir=tmp_path)
    assert (first.text, first.label, first.id) == ("you are bad", 2, "a")
    assert first.maps == {"majority": (1, 0, 1), "union": (1, 1, 1)}
    assert (normal.label, normal.words, normal.maps) == (1, ("you", "are", "bad"), {})
    assert undecided.label is None
    assert half.maps == {"majority": (0, 1, 1), "union": (0, 1, 1)}
    assert read("hatexplain", data_dir=tmp_path).labels == HATE


def test_movie_evidence_is_found_in_the_review(tmp_path: Path):
    review = "it is a bad film .\nreally bad film , i say .\n"
    rows = [
        {"review": review, "label": 0, "evidences": ["really bad film", "i say"]},
        {"review": review, "label": 0, "evidences": ["ad film"]},
    ]
    public({"test": rows}).save_to_disk(str(tmp_path / "movies_rationales"))
    with pytest.raises(InputError, match="test row 2: an evidence does not stand in the review"):
        read("movies_rationales", data_dir=tmp_path)
    found = read("movies_rationales", data_dir=tmp_path, on_bad="skip")
    assert found[0].words == tuple(review.split())
    assert found[0].maps == {"rationale": (0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0)}
    assert found.skipped == {"an evidence does not stand in the review": 1}


def test_an_eraser_folder(tmp_path: Path):
    folder = tmp_path / "movies_rationales"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "negR_1.txt").write_text("a bad film .\nreally .\n")
    (folder / "docs" / "posR_2.txt").write_text("fine")
    spans = [[{"docid": "negR_1.txt", "start_token": 1, "end_token": 3}],
             [{"docid": "negR_1.txt", "start_token": 4, "end_token": 5}]]  # fmt: skip
    lines = {
        "train": ("negR_1.txt", "NEG", spans),
        "val": ("posR_2.txt", "POS", []),
        "test": ("x", "POS", []),
    }
    (folder / "docs" / "x").write_text("good")
    for name, (own, label, evidences) in lines.items():
        line = {"annotation_id": own, "classification": label, "evidences": evidences, "query": "?"}
        (folder / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    found = read("movies_rationales", data_dir=tmp_path)
    assert [(one.id, one.label) for one in found] == [("x", 1), ("negR_1.txt", 0), ("posR_2.txt", 1)]
    [marked] = read(folder, split="train")
    assert marked.words == ("a", "bad", "film", ".", "really", ".")
    assert marked.maps == {"rationale": (0, 1, 1, 0, 1, 0)}
    assert set(splits(folder)) == {"train", "validation", "test"}


EVIDENCE = {
    "annotation_id": "a.txt",
    "classification": "NEG",
    "evidences": [[{"docid": "a.txt", "start_token": 1, "end_token": 3}], []],
}
DAMAGE = (None, True, -1, 10**30, 1.5, "", "x", "a\0b", "\ud800", "a" * 5000, [], [None], {}, {"a": 1}, [[1]])


def damaged_lines() -> Iterator[str]:
    """The annotation with each of its parts exchanged for something else, or left out."""

    def parts(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        yield way
        inside = (
            value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
        )
        for key, entry in inside:
            yield from parts(entry, (*way, key))

    for way in parts(EVIDENCE):
        for other in DAMAGE:
            whole = {"line": json.loads(json.dumps(EVIDENCE))}
            *before, last = ("line", *way)
            holder: Any = whole
            for key in before:
                holder = holder[key]
            holder[last] = other
            yield json.dumps(whole["line"])
            if way:
                del holder[last]
                yield json.dumps(whole["line"])
    yield from ("{broken", "[" * 100_000, '{"annotation_id": ' + "1" * 5000 + "}")


@pytest.fixture
def eraser_folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("the secret")
    docs = tmp_path / "data" / "movies" / "docs"
    docs.mkdir(parents=True)
    (docs / "a.txt").write_text("a bad film .")
    return docs.parent


def test_damaged_lines_of_an_eraser_folder_become_sentences(eraser_folder: Path):
    lines = list(dict.fromkeys(damaged_lines()))
    assert len(lines) > 150
    good = json.dumps(EVIDENCE)
    (eraser_folder / "train.jsonl").write_text("\n".join([good, *lines]) + "\n")
    found = read(eraser_folder, on_bad="skip")
    assert found[0].maps == {"rationale": (0, 1, 1, 0)}
    assert len(found) + sum(found.skipped.values()) == len(lines) + 1
    assert sum(found.skipped.values()) > 100
    for line in lines:
        (eraser_folder / "train.jsonl").write_text(line + "\n")
        try:
            assert read(eraser_folder)[0].text == "a bad film ."
        except InputError:
            continue


@pytest.mark.parametrize(
    "name", ["../../../secret.txt", "{root}/secret.txt", "link.txt", "../docs/../../secret.txt"]
)
def test_an_annotation_leads_to_no_file_outside_of_its_folder(eraser_folder: Path, name: str):
    root = eraser_folder.parent.parent
    (eraser_folder / "docs" / "link.txt").symlink_to(root / "secret.txt")
    line = {**EVIDENCE, "annotation_id": name.format(root=root), "evidences": []}
    (eraser_folder / "train.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match="lies outside of the folder docs"):
        read(eraser_folder)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"label": "1" * 5000}, None),  # a name, not a number
        ({"rationale": [[1], [0]]}, "something else than 0 and 1"),
        ({"split": ["train"]}, None),
    ],
)
def test_odd_cells_of_a_row_are_told_or_read(tmp_path: Path, damage: dict[str, Any], told: str | None):
    whole = {"text": "bad film", "label": 0, "label_name": "neg", "split": "train"}
    whole |= {"words": ["bad", "film"], "rationale": [1, 0]}
    lines = [
        json.dumps(row) for row in (whole, {**whole, "label": 1, "label_name": "pos"}, {**whole, **damage})
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    found = read(tmp_path / "a.jsonl", on_bad="skip")
    assert set(splits(tmp_path / "a.jsonl")) >= {"train"}
    assert len(found) == (3 if told is None else 2)
    if told is not None:
        with pytest.raises(InputError, match=told):
            read(tmp_path / "a.jsonl")


def test_the_tables_of_yelp_hat(tmp_path: Path):
    def spans(*marked: int, extra: str = "") -> str:
        words = ("great", "food", "&amp;", "wine,", "slow", "staff")
        parts = [
            f'<span class="active">{word}</span>' if place in marked else f"<span{extra}>{word}</span>"
            for place, word in enumerate(words)
        ]
        return " ".join(parts) + " <span></span>"

    rows = [
        (1, "great food & wine,\n slow staff", "yes", spans(0, 1, 4)),
        (1, "great food & wine,\n slow staff", "yes", spans(0, 4, extra=' data-x="1"')),
        (1, "great food & wine,\n slow staff", "no", spans(0, extra=' class=""')),
        (0, "one annotator", "no", '<span>one</span> <span class="active">annotator</span> <span></span>'),
        (0, "no map", "no", "{}"),
    ]
    table = datasets.Dataset.from_list(
        [
            {"Input.label": a, "Input.text": b, "Answer.Q1Answer": c, "Answer.html_output": d}
            for a, b, c, d in rows
        ]
    )
    (tmp_path / "yelp_hat").mkdir()
    table.to_csv(str(tmp_path / "yelp_hat" / "ham_part1.csv"))
    found = read("yelp_hat", data_dir=tmp_path, on_bad="skip")
    [one] = found
    assert (one.text, one.label) == ("great food & wine, slow staff", 1)
    assert one.words == ("great", "food", "&", "wine,", "slow", "staff")
    assert one.maps == {
        "consensus": (1, 0, 0, 0, 0, 0),
        "majority": (1, 0, 0, 0, 1, 0),
        "superset": (1, 1, 0, 0, 1, 0),
    }
    assert sum(found.skipped.values()) == 2
    assert read(tmp_path / "yelp_hat" / "ham_part1.csv", on_bad="skip").documents[0].maps == one.maps


def test_a_folder_of_another_form_says_what_it_lacks(tmp_path: Path):
    public({"train": [{"phrase": "x", "label": 1}]}).save_to_disk(str(tmp_path / "sst2"))
    with pytest.raises(InputError, match="the published form has a column 'sentence', this one has phrase"):
        read("sst2", text="phrase", data_dir=tmp_path)


def test_known_names_are_looked_up_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for folder in ("mine", "theirs"):
        (tmp_path / folder).mkdir()
        datasets.Dataset.from_list([{"text": folder, "label": 1}]).to_parquet(
            str(tmp_path / folder / "imdb.parquet")
        )
    monkeypatch.setenv("SLALOM_DATA", str(tmp_path / "theirs"))
    assert read("imdb")[0].text == "theirs"
    assert read("stanfordnlp/imdb", data_dir=tmp_path / "mine")[0].text == "mine"
    assert locate("imdb") == tmp_path / "theirs" / "imdb.parquet"
    assert locate("sst2") is None


def test_what_is_neither_here_nor_reachable_is_said_in_a_sentence():
    with pytest.raises(InputError, match=r"yelp_hat is not on the hub.*yelp_hat\.parquet"):
        read("yelp_hat")
    code = (
        "from slalom.data import read\nfrom slalom.errors import InputError\n"
        "try: read('imdb')\nexcept InputError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert result.stdout.startswith("the data set stanfordnlp/imdb could not be read: "), result.stderr
    assert "SLALOM_DATA" in result.stdout
