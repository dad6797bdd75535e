"""The data sets known by name: where they are published, and how their public rows become ours.

Every mapping takes a row in the published form and gives one with the columns text, label and, where
people marked words, words and the maps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slalom.data.tables import Bad, Row

SENTIMENT = ("negative", "positive")
_EXPORT = "refs/convert/parquet"
"""The branch on which the hub keeps a Parquet export of data sets that were published as code."""

Convert = Callable[[Mapping[str, Any]], Row]


def _as_it_is(row: Mapping[str, Any]) -> Row:
    return dict(row)


def imdb(row: Mapping[str, Any]) -> Row:
    """Line breaks written as HTML become spaces."""
    return {**row, "text": _clean(row["text"], (("<br />", " "),))}


def yelp_polarity(row: Mapping[str, Any]) -> Row:
    """The published text writes line breaks and quotation marks with a backslash."""
    return {**row, "text": _clean(row["text"], (("\\n", " "), ('\\"', '"'), ('""', '"')))}


def ag_news(row: Mapping[str, Any]) -> Row:
    """Backslashes stand for line breaks."""
    return {**row, "text": _clean(row["text"], (("\\", " "),))}


def sst2(row: Mapping[str, Any]) -> Row:
    return {"text": row["sentence"], "label": row["label"]}


def movie_rationales(row: Mapping[str, Any]) -> Row:
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


def hatexplain(row: Mapping[str, Any]) -> Row:
    """HateXplain: the label most annotators gave, none where all differ, and the maps they drew."""
    annotators = row["annotators"]
    labels = annotators["label"] if isinstance(annotators, Mapping) else [one["label"] for one in annotators]
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


def _clean(text: Any, changes: Sequence[tuple[str, str]]) -> Any:
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
