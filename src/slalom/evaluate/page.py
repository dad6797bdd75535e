"""The report of an evaluation as one HTML page: the answer first, then the table, then the figures."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from slalom.evaluate import protocols
from slalom.evaluate.table import Number, Table, missing, plain_cell, verdict
from slalom.view.page import FRAGMENT, skeleton
from slalom.view.text import visible

_STYLE = """
.slalom-explanation .answer{font-size:1.15rem;font-weight:600;margin:.2rem 0 1rem}
.slalom-explanation .card{margin:1rem 0;padding:1rem}
.slalom-explanation .scroll{overflow-x:auto}
.slalom-explanation table{border-collapse:collapse}
.slalom-explanation th,.slalom-explanation td{padding:.2rem .8rem .2rem 0;text-align:right;white-space:nowrap}
.slalom-explanation thead th{white-space:normal;vertical-align:bottom;word-break:keep-all}
.slalom-explanation th:first-child,.slalom-explanation td:first-child{text-align:left}
.slalom-explanation td.best{font-weight:700}
.slalom-explanation img{max-width:100%;height:auto;background:#fff;border-radius:4px}
"""


def render(table: Table, figures: Sequence[Path] = ()) -> str:
    """The page; `figures` are PNG files, which it holds itself."""
    settings = table.results.settings
    title = f"{settings['model']['name']} on {settings['data']}"
    inside = f'<div class="slalom-explanation">{_body(table, figures)}</div>'
    return skeleton(title, f"evaluation of {title}", inside, (FRAGMENT, _STYLE), images=True)


def _body(table: Table, figures: Sequence[Path]) -> str:
    answer = verdict(table) or "Nothing was compared."
    documents = len(table.results.finished)
    about = (
        f"{documents} documents. Means ± standard errors; ↑ high is good, ↓ low is good. Bold: best or tied, "
        "at 5 % for all pairs of methods together. Of the tokens read, a backward pass counts like 1.2 "
        "forward passes."
    )
    parts = [
        f'<p class="answer">{escape(visible(answer))}</p>',
        _card("Summary", _grid(table, table.main, cost=True), escape(about)),
    ]
    known = protocols()
    for name, pages in table.groups().items():
        said = known[name].summary if name in known else ""
        tables = "".join(_grid(table, page, cost=False) for page in pages)
        own = [f for f in figures if f.stem == name or f.stem.rpartition("_")[0] == name]
        pictures = "".join(map(_picture, own))
        parts.append(_card(name, tables + pictures, escape(visible(said))))
    general = [f for f in figures if f.stem in ("quality_and_cost", "curves")]
    parts += [_card(f.stem.replace("_", " "), _picture(f), "") for f in general]
    return "".join(parts) + _missing(table)


def _grid(table: Table, numbers: Sequence[Number], *, cost: bool) -> str:
    heads = [table.head(number, short=not cost).replace("_", " ") for number in numbers]
    heads += ["queries", "tokens read", "backward passes"] if cost else []
    rows = []
    for method in table.results.methods:
        cells = [
            f'<td class="best">{escape(plain_cell(table, number, method))}</td>'
            if table.leads(number, method)
            else f"<td>{escape(plain_cell(table, number, method))}</td>"
            for number in numbers
        ]
        asked = table.costs.get(method) if cost else None
        if asked:
            cells += [f"<td>{asked[name].mean:,.0f}</td>" for name in ("queries", "tokens", "backwards")]
        elif cost:
            cells += ["<td>–</td>"] * 3
        rows.append(f"<tr><td>{escape(visible(method))}</td>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{escape(visible(text))}</th>' for text in ["method", *heads])
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _card(title: str, inside: str, about: str) -> str:
    said = f"<p>{about}</p>" if about else ""
    return f'<section class="card"><h2>{escape(visible(title))}</h2>{said}{inside}</section>'


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(path.stem.replace("_", " "))}" src="data:image/png;base64,{data}">'


def _missing(table: Table) -> str:
    found = missing(table.results)
    if not found:
        return ""
    told = [
        f"{method}, {protocol or 'explaining'}: {status} on {count} documents: {reason}"
        for (status, protocol, method, reason), count in found.items()
    ]
    rows = [f"<li>{escape(visible(line))}</li>" for line in told]
    return _card("Skipped and failed", f"<ul>{''.join(rows)}</ul>", "")
