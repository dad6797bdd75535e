"""The data sets known by name: where they are published, and how their public rows become ours.

Every mapping takes a row in the published form and gives one with the columns text, label and, where
people marked words, words and the maps.

Published data sets through the `datasets` library: from the hub, or from a folder in the same layout.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from slalom.data.tables import Bad, Convert, Part, Row, RowTable, hub_library, of_parts, quiet
from slalom.files import Record

SENTIMENT = ("negative", "positive")
_EXPORT = "refs/convert/parquet"
"""The branch on which the hub keeps a Parquet export of data sets that were published as code."""


def _as_it_is(row: Record) -> Row:
    return dict(row)


def imdb(row: Record) -> Row:
    """Line breaks written as HTML become spaces."""
    return {**row, "text": _clean(row["text"], (("<br />", " "),))}


def yelp_polarity(row: Record) -> Row:
    """The published text writes line breaks and quotation marks with a backslash."""
    return {**row, "text": _clean(row["text"], (("\\n", " "), ('\\"', '"'), ('""', '"')))}


def ag_news(row: Record) -> Row:
    """Backslashes stand for line breaks."""
    return {**row, "text": _clean(row["text"], (("\\", " "),))}


def sst2(row: Record) -> Row:
    return {"text": row["sentence"], "label": row["label"]}


def movie_rationales(row: Record) -> Row:
    """ERASER movies: every evidence is a piece of the review; its words are marked where it first stands."""
    words = row["review"].split()
    line = f" {' '.join(words)} "
    marks = [0] * len(words)
    for evidence in row["evidences"]:
        piece = evidence.split()
        start = line.find(f" {' '.join(piece)} ")
        if start < 0:
            return Bad("an evidence does not stand in the review")
        first = line.count(" ", 0, start)
        marks[first : first + len(piece)] = [1] * len(piece)
    return {"text": " ".join(words), "label": row["label"], "words": words, "rationale": marks}


def hatexplain(row: Record) -> Row:
    """HateXplain: the label most annotators gave, none where all differ, and the maps they drew."""
    annotators = row["annotators"]
    by_column = isinstance(annotators, Mapping)
    labels = cast("list[object]", annotators["label"] if by_column else [one["label"] for one in annotators])
    [(label, votes)] = Counter(labels).most_common(1)
    words = list(row["post_tokens"])
    marked = [list(map(int, marks)) for marks in row["rationales"]]
    if any(len(marks) != len(words) for marks in marked):
        return Bad("a rationale is not as long as the post")
    return {
        "id": row["id"],
        "text": " ".join(words),
        "label": label if votes > 1 else None,
        "words": words,
        "majority": [int(2 * sum(column) >= len(marked)) for column in zip(*marked, strict=True)],
        "union": [max(column) for column in zip(*marked, strict=True)],
    }


def _clean(text: object, changes: Sequence[tuple[str, str]]) -> object:
    if not isinstance(text, str):
        return text
    for old, new in changes:
        text = text.replace(old, new)
    return re.sub(r"\s+", " ", text).strip()


@dataclass(frozen=True)
class Known:
    """A data set with a name of its own."""

    name: str
    labels: tuple[str, ...]
    hub: str | None = None
    splits: tuple[str, ...] = ("train", "test")
    """The labelled splits of the published form."""
    convert: Convert = _as_it_is
    revision: str | None = None


KNOWN = {
    known.name: known
    for known in (
        Known("imdb", SENTIMENT, "stanfordnlp/imdb", convert=imdb),
        Known("yelp", SENTIMENT, "fancyzhx/yelp_polarity", convert=yelp_polarity),
        Known("yelp_hat", SENTIMENT),
        Known(
            "movies_rationales",
            SENTIMENT,
            "eraser-benchmark/movie_rationales",
            ("train", "validation", "test"),
            movie_rationales,
            _EXPORT,
        ),
        Known("sst2", SENTIMENT, "stanfordnlp/sst2", ("train", "validation"), sst2),
        Known("agnews", ("World", "Sports", "Business", "Sci/Tech"), "fancyzhx/ag_news", convert=ag_news),
        Known(
            "emotion",
            ("sadness", "joy", "love", "anger", "fear", "surprise"),
            "dair-ai/emotion",
            ("train", "validation", "test"),
        ),
        Known(
            "hatexplain",
            ("hatespeech", "normal", "offensive"),
            "Hate-speech-CNERG/hatexplain",
            ("train", "validation", "test"),
            hatexplain,
            _EXPORT,
        ),
    )
}


def known(source: str) -> Known | None:
    """The data set of this name or hub id."""
    return next((one for one in KNOWN.values() if source in (one.name, one.hub)), None)


def from_hub(repository: str, known: Known | None) -> RowTable:
    """The splits of a data set on the hub. Code that comes with a data set is never run."""
    load = hub_library().load_dataset
    with quiet(repository, "give a file, or the folder that holds it (data_dir, SLALOM_DATA)"):
        parts = load(repository, revision=None if known is None else known.revision)
    return _table(repository, parts, known)


def from_folder(folder: Path, known: Known | None) -> RowTable:
    """A data set saved by `save_to_disk`, or a folder of files named after their splits."""
    datasets = hub_library()
    saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    with quiet(str(folder), "it must be a saved data set or hold files named after their splits"):
        parts = datasets.load_from_disk(str(folder)) if saved else datasets.load_dataset(str(folder))
    return _table(folder.name, parts, known)


def _table(name: str, loaded: Part | dict[str, Part], known: Known | None) -> RowTable:
    parts = loaded if isinstance(loaded, dict) else {str(loaded.split or "train"): loaded}  # one, saved alone
    if known is None:
        return of_parts(name, parts)
    own = {split: part for split, part in parts.items() if split in known.splits}
    return of_parts(known.name, own or parts, known.convert, known.labels)
