"""Rows of files as they are: CSV, TSV, JSON Lines, JSON, Parquet, Yelp-HAT's tables and folders of ERASER."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Protocol

from slalom.errors import InputError, MissingExtraError
from slalom.files import Record, read_text

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")

_LONGEST_FIELD = 1 << 30


@dataclass(frozen=True)
class Bad:
    """A row that cannot be read, and why."""

    reason: str


Row = Record | Bad
Convert = Callable[[Record], Row]


@dataclass(frozen=True)
class RowTable:
    """Columns and rows of one source. A row's place names it in messages and in ids."""

    name: str
    columns: tuple[str, ...]
    rows: Callable[[str | None], Iterable[tuple[str, Row]]]
    """All rows; given a split, a source that keeps its splits apart gives that one only."""
    values: Callable[[str], Iterable[object]]
    """All values of one column."""
    labels: tuple[str, ...] | None = None
    """The label names, where the source itself declares them."""


def open_file(path: Path) -> RowTable:
    """The table in a file; its format is told by the ending of its name."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in (".csv", ".tsv"):
        return _separated(path, "\t" if suffix == ".tsv" else ",")
    if suffix in (".jsonl", ".ndjson", ".json"):
        return of_rows(path.stem, _json(path))
    raise InputError(f"{path} ends in {suffix or 'nothing'!r}; files are read in {', '.join(SUFFIXES)}")


def splits_of(table: RowTable) -> tuple[str, ...]:
    """The values of the column `split`, in their order."""
    return tuple(dict.fromkeys(str(value) for value in table.values("split") if value is not None))


def of_rows(name: str, rows: Sequence[Row], columns: Sequence[str] = ()) -> RowTable:
    """A table of rows at hand."""
    good = [row for row in rows if not isinstance(row, Bad)]
    return RowTable(
        name,
        tuple(dict.fromkeys([*columns, *(key for row in good for key in row)])),
        lambda _: ((f"row {place}", row) for place, row in enumerate(rows, 1)),
        lambda column: (row.get(column) for row in good),
    )


def _separated(path: Path, separator: str) -> RowTable:
    # The limit is one for the whole process; the module's default would refuse long documents.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter=separator)
    try:
        return of_rows(path.stem, [_fields(row) for row in reader], reader.fieldnames or ())
    except csv.Error as error:
        raise InputError(f"{path} is not readable as CSV: line {reader.line_num}: {error}") from error


def _fields(row: Mapping[str | None, object]) -> Row:
    if row.get(None) is not None:
        return Bad("more fields than the header has")
    return {name: value for name, value in row.items() if name is not None}


def _json(path: Path) -> list[Row]:
    text = read_text(path)
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}") from error
        return [_object(entry) for entry in entries]
    # Not splitlines(): that breaks at characters which JSON strings may hold as they are.
    return [_parsed(line) for line in text.split("\n") if line.strip()]


def _parsed(line: str) -> Row:
    try:
        return _object(json.loads(line))
    except (ValueError, RecursionError) as error:
        return Bad(f"not JSON: {str(error).split(':')[0]}")


def _object(entry: object) -> Row:
    return entry if isinstance(entry, dict) else Bad(f"a JSON {type(entry).__name__}, not an object")


def _parquet(path: Path) -> RowTable:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "data", "reading Parquet") from error
    try:
        columns = tuple(parquet.read_schema(path).names)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from error

    def rows(_: str | None = None) -> Iterator[tuple[str, Row]]:
        place = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    place += 1
                    yield f"row {place}", row

    return RowTable(
        path.stem,
        columns,
        rows,
        lambda column: parquet.read_table(path, columns=[column])[column].to_pylist(),
    )


_LABEL, _TEXT, _MAP = "Input.label", "Input.text", "Answer.html_output"
_SPLITS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}
_CLASSES = {"NEG": 0, "POS": 1}
ERASER = ("id", "text", "label", "split", "words", "rationale")
"""The columns of an ERASER folder."""


def is_yelp_hat(columns: Sequence[str]) -> bool:
    """Whether a table has the columns of the Yelp-HAT files."""
    return {_LABEL, _TEXT, _MAP} <= set(columns)


def is_eraser(folder: Path) -> bool:
    """Whether a folder has the layout of an ERASER data set."""
    return (folder / "docs").is_dir() and (folder / "train.jsonl").is_file()


def yelp_hat(paths: Sequence[Path]) -> list[Row]:
    """One row per review, with the maps of all its annotators joined; it needs two of them."""
    answers: dict[str, list[Record]] = {}
    for path in paths:
        for _, row in open_file(path).rows(None):
            if isinstance(row, Bad) or not row.get(_TEXT) or not row.get(_MAP):
                continue  # an annotation without words says nothing about the others
            answers.setdefault(" ".join(row[_TEXT].split()), []).append(row)
    return [_review(text, given) for text, given in answers.items()]


def _review(text: str, given: list[Record]) -> Row:
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
    docs = (folder / "docs").resolve()
    return [
        row if isinstance(row, Bad) else _evidence(docs, row, _SPLITS[path.stem])
        for path in files
        for _, row in open_file(path).rows(None)
    ]


def _evidence(docs: Path, line: Record, split: str) -> Row:
    own, label = line.get("annotation_id"), line.get("classification")
    if not (isinstance(own, str) and isinstance(label, str)):
        return Bad("its annotation_id or its classification is not a string")
    spans = _spans(line.get("evidences"))
    if spans is None:
        return Bad("its evidences are not lists of spans with docid, start_token and end_token")
    if any(docid != own for docid, _, _ in spans):
        return Bad("its evidence stands in several documents; only one document per row is read")
    try:
        words = read_text(_inside(docs, own)).split()
    except InputError as error:
        return Bad(str(error))
    marked = {place for _, start, end in spans for place in range(start, min(end, len(words)))}
    marks = [int(place in marked) for place in range(len(words))]
    return dict(zip(ERASER, (own, " ".join(words), _CLASSES.get(label), split, words, marks), strict=True))


def _spans(evidences: object) -> list[tuple[str, int, int]] | None:
    """Document, first token and the one after the last, of each piece of evidence; None if damaged."""
    if not (isinstance(evidences, list) and all(isinstance(group, list) for group in evidences)):
        return None
    found: list[tuple[str, int, int]] = []
    for span in (span for group in evidences for span in group):
        match span:
            case {"docid": str(docid), "start_token": int(start), "end_token": int(end)} if 0 <= start <= end:
                found.append((docid, start, end))
            case _:
                return None
    return found


def _inside(docs: Path, name: str) -> Path:
    """The document of this name; a name that leads out of the folder, also by a link, is refused."""
    try:
        path = (docs / name).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a null byte, half a surrogate pair, a loop
        raise InputError(f"no file can be called {name!r:.60}") from error
    if not path.is_relative_to(docs):
        raise InputError(f"the document {name!r:.60} lies outside of the folder docs")
    return path


class Part(Protocol):
    """One split, as the library `datasets` holds it."""

    column_names: list[str]
    features: Mapping[str, object]
    split: object

    def __iter__(self) -> Iterator[Record]: ...


def of_parts(
    name: str,
    parts: Mapping[str, Part],
    convert: Convert | None = None,
    labels: tuple[str, ...] | None = None,
) -> RowTable:
    """A published data set, split after split; its rows may be converted, its labels have names of ours."""
    first = next(iter(parts.values()))
    published = set(first.column_names)
    made_of = dict if convert is None or {"text", "label", "split"} <= published else convert

    def rows(wanted: str | None = None) -> Iterator[tuple[str, Row]]:
        for split, part in parts.items():
            if wanted in (None, split):
                for place, row in enumerate(part, 1):
                    yield f"{split} row {place}", _row(row, made_of, split)

    def values(column: str) -> Iterable[object]:
        if column == "split":
            return list(parts)
        return (row.get(column) for _, row in rows() if not isinstance(row, Bad))

    made = next((row for _, row in rows() if not isinstance(row, Bad)), dict.fromkeys(published))
    return RowTable(name, tuple(made), rows, values, labels or _names(first.features.get("label")))


def _row(row: Record, convert: Convert, split: str) -> Row:
    try:
        made = convert(row)
    except KeyError as error:
        return Bad(f"the published form has a column {error.args[0]!r}, this one has {', '.join(row)}")
    return made if isinstance(made, Bad) else {"split": split, **made}


def _names(feature: object) -> tuple[str, ...] | None:
    names = getattr(feature, "names", None)
    return tuple(names) if names else None


def hub_library() -> ModuleType:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "data", "reading a published data set") from error
    return datasets


@contextmanager
def quiet(source: str, advice: str) -> Generator[None]:
    """No bars of the library; what it cannot read is said in one sentence."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"the data set {source} could not be read: {reason}; {advice}") from error
    finally:
        if shown:
            enable_progress_bars()
