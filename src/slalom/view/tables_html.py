"""A report about a corpus as a web page: the strongest words with examples, a chart, tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

import numpy as np

from slalom.tokens import FloatArray
from slalom.view import label, sentences, strength, visible
from slalom.view.page import FRAGMENT, SORTING, TABLES, shade, side, skeleton
from slalom.view.tables import (
    SURE,
    UNSTABLE,
    Context,
    Report,
    Section,
    ShownDocument,
    TokenTable,
    cells,
    heads,
    number,
    rest,
    sides,
    spurious,
    told,
    unstable,
)

MOST = 500
"""Rows of a table on the page; the files hold all of them."""


def render(report: Report) -> str:
    """The whole page."""
    inside = f'<div class="slalom-explanation slalom-corpus">{_body(report)}</div>'
    return skeleton(report.title, report.title, inside, (FRAGMENT, TABLES), (SORTING,))


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


def _table(report: Report, table: TokenTable) -> str:
    name = f"<bdi>{escape(visible(table.label))}</bdi>"
    head = f"<h2>{name}</h2><p>{escape(visible(table.about))}</p>"
    if len(table) == 0:
        return _card(f'{head}<p class="note">No token is in enough documents.</p>')
    towards, against = sides(table)
    lists = _list(report, table, towards, f"For {name}", "for")
    lists += _list(report, table, against, f"Against {name}", "against")
    picture = f'<div class="chart"><h3>Value and importance</h3>{chart(table)}</div>'
    beside = f"<div>{picture}{_odd(report, table)}</div>"
    return _card(f'{head}<div class="pair"><div>{lists}</div>{beside}</div>') + _shaky(table) + _all(table)


def _odd(report: Report, table: TokenTable) -> str:
    rows = spurious(table)
    if not rows:
        return ""
    return (
        "<h3>Strong and frequent, but no content words</h3><p>Marks, numbers and function words that move "
        "the model for sure. A word that should not count is a candidate for a spurious one.</p>"
        f"{_list(report, table, rows, '', 'odd')}"
    )


def _shaky(table: TokenTable) -> str:
    rows = unstable(table)[:MOST]
    if not rows:
        return ""
    return _card(
        f"<h2>{escape(visible(table.label))}: important, with unstable sign</h2>"
        f"<p>In {UNSTABLE:.0%} of the documents or more the token clearly has the other sign.</p>"
        f"{_rows(table, rows)}"
    )


def _all(table: TokenTable) -> str:
    said = f"Strongest first: by what is left of |{table.ranking}| after {SURE:.0f} standard errors."
    rows = _rows(table, list(range(min(MOST, len(table)))))
    title = f"{visible(table.label)}: all {len(table):,} token types"
    return _card(
        f"<details><summary>{escape(title)}</summary>{rows}"
        f'<p class="legend">{escape(f"{said} {rest(table, MOST)}")}</p></details>'
    )


def _card(inside: str) -> str:
    return f'<section class="card">{inside}</section>'


def _list(report: Report, table: TokenTable, rows: list[int], heading: str, kind: str) -> str:
    if not rows:
        return ""
    shares = strength(table.scores[table.ranking])
    entries = "".join(_entry(report, table, row, float(shares[row]), row == rows[0]) for row in rows)
    return f'{f"<h3>{heading}</h3>" if heading else ""}<ol class="{kind}">{entries}</ol>'


def _entry(report: Report, table: TokenTable, row: int, share: float, opened: bool) -> str:
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


def _rows(table: TokenTable, rows: list[int]) -> str:
    names = heads(table)
    shares = strength(table.scores[table.ranking])
    head = '<th scope="col" data-text><button type="button">token</button></th>' + "".join(
        f'<th class="number" scope="col"><button type="button">{escape(name)}</button></th>' for name in names
    )
    body = "".join(_row(table, names, row, float(shares[row])) for row in rows)
    return (
        '<div class="wide scroll" tabindex="0" role="group" aria-label="scores of token types"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(table: TokenTable, names: list[str], row: int, share: float) -> str:
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
        f'<h2>{heading}</h2><div class="wide scroll" tabindex="0" role="region" aria-label="{heading}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def _documents(found: Mapping[int, ShownDocument]) -> str:
    if not found:
        return ""
    shown = "".join(_document(row, document) for row, document in sorted(found.items()))
    return _card(f"<h2>The documents of these examples</h2>{shown}")


def _document(row: int, document: ShownDocument) -> str:
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


WIDTH, HEIGHT = 520.0, 520.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 14.0, 14.0, 44.0
DOTS = 300
"""Token types in the chart, the strongest."""
NAMES = 30
_LETTER = 7.0
"""About the width of a letter."""
Box = tuple[float, float, float, float]


def chart(table: TokenTable) -> str:
    """Empty where the method has no values and importances."""
    if not {"value", "importance"} <= set(table.scores):
        return '<p class="note">This method has no values and importances.</p>'
    rows = np.arange(min(DOTS, len(table)))
    x, y = np.nan_to_num(table.scores["value"][rows]), np.nan_to_num(table.scores["importance"][rows])
    across, down = _scale(x, _LEFT, WIDTH - _RIGHT), _scale(y, HEIGHT - _BOTTOM, _TOP)
    places = np.stack([across[0] + across[1] * x, down[0] + down[1] * y], axis=1)
    sizes = np.clip(
        2.2 * np.sqrt(table.documents[rows] / max(float(np.median(table.documents[rows])), 1.0)), 2, 9
    )
    dots = "".join(
        f'<circle class="dot {"n" if x[i] < 0 else "p"}" cx="{places[i, 0]:.1f}" cy="{places[i, 1]:.1f}" '
        f'r="{sizes[i]:.1f}"><title>{escape(label(table.tokens[i]))}: value {x[i]:+.2f}, '
        f"importance {y[i]:+.2f}</title></circle>"
        for i in reversed(range(len(rows)))
    )
    what = f"Value and importance of the {len(rows)} strongest token types; the lists hold the numbers"
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{what}">'
        f"{_grid(across, down, table.label)}{dots}{_names(table, places, sizes)}</svg>"
        '<p class="legend">Right or left: what a word says on its own. High up: it counts. '
        "Larger: in more texts.</p>"
    )


def _scale(values: FloatArray, start: float, end: float) -> tuple[float, float]:
    """The line from a score to its place, wide enough for zero."""
    low, high = min(float(values.min(initial=0.0)), 0.0), max(float(values.max(initial=0.0)), 0.0)
    margin = 0.06 * (high - low) or 1.0
    slope = (end - start) / (high - low + 2 * margin)
    return start - slope * (low - margin), slope


def _ticks(line: tuple[float, float], start: float, end: float) -> list[float]:
    low, high = sorted(((start - line[0]) / line[1], (end - line[0]) / line[1]))
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _grid(across: tuple[float, float], down: tuple[float, float], target: str) -> str:
    floor, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts: list[str] = []
    for tick in _ticks(across, _LEFT, right):
        at = across[0] + across[1] * tick
        kind = "zero" if tick == 0 else "gridline"
        parts.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{floor}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{floor + 16}" text-anchor="middle">{_number(tick)}</text>'
        )
    for tick in _ticks(down, floor, _TOP):
        at = down[0] + down[1] * tick
        kind = "zero" if tick == 0 else "gridline"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    name = escape(label(target)[:24])
    parts.append(
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"← against · value · for {name} →</text>"
        f'<text x="11" y="{floor / 2:.0f}" text-anchor="middle" transform="rotate(-90 11 {floor / 2:.0f})">'
        "importance →</text>"
    )
    return "".join(parts)


def _number(tick: float) -> str:
    return f"{tick:.6g}".replace("-", "−")


def _names(table: TokenTable, places: FloatArray, sizes: FloatArray) -> str:
    """Names of the strongest, as many as find a free place beside their dots."""
    taken: list[Box] = [
        (px - r, py - r, px + r, py + r)
        for (px, py), r in zip(places[:60].tolist(), sizes.tolist(), strict=False)
    ]
    parts: list[str] = []
    for i in range(min(NAMES, len(places))):
        name = label(table.tokens[i])[:24]
        (px, py), r, width = places[i].tolist(), float(sizes[i]), _LETTER * len(name)
        tries = [("start", px + r + 3, px + r + 3), ("end", px - r - 3, px - r - 3 - width)]
        for anchor, at, left in tries:
            box = (left, py - 7, left + width, py + 7)
            inside = left >= _LEFT and left + width <= WIDTH
            if inside and not any(_meet(box, other) for other in taken if other != taken[i]):
                taken.append(box)
                parts.append(
                    f'<text class="name" x="{at:.1f}" y="{py + 4:.1f}" text-anchor="{anchor}">'
                    f"{escape(name)}</text>"
                )
                break
    return "".join(parts)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
