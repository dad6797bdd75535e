"""Rows as a Markdown table, and back: what a report shows of an experiment, and what it can be read as."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slalom_lab.experiments._shared.outcome import Row

_KEYS = (
    "architecture beside classes context data form head layers method minimum model protocol queries review "
    "samples size solver surrogate tokens words"
)
_KNOWN = {*_KEYS.split(), "model, layers"}
_NUMBER = r"(–|[-+\d.e]+)(?: ± ([-+\d.e]+))?"
_CELL = re.compile(rf"^{_NUMBER}(?: \({_NUMBER}\))?$")


def table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table: a line for each place, a column for each measure."""
    keys = list(dict.fromkeys(key for row in rows for key in row.where))
    measures = list(dict.fromkeys(row.measure for row in rows))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        place = tuple(str(row.where.get(key, "")) for key in keys)
        cells.setdefault(place, {})[row.measure] = _both(row)
    lines = [_line([*keys, *measures]), "|" + "---|" * (len(keys) + len(measures))]
    lines += [_line([*place, *(found.get(m, "") for m in measures)]) for place, found in cells.items()]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


def _both(row: Row) -> str:
    ours = _number(row.ours, row.error)
    return ours if row.paper is None else f"{ours} ({_number(row.paper, row.paper_error)})"


def _number(value: float | None, error: float | None) -> str:
    if value is None:
        return "–"
    told = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return told if error is None else f"{told} ± {error:.2g}"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def rows_of(text: str) -> list[Row]:
    """The rows of the first table of a section, as far as it shows them: numbers are rounded, n is lost."""
    lines = [_split(line) for line in text.splitlines() if line.startswith("| ")]
    if not lines:
        return []
    head, found = lines[0], []
    keys = [name for name in head if name in _KNOWN]
    for line in lines[1:]:
        by_name = dict(zip(head, line, strict=True))
        where = {key: _place(by_name[key]) for key in keys if by_name[key]}
        cells = ((name, _CELL.match(by_name[name])) for name in head if name not in keys)
        found += [
            Row(where, name, _read(cell[1]), _read(cell[2]), None, _read(cell[3]), _read(cell[4]))
            for name, cell in cells
            if cell is not None
        ]
    return found


def _split(line: str) -> list[str]:
    return [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", line)[1:-1]]


def _place(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def _read(text: str | None) -> float | None:
    return None if text in (None, "–") else float(text)
