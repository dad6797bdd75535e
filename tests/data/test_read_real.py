"""The real data sets, where SLALOM_DATA names the folder that holds them."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from slalom.data import locate, read, splits
from slalom.data.public import KNOWN, movie_rationales

pytestmark = pytest.mark.skipif(
    not os.environ.get("SLALOM_DATA"), reason="SLALOM_DATA does not name a folder with data sets"
)

COUNTS = {
    "imdb": {"train": {0: 6250, 1: 6250}, "test": {0: 6104, 1: 6096}},
    "yelp": {"train": {0: 3202, 1: 14426}, "test": {0: 1000, 1: 1000}},
    "yelp_hat": {None: {0: 685, 1: 715}},
    "movies_rationales": {
        "train": {0: 800, 1: 800},
        "validation": {0: 100, 1: 100},
        "test": {0: 100, 1: 99},
    },
    "sst2": {"train": {0: 25834, 1: 32608}, "validation": {0: 428, 1: 444}},
    "agnews": {"train": dict.fromkeys(range(4), 2200), "test": dict.fromkeys(range(4), 800)},
    "hatexplain": {
        "train": {0: 4741, 1: 6227, 2: 4369},
        "validation": {0: 593, 1: 781, 2: 548},
        "test": {0: 594, 1: 782, 2: 548},
    },
}


def _here(name: str) -> None:
    if locate(name) is None:
        pytest.skip(f"SLALOM_DATA has no {name}")


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str):
    _here(name)
    for split, wanted in COUNTS[name].items():
        found = read(name, split=split)
        assert Counter(one.label for one in found) == wanted
        assert found.labels == KNOWN[name].labels
    assert splits(name) == tuple(split for split in COUNTS[name] if split)


def test_emotion():
    _here("emotion")
    assert [len(read("emotion", split=split)) for split in ("train", "validation", "test")] == [
        15923,
        1988,
        1986,
    ]


def test_maps_are_those_of_the_annotators():
    _here("yelp_hat")
    rows = pq.read_table(locate("yelp_hat") or "").to_pylist()
    for document, row in zip(read("yelp_hat"), rows, strict=True):
        marks = np.array(row["human_attention"])
        assert document.words == tuple(document.text.split()) if isinstance(document.text, str) else False
        assert document.maps["consensus"] == tuple(marks.min(axis=0))
        assert document.maps["majority"] == tuple((2 * marks.sum(axis=0) > len(marks)).astype(int))
        assert document.maps["superset"] == tuple(marks.max(axis=0))


def test_rationales_stand_on_their_words():
    _here("movies_rationales")
    shares = []
    for document in read("movies_rationales", split="test"):
        assert document.text == " ".join(document.words or ())
        shares.append(np.mean(document.maps["rationale"]))
    assert np.mean(shares) == pytest.approx(0.31, abs=0.02)


def test_the_published_form_of_the_movies_marks_nearly_the_same_words():
    _here("movies_rationales")
    agreed = marked = 0
    for row in pq.read_table(locate("movies_rationales") or "").to_pylist()[:400]:
        words, spans = row["tokens"], row["evidence_spans"]
        published = {
            "review": " ".join(words),
            "label": row["label"],
            "evidences": [" ".join(words[start:end]) for start, end in spans],
        }
        made = movie_rationales(published)
        assert isinstance(made, dict)
        own, wanted = np.array(made["rationale"]), np.array(row["rationale"])
        agreed += int((own & wanted).sum())
        marked += int((own | wanted).sum())
    assert agreed / marked > 0.98  # a phrase that stands twice is marked where it stands first


def test_only_annotated_posts_have_maps():
    _here("hatexplain")
    found = {
        split: [one for one in read("hatexplain", split=split) if one.maps] for split in splits("hatexplain")
    }
    assert {split: len(part) for split, part in found.items()} == {
        "train": 0,
        "validation": 1141,
        "test": 1142,
    }
    assert all(max(one.maps["union"]) == 1 and one.label != 1 for one in found["test"])
