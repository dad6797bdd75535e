"""The files that tell a reader what an evaluation found: Markdown, JSON, and one HTML page.

The page gives the answer first, then the table, then the figures.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from statistics import median

from slalom.evaluate import protocols
from slalom.evaluate.figures import draw
from slalom.evaluate.results import Results, write_parquet
from slalom.evaluate.store import TABLE
from slalom.evaluate.table import Number, Table, duration, figure, missing, plain_cell, verdict
from slalom.files import Record, plain, write_text
from slalom.view import visible
from slalom.view.page import FRAGMENT, skeleton

COMPARISONS, PAGE = "comparisons.parquet", "report.html"

_WIDE = 2
"""A picture so many times as wide as it is tall has a row of its own."""
_STYLE = """
.slalom-explanation .answer{font-size:1.15rem;font-weight:600;margin:.2rem 0 1rem}
.slalom-explanation .card{margin:1rem 0;padding:1rem}
.slalom-explanation .scroll{overflow-x:auto}
.slalom-explanation table{border-collapse:collapse}
.slalom-explanation th,.slalom-explanation td{padding:.2rem .8rem .2rem 0;text-align:right;white-space:nowrap}
.slalom-explanation thead th{white-space:normal;vertical-align:bottom;word-break:keep-all}
.slalom-explanation th:first-child,.slalom-explanation td:first-child{text-align:left}
.slalom-explanation td.best{font-weight:700}
.slalom-explanation .card h2{margin:0 0 .4em;font-size:1.05em;line-height:inherit;letter-spacing:normal}
.slalom-explanation .beside{display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:flex-start}
.slalom-explanation .beside>.scroll{max-width:100%}
.slalom-explanation .beside>img{flex:1 1 24rem;min-width:0;max-width:min(100%,42rem)}
.slalom-explanation .beside>img.wide{flex-basis:100%;max-width:100%}
.slalom-explanation img{max-width:100%;height:auto;background:#fff;border-radius:4px}
"""


def write_report(
    table: Table, out: str | os.PathLike[str], *, command: str | None = None, figures: bool = True
) -> list[Path]:
    """Write table.md, report.html, comparisons.parquet and the figures; the paths of the files.

    command: the command line that made the results, to stand in the report.
    """
    folder = Path(out)
    columns: dict[str, type] = {"protocol": str, "number": str, "leader": str, "method": str}
    columns |= {"difference": float, "low": float, "high": float, "p": float, "n": int}
    columns |= {"leader_tokens": float, "method_tokens": float, "leader_backwards": float}
    columns |= {"method_backwards": float}
    write_parquet(folder / COMPARISONS, columns, comparisons(table))
    write_text(folder / TABLE, report(table, command))
    drawn = draw(table, folder) if figures else []
    write_text(folder / PAGE, render(table, [path for path in drawn if path.suffix == ".png"]))
    return [folder / TABLE, folder / COMPARISONS, folder / PAGE, *drawn]


def comparisons(table: Table) -> list[Record]:
    """The leader of every number against each other method: difference, interval, p, and what both cost."""
    return [
        {"protocol": protocol, "number": number, "leader": standing.leader, "method": method}
        | asdict(difference)
        | _asked(table, "leader", standing.leader)
        | _asked(table, "method", method)
        for (protocol, number), standing in table.standings.items()
        for method, difference in standing.differences.items()
    ]


def _asked(table: Table, role: str, method: str) -> dict[str, float]:
    return {f"{role}_{name}": table.costs[method][name].mean for name in ("tokens", "backwards")}


def document(table: Table) -> Record:
    """The whole report as one JSON document."""
    results = table.results
    numbers = [
        {
            "protocol": number[0],
            "number": number[1],
            "good": results.numbers[number],
            "methods": {
                method: asdict(cell) | {"best_or_tied": table.leads(number, method)}
                for method, cell in cells.items()
            },
        }
        for number, cells in table.cells.items()
    ]
    gone = [
        {
            "status": status,
            "protocol": protocol or None,
            "method": method,
            "reason": reason,
            "documents": count,
        }
        for (status, protocol, method, reason), count in missing(results).items()
    ]
    costs = {method: {name: cell.mean for name, cell in cost.items()} for method, cost in table.costs.items()}
    return plain(
        {
            "format": "slalom-evaluation-report",
            "version": 1,
            "settings": results.settings,
            "documents": len(results.finished),
            "seconds": results.wall,
            "verdict": verdict(table),
            "numbers": numbers,
            "cost": costs,
            "skipped_and_failed": gone,
        }
    )


def markdown(table: Table) -> str:
    """All tables that depend on settings and documents alone: the same for every run of the same settings."""
    results = table.results
    parts = [
        f"# {_plain(results.settings['model']['name'])} on {_plain(results.settings['data'])}",
        _opening(results),
        "## Summary",
        verdict(table),
        "The first number of every protocol, and what an explanation asked of the model on average: queries, "
        "the tokens it read (a backward pass counts like 1.2 forward passes), and backward passes.",
        _summary(table),
    ]
    about = protocols()
    for name, pages in table.groups().items():
        parts += [f"## {name}", _sentence(about[name].summary) if name in about else ""]
        parts += [_page(table, page) for page in pages]
    parts += ["## Skipped and failed", _missing(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def report(table: Table, command: str | None = None) -> str:
    """The tables, followed by what differs from run to run: seconds, run time, command."""
    results = table.results
    rows = [
        [f"`{method}`", *(_seconds(cost[name].mean) for name in ("seconds", "model_seconds"))]
        for method, cost in table.costs.items()
    ]
    settings = [
        f"- {name.replace('_', ' ')}: `{json.dumps(value, ensure_ascii=False)}`"
        for name, value in results.settings.items()
        if value not in (None, {}) and name != "protocols"
    ]
    parts = [
        markdown(table).rstrip(),
        "## Seconds",
        "Wall clock of an explanation, on average, and the part of it spent in the model.",
        _grid(["method", "seconds", "in the model"], rows),
        "## Run",
        f"Run time: {duration(results.wall)}." + (f" Command:\n\n```sh\n{command}\n```" if command else ""),
        "\n".join(settings),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(results: Results) -> str:
    settings, lengths = results.settings, [row.length for row in results.spent]
    span = f" of {min(lengths)} to {max(lengths)} tokens (median {median(lengths):g})" if lengths else ""
    label = "the predicted label" if settings["target"] is None else f"the label {settings['target']!r}"
    return (
        f"{len(results.finished)} documents{span}, cut to {settings['cut']} tokens, explained for {label}; "
        f"budget {settings['budget']}, seed {settings['seed']}.\n\n"
        "Means ± standard errors over documents; ↑ high is good, ↓ low is good. Bold: best or tied, where "
        "the leader is not shown to be better (sign flips and bootstrap over documents, 5 % for all pairs "
        "together), and not all methods are tied. In brackets the number of documents, where it is not all."
    )


def _summary(table: Table) -> str:
    heads = ["method", *(table.head(number) for number in table.main), "queries", "tokens read", "backward"]
    rows: list[list[str]] = []
    for method in table.results.methods:
        means = (table.cell(number, method) for number in table.main)
        rows.append([f"`{method}`", *means, *table.asked(method)])
    return _grid(heads, rows)


def _seconds(mean: float) -> str:
    return "–" if math.isnan(mean) else figure(mean)


def _page(table: Table, numbers: Sequence[Number]) -> str:
    methods = [m for m in table.results.methods if any(m in table.cells[number] for number in numbers)]
    heads = ["method", *(table.head(number, short=True) for number in numbers)]
    return _grid(heads, [[f"`{m}`", *(table.cell(number, m) for number in numbers)] for m in methods])


def _missing(results: Results) -> str:
    found = missing(results)
    if not found:
        return "Nothing: every method explained every document, and every protocol applied."
    together: dict[tuple[str, str, str], dict[str, int]] = {}
    for (status, protocol, method, reason), count in found.items():
        together.setdefault((status, protocol, reason), {})[method] = count
    rows = [
        [status, protocol or "explaining", _methods(counts, results), _plain(reason)]
        for (status, protocol, reason), counts in together.items()
    ]
    return _grid(["", "in", "documents", "reason"], rows)


def _methods(counts: Mapping[str, int], results: Results) -> str:
    if len(counts) == len(results.methods) and len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} (every method)"
    return ", ".join(f"{count} (`{method}`)" for method, count in counts.items())


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Text that neither breaks a table nor is read as markup."""
    escaped = " ".join(str(text).split()).replace("\\", "\\\\")
    for character in "|*_`<":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped


def _sentence(text: str) -> str:
    return text if text.endswith(("?", "!", ".")) else f"{text}."


def render(table: Table, figures: Sequence[Path] = ()) -> str:
    """The page; `figures` are PNG files, which it holds itself."""
    settings = table.results.settings
    title = f"{settings['model']['name']} on {settings['data']}"
    inside = f'<div class="slalom-explanation">{_html_body(table, figures)}</div>'
    return skeleton(title, f"evaluation of {title}", inside, (FRAGMENT, _STYLE), images=True)


def _html_body(table: Table, figures: Sequence[Path]) -> str:
    answer = verdict(table) or "Nothing was compared."
    documents = len(table.results.finished)
    about = (
        f"{documents} documents. Means ± standard errors; ↑ high is good, ↓ low is good. Bold: best or tied, "
        "at 5 % for all pairs of methods together. Of the tokens read, a backward pass counts like 1.2 "
        "forward passes."
    )
    parts = [
        f'<p class="answer">{escape(visible(answer))}</p>',
        _card("Summary", _html_grid(table, table.main, cost=True), escape(about)),
    ]
    known = protocols()
    for name, pages in table.groups().items():
        said = known[name].summary if name in known else ""
        tables = "".join(_html_grid(table, page, cost=False) for page in pages)
        own = [f for f in figures if f.stem == name or f.stem.rpartition("_")[0] == name]
        pictures = "".join(map(_picture, own))
        inside = f'<div class="beside">{tables}{pictures}</div>'
        parts.append(_card(name, inside, escape(visible(said))))
    general = [f for f in figures if f.stem in ("quality_and_cost", "curves")]
    parts += [_card(f.stem.replace("_", " "), _picture(f), "") for f in general]
    return "".join(parts) + _html_missing(table)


def _html_grid(table: Table, numbers: Sequence[Number], *, cost: bool) -> str:
    heads = [table.head(number, short=not cost).replace("_", " ") for number in numbers]
    heads += ["queries", "tokens read", "backward passes"] if cost else []
    rows: list[str] = []
    for method in table.results.methods:
        cells = [
            f'<td class="best">{escape(plain_cell(table, number, method))}</td>'
            if table.leads(number, method)
            else f"<td>{escape(plain_cell(table, number, method))}</td>"
            for number in numbers
        ]
        cells += [f"<td>{asked}</td>" for asked in table.asked(method)] if cost else []
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
    content = path.read_bytes()
    width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))  # the header of a PNG
    kind = ' class="wide"' if width > _WIDE * height else ""
    data = base64.b64encode(content).decode()
    return f'<img{kind} alt="{escape(path.stem.replace("_", " "))}" src="data:image/png;base64,{data}">'


def _html_missing(table: Table) -> str:
    found = missing(table.results)
    if not found:
        return ""
    told = [
        f"{method}, {protocol or 'explaining'}: {status} on {count} documents: {reason}"
        for (status, protocol, method, reason), count in found.items()
    ]
    rows = [f"<li>{escape(visible(line))}</li>" for line in told]
    return _card("Skipped and failed", f"<ul>{''.join(rows)}</ul>", "")
