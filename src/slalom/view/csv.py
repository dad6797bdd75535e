"""CSV: a row for each word of the text with its place, its scores and their standard errors. Corpora, too."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from slalom.explanation import Explanation
from slalom.files import plain
from slalom.view import sentences
from slalom.view.tables import TokenTable

SUFFIX = ".csv"


def render(explanation: Explanation) -> str:
    """Every unit in the order of the text; other labels follow, the label in the first column."""
    explanation = explanation.shown
    every = [explanation, *explanation.classes.values()]
    names = list(dict.fromkeys(name for one in every for name in sentences.columns(one)))
    columns = [column for name in names for column in (name, f"{name}_stderr")]
    rows = (row for one in every for row in _rows(one, names))
    return table(["label", "position", "start", "end", sentences.kind(explanation), *columns], rows)


def _rows(explanation: Explanation, names: Sequence[str]) -> Iterable[Sequence[object]]:
    tokens = explanation.tokens
    for i in explanation.listed.tolist():
        start, end = tokens.spans[i].tolist()
        numbers = [
            plain(float(scores[name][i])) if name in scores else None
            for name in names
            for scores in (explanation.scores, explanation.stderr)
        ]
        yield [explanation.target, i, start, end, tokens.strings[i], *numbers]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV that no spreadsheet takes for formulas."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    """A string that would be a formula stands behind an apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value


def to_csv(tables: tuple[TokenTable, ...]) -> str:
    """Every row of every table, with the label in front."""
    names = list(dict.fromkeys(name for each in tables for name in each.columns()))
    return table(["label", "rank", *names], (row for each in tables for row in _csv_rows(each, names)))


def _csv_rows(table: TokenTable, names: list[str]) -> Iterator[list[object]]:
    columns = {name: cast(list[object], plain(column)) for name, column in table.columns().items()}
    for row in range(len(table)):
        yield [table.label, row + 1, *(columns[name][row] if name in columns else None for name in names)]
