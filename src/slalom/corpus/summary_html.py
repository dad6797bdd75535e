"""A report about a corpus as a web page that needs nothing but itself; its tables are sorted by a click."""

from __future__ import annotations

from html import escape

from slalom.corpus.summary_table import SURE, UNSTABLE, Report, Section, Table, unstable
from slalom.corpus.summary_view import cells, heads, number, rest
from slalom.view.style import FRAGMENT, PAGE, policy, shade
from slalom.view.text import label, strength, visible

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
