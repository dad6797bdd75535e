"""Annotated data sets as their authors publish them: the Yelp-HAT tables and an ERASER folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from slalom.data.tables import Bad, Row, open_file
from slalom.errors import InputError
from slalom.files import read_text

_LABEL, _TEXT, _MAP = "Input.label", "Input.text", "Answer.html_output"
_SPLITS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}
_CLASSES = {"NEG": 0, "POS": 1}


def is_yelp_hat(columns: Sequence[str]) -> bool:
    """Whether a table has the columns of the Yelp-HAT files."""
    return {_LABEL, _TEXT, _MAP} <= set(columns)


def is_eraser(folder: Path) -> bool:
    """Whether a folder has the layout of an ERASER data set."""
    return (folder / "docs").is_dir() and (folder / "train.jsonl").is_file()


def yelp_hat(paths: Sequence[Path]) -> list[Row]:
    """One row per review, with the maps of all its annotators joined; it needs two of them."""
    answers: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        for _, row in open_file(path).rows(None):
            if isinstance(row, Bad) or not row.get(_TEXT) or not row.get(_MAP):
                continue  # an annotation without words says nothing about the others
            answers.setdefault(" ".join(row[_TEXT].split()), []).append(row)
    return [_review(text, given) for text, given in answers.items()]


def _review(text: str, given: list[dict[str, Any]]) -> Row:
    words = text.split()
    maps = [marks for row in given if len(marks := _marks(row[_MAP])) == len(words)]
    if len(maps) < 2:
        return Bad(f"{len(maps)} of {len(given)} annotations fit the words of the review; two are needed")
    columns = list(zip(*maps, strict=True))
    return {
        "text": text,
        "label": given[0][_LABEL],
        "words": words,
        "consensus": [min(column) for column in columns],
        "majority": [int(2 * sum(column) > len(maps)) for column in columns],
        "superset": [max(column) for column in columns],
    }


def _marks(html: str) -> list[int]:
    """0 or 1 for every word that the annotator could click: one `span` each, and an empty one at the end."""
    parser = _Spans()
    parser.feed(html)
    parser.close()
    return [active for active, text in parser.spans if text.strip()]


class _Spans(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[int, str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "span":
            self._inside = True
            self.spans.append((int("active" in (dict(attrs).get("class") or "").split()), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "span"

    def handle_data(self, data: str) -> None:
        if self._inside:
            active, text = self.spans[-1]
            self.spans[-1] = (active, text + data)


def eraser(folder: Path) -> list[Row]:
    """All splits of an ERASER folder: documents under docs/, evidence as token offsets."""
    files = [path for path in sorted(folder.glob("*.jsonl")) if path.stem in _SPLITS]
    return [_evidence(folder, line, _SPLITS[path.stem]) for path in files for line in _lines(path)]


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in read_text(path).split("\n") if line.strip()]
    except ValueError as error:
        raise InputError(f"{path} is not JSON Lines: {error}") from error


def _evidence(folder: Path, line: dict[str, Any], split: str) -> Row:
    own = line["annotation_id"]
    spans = [span for group in line["evidences"] for span in group]
    if any(span["docid"] != own for span in spans):
        return Bad("its evidence stands in several documents; only one document per row is read")
    words = read_text(folder / "docs" / own).split()
    marks = [0] * len(words)
    for span in spans:
        start, end = span["start_token"], span["end_token"]
        marks[start:end] = [1] * (min(end, len(words)) - start)
    label = _CLASSES.get(line["classification"])
    return {
        "id": own, "text": " ".join(words), "label": label, "split": split, "words": words, "rationale": marks
    }  # fmt: skip
