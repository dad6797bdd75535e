"""A report about a corpus in the terminal, and as a web page whose tables are sorted by a click."""

from __future__ import annotations

import math
from html import escape

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from slalom.view import sentences
from slalom.view.style import FRAGMENT, PAGE, policy, shade
from slalom.view.tables import SURE, UNSTABLE, Report, Section, Table, unstable
from slalom.view.text import label, strength, visible

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


MOST = 500
"""Rows of a table on the page; the files hold all of them."""

_STYLE = """
.slalom-explanation .card{margin:1rem 0}
.slalom-explanation dl{margin:.6em 0}
.slalom-explanation th button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer}
.slalom-explanation th[aria-sort=ascending] button::after{content:" ▲"}
.slalom-explanation th[aria-sort=descending] button::after{content:" ▼"}
.slalom-explanation td.long{white-space:normal;overflow-wrap:anywhere;max-width:48rem}
.slalom-explanation .scroll{max-height:36rem;overflow:auto;margin:.5em 0}
.slalom-explanation .scroll thead th{position:sticky;top:0;background:#fff;z-index:1}
@media (prefers-color-scheme:dark){.slalom-explanation .scroll thead th{background:#181c23}}
"""

_SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0], place = head.cellIndex;
  const down = head.getAttribute("aria-sort") !== "descending" && !head.hasAttribute("data-text")
    || head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => row.cells[place].dataset.sort, sign = down ? -1 : 1;
  const compare = head.hasAttribute("data-text") ? (a, b) => key(a).localeCompare(key(b))
    : (a, b) => key(a) - key(b);
  body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
});
"""


def render(report: Report) -> str:
    """The whole page."""
    allowed = policy((PAGE, FRAGMENT, _STYLE), (_SCRIPT,))
    title = escape(visible(report.title))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{PAGE}</style>\n<style>{FRAGMENT}</style>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>slalom <span>{title}</span></h1>\n"
        f'<div class="slalom-explanation">{_body(report)}</div>\n</main>\n'
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _body(report: Report) -> str:
    facts = "".join(
        f"<dt>{escape(visible(name))}</dt><dd>{escape(visible(said))}</dd>" for name, said in report.facts
    )
    notes = "".join(f'<p class="note">{escape(visible(note))}</p>' for note in report.notes)
    tables = "".join(_table(table) for table in report.tables)
    sections = "".join(_section(section) for section in report.sections if section.rows)
    return f"<dl>{facts}</dl>{notes}{tables}{sections}"


def _table(table: Table) -> str:
    head = f"<h3>{escape(visible(table.label))}</h3><p>{escape(visible(table.about))}</p>"
    if len(table) == 0:
        return _card(f'{head}<p class="note">No token is in enough documents.</p>')
    shaky = unstable(table)
    said = f"Strongest first: by what is left of |{table.ranking}| after {SURE:.0f} standard errors."
    more = ""
    if shaky:
        more = _card(
            f"<h3>{escape(visible(table.label))}: important, with unstable sign</h3>"
            f"<p>In {UNSTABLE:.0%} of the documents or more the token clearly has the other sign.</p>"
            f"{_rows(table, shaky[:MOST])}"
        )
    first = _rows(table, list(range(min(MOST, len(table)))))
    return _card(f'{head}{first}<p class="legend">{escape(f"{said} {rest(table, MOST)}")}</p>') + more


def _card(inside: str) -> str:
    return f'<section class="card">{inside}</section>'


def _rows(table: Table, rows: list[int]) -> str:
    names = heads(table)
    shares = strength(table.scores[table.ranking])
    head = '<th scope="col" data-text><button type="button">token</button></th>' + "".join(
        f'<th class="number" scope="col"><button type="button">{escape(name)}</button></th>' for name in names
    )
    body = "".join(_row(table, names, row, float(shares[row])) for row in rows)
    return (
        f'<div class="wide scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(table: Table, names: list[str], row: int, share: float) -> str:
    kind = f' class="{shade(share)}"' if shade(share) else ""
    token = escape(label(table.tokens[row]))
    shown = zip(names, cells(table, row), strict=True)
    numbers = "".join(
        f'<td class="number" data-sort="{number(table, row, name)!r}">{escape(cell)}</td>'
        for name, cell in shown
    )
    return f'<tr><td{kind} dir="auto" data-sort="{token}">{token}</td>{numbers}</tr>'


def _section(section: Section) -> str:
    head = "".join(f'<th scope="col">{escape(visible(name))}</th>' for name in section.columns)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="long" dir="auto">{escape(visible(cell))}</td>' for cell in row)
        + "</tr>"
        for row in section.rows
    )
    note = f'<p class="legend">{escape(visible(section.note))}</p>' if section.note else ""
    return _card(
        f"<h3>{escape(visible(section.heading))}</h3>"
        f'<div class="wide scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{note}"
    )
