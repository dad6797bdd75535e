"""A report about a corpus as a web page: the strongest words with examples, a chart, tables."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from slalom.view import sentences
from slalom.view.style import FRAGMENT, PAGE, SORTING, TABLES, policy, shade, side
from slalom.view.tables import (
    SURE,
    UNSTABLE,
    Context,
    Document,
    Report,
    Section,
    Table,
    sides,
    spurious,
    told,
    unstable,
)
from slalom.view.tables_chart import chart
from slalom.view.tables_view import cells, heads, number, rest
from slalom.view.text import label, strength, visible

MOST = 500
"""Rows of a table on the page; the files hold all of them."""


def render(report: Report) -> str:
    """The whole page."""
    allowed = policy((PAGE, FRAGMENT, TABLES), (SORTING,))
    title = escape(visible(report.title))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{PAGE}</style>\n<style>{FRAGMENT}</style>\n"
        f"<style>{TABLES}</style>\n</head>\n<body>\n<main>\n<h1>slalom <span>{title}</span></h1>\n"
        f'<div class="slalom-explanation slalom-corpus">{_body(report)}</div>\n</main>\n'
        f"<script>{SORTING}</script>\n</body>\n</html>\n"
    )


def _body(report: Report) -> str:
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in told(report))
    facts = "".join(
        f"<dt>{escape(visible(name))}</dt><dd>{escape(visible(about))}</dd>" for name, about in report.facts
    )
    notes = "".join(f'<p class="note">{escape(visible(note))}</p>' for note in report.notes)
    tables = "".join(_table(report, table) for table in report.tables)
    sections = "".join(_section(section) for section in report.sections if section.rows)
    return (
        f'<div class="answer">{said}</div><dl>{facts}</dl>{notes}{tables}{sections}'
        f"{_documents(report.documents)}"
    )


def _table(report: Report, table: Table) -> str:
    name = f"<bdi>{escape(visible(table.label))}</bdi>"
    head = f"<h3>{name}</h3><p>{escape(visible(table.about))}</p>"
    if len(table) == 0:
        return _card(f'{head}<p class="note">No token is in enough documents.</p>')
    towards, against = sides(table)
    lists = _list(report, table, towards, f"For {name}", "for")
    lists += _list(report, table, against, f"Against {name}", "against")
    picture = f'<div class="chart"><h4>Value and importance</h4>{chart(table)}</div>'
    strong = _card(f'{head}<div class="pair"><div>{lists}</div>{picture}</div>')
    return strong + _odd(report, table) + _shaky(report, table) + _all(table)


def _odd(report: Report, table: Table) -> str:
    rows = spurious(table)
    if not rows:
        return ""
    title = f"{escape(visible(table.label))}: strong and frequent, but no content words"
    return _card(
        f"<h3>{title}</h3><p>Marks, numbers and function words that move the model for sure. A word that "
        f"should not count is a candidate for a spurious one.</p>{_list(report, table, rows, '', 'odd')}"
    )


def _shaky(report: Report, table: Table) -> str:  # noqa: ARG001
    rows = unstable(table)[:MOST]
    if not rows:
        return ""
    return _card(
        f"<h3>{escape(visible(table.label))}: important, with unstable sign</h3>"
        f"<p>In {UNSTABLE:.0%} of the documents or more the token clearly has the other sign.</p>"
        f"{_rows(table, rows)}"
    )


def _all(table: Table) -> str:
    said = f"Strongest first: by what is left of |{table.ranking}| after {SURE:.0f} standard errors."
    rows = _rows(table, list(range(min(MOST, len(table)))))
    title = f"{visible(table.label)}: all {len(table):,} token types"
    return _card(
        f"<details><summary>{escape(title)}</summary>{rows}"
        f'<p class="legend">{escape(f"{said} {rest(table, MOST)}")}</p></details>'
    )


def _card(inside: str) -> str:
    return f'<section class="card">{inside}</section>'


def _list(report: Report, table: Table, rows: list[int], heading: str, kind: str) -> str:
    if not rows:
        return ""
    shares = strength(table.scores[table.ranking])
    entries = "".join(_entry(report, table, row, float(shares[row]), row == rows[0]) for row in rows)
    return f'{f"<h4>{heading}</h4>" if heading else ""}<ol class="{kind}">{entries}</ol>'


def _entry(report: Report, table: Table, row: int, share: float, opened: bool) -> str:
    places = min(max(sentences.scale(table.scores[table.ranking]).places, 2), 3)
    score = sentences.signed(float(table.scores[table.ranking][row]), places).strip()
    error = sentences.error(float(table.stderr[table.ranking][row]), places)
    count = int(table.documents[row])
    line = (
        f"<bdi>{escape(label(table.tokens[row]))}</bdi>"
        '<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="100" height="8" class="rail"/><rect class="{side(share)}" '
        f'width="{100 * abs(share):.1f}" height="8"/></svg>'
        f'<span title="{escape(error)}">{escape(score)}</span>'
        f'<span class="many">{count:,} {"text" if count == 1 else "texts"}</span>'
    )
    contexts = report.context(table, row)
    if not contexts:
        return f'<li><div class="alone">{line}</div></li>'
    inside = "".join(f"<li>{_context(context, report)}</li>" for context in contexts)
    start = "<details open>" if opened else "<details>"
    return f'<li>{start}<summary>{line}</summary><ul class="contexts">{inside}</ul></details></li>'


def _context(context: Context, report: Report) -> str:
    shown = escape(visible(context.document))
    link = f'<a href="#document-{context.row}">{shown}</a>' if context.row in report.documents else shown
    return (
        f'<span dir="auto">{escape(visible(context.before))}<mark>{escape(visible(context.word))}</mark>'
        f'{escape(visible(context.after))}</span> <span class="many">({link})</span>'
    )


def _rows(table: Table, rows: list[int]) -> str:
    names = heads(table)
    shares = strength(table.scores[table.ranking])
    head = '<th scope="col" data-text><button type="button">token</button></th>' + "".join(
        f'<th class="number" scope="col"><button type="button">{escape(name)}</button></th>' for name in names
    )
    body = "".join(_row(table, names, row, float(shares[row])) for row in rows)
    return (
        '<div class="wide scroll" tabindex="0" role="region" aria-label="scores of token types"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
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
    heading = escape(visible(section.heading))
    return _card(
        f'<h3>{heading}</h3><div class="wide scroll" tabindex="0" role="region" aria-label="{heading}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def _documents(found: Mapping[int, Document]) -> str:
    if not found:
        return ""
    shown = "".join(_document(row, document) for row, document in sorted(found.items()))
    return _card(f"<h3>The documents of these examples</h3>{shown}")


def _document(row: int, document: Document) -> str:
    shares = strength(np.array([share for _, share in document.words], dtype=float)).tolist()
    words = "".join(
        f'<span class="t {shade(share)}">{escape(visible(text))}</span>'
        if shade(share)
        else escape(visible(text))
        for (text, _), share in zip(document.words, shares, strict=True)
    )
    return (
        f'<p class="document" id="document-{row}"><b>{escape(visible(document.id))}</b> '
        f'<span class="many">for <bdi>{escape(visible(document.target))}</bdi></span> '
        f'<span dir="auto">{words}</span></p>'
    )
