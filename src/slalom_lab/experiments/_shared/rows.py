"""Rows as a Markdown table: what a report shows of an experiment."""

from __future__ import annotations

from collections.abc import Sequence

from slalom_lab.experiments._shared.outcome import Row


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
