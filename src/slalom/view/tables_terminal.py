"""A report about a corpus in the terminal."""

from __future__ import annotations

import math

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from slalom.view import sentences
from slalom.view.tables import SURE, UNSTABLE, Report, Section, Table, told, unstable
from slalom.view.text import label, visible

_TOKEN = 24
_CELL = 70
_LEAST = ("removal", "copies", "opposite", "documents", "importance", "value")
"""Columns that a narrow terminal does without, the first first."""
_RANKED = "Strongest first: by what is left of |{ranking}| after {sure:.0f} standard errors."
_UNSTABLE = (
    "Important, but the sign depends on the document (in {share:.0%} of the documents or more the other one):"
)


def show(report: Report, top: int, console: Console | None = None) -> None:
    """Print the first `top` rows of every table and list."""
    console = Console() if console is None else console
    console.print(Text(visible(report.title), style="bold"))
    facts = Grid.grid(padding=(0, 2, 0, 0))
    for name, said in report.facts:
        facts.add_row(Text(name, style="dim"), Text(visible(said)))
    console.print(facts)
    for sentence in told(report):
        console.print(Text(sentence))
    for table in report.tables:
        _show_table(table, top, console)
    for section in report.sections:
        _show_section(section, top, console)
    for note in report.notes:
        console.print(Text(visible(note), style="dim"))


def _show_table(table: Table, top: int, console: Console) -> None:
    console.print()
    console.print(Text(f"{visible(table.label)} · {visible(table.about)}", style="bold"))
    if len(table) == 0:
        console.print(Text("No token is in enough documents; lower --min-count.", style="yellow"))
        return
    console.print(_grid(table, list(range(min(top, len(table)))), console.width))
    said = _RANKED.format(ranking=table.ranking, sure=SURE)
    console.print(Text(f"{said} {rest(table, top)}", style="dim"))
    shaky = unstable(table)
    if shaky:
        console.print()
        console.print(Text(_UNSTABLE.format(share=UNSTABLE)))
        console.print(_grid(table, shaky[:top], console.width))


def rest(table: Table, shown: int) -> str:
    """What the table does not show."""
    more = len(table) - min(shown, len(table))
    parts = [f"{more:,} more types follow."] if more else []
    parts += [f"{table.hidden:,} types are too rare to be shown."] if table.hidden else []
    return " ".join(parts)


def _grid(table: Table, rows: list[int], width: int) -> Grid:
    """The rows that are asked for; columns that do not fit are left out, the token never."""
    shown = {name: [cells(table, row)[i] for row in rows] for i, name in enumerate(heads(table))}
    tokens = [_short(label(table.tokens[row]), _TOKEN) for row in rows]
    room = width - max(map(cell_len, ["token", *tokens])) - 2
    for name in (name for name in _LEAST if name != table.ranking):
        if sum(max(map(len, [head, *column])) + 2 for head, column in shown.items()) > room:
            shown.pop(name, None)
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("token", no_wrap=True)
    for name in shown:
        grid.add_column(name, justify="right", no_wrap=True)
    for row, token in enumerate(tokens):
        grid.add_row(Text(token), *(Text(column[row]) for column in shown.values()))
    return grid


def heads(table: Table) -> list[str]:
    """The columns behind the token."""
    names = [table.ranking, *(name for name in table.scores if name != table.ranking)]
    return ["documents", "copies", *names, *(["opposite"] if table.opposite is not None else [])]


def cells(table: Table, row: int) -> list[str]:
    """The numbers of one row as they are shown."""
    shown = [f"{table.documents[row]:,}", f"{table.occurrences[row]:,}"]
    for name in heads(table)[2:]:
        if name == "opposite" and table.opposite is not None:
            shown.append(f"{table.opposite[row]:.0%}")
            continue
        places = min(max(sentences.scale(table.scores[name]).places, 2), 3)
        score = sentences.signed(float(table.scores[name][row]), places).strip()
        shown.append(f"{score} {sentences.error(float(table.stderr[name][row]), places)}")
    return shown


def number(table: Table, row: int, name: str) -> float:
    """The number behind a cell, for sorting."""
    known = {"documents": table.documents, "copies": table.occurrences, "opposite": table.opposite}
    column = known.get(name)
    value = float((table.scores[name] if column is None else column)[row])
    return value if math.isfinite(value) else 0.0


def _show_section(section: Section, top: int, console: Console) -> None:
    if not section.rows:
        return
    console.print()
    console.print(Text(visible(section.heading), style="bold"))
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in section.columns:
        grid.add_column(name)
    for row in section.rows[:top]:
        grid.add_row(*(Text(_short(visible(cell), _CELL)) for cell in row))
    console.print(grid)
    if section.note:
        console.print(Text(visible(section.note), style="dim"))


def _short(text: str, most: int) -> str:
    return text if cell_len(text) <= most else set_cell_size(text, most - 1) + "…"
