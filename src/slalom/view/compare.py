"""Several methods on one text: a highlighted line for each, and how far their rankings agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from slalom.compare import Comparison, correlations, explained, skipped
from slalom.explanation import Explanation
from slalom.tokens import Tokens
from slalom.view import sentences
from slalom.view.html import first as html_first
from slalom.view.sentences import NO_SIDE
from slalom.view.shades import coloured, legend, level, shade, sign
from slalom.view.style import COMPARISON, FRAGMENT, PAGE, policy
from slalom.view.style import shade as html_shade
from slalom.view.terminal import first as answer_first
from slalom.view.text import label, runs, strength, visible

_TOKEN = 24
"""Cells of the longest token that is shown in full."""
_MARKS = 4
_HTML_WIDTH = 90
"""Characters of text in one row of the page."""


@dataclass(frozen=True)
class _Cell:
    """A token (or several that share their characters) as it stands in every line."""

    text: str
    positions: tuple[int, ...]
    gap: bool
    """Whether a blank stands before it."""


def show(comparison: Comparison, console: Console | None = None, *, signed: bool = False) -> None:
    """Print the methods side by side, what they cost, and the rank correlation between them."""
    console = Console() if console is None else console
    found = explained(comparison)
    if found:
        first = next(iter(found.values()))
        console.print(answer_first(first))
        console.print()
        _head(first, console)
        _lines(found, console)
        console.print(_key(found, console))
        console.print()
        _matrix(comparison, console, signed)
    for note in _shared(found):
        console.print(Text(f"note: {visible(note)}", style="yellow"))
    for name, reason in skipped(comparison).items():
        console.print(Text(visible(f"{name}: not run. {reason}"), style="yellow"))


def _shared(found: dict[str, Explanation]) -> list[str]:
    """What every method notes: it is about the text, not about the method."""
    notes = [explanation.notes for explanation in found.values()]
    return [note for note in dict.fromkeys(notes[0] if notes else ()) if all(note in own for own in notes)]


def _head(first: Explanation, console: Console) -> None:
    line = Text().append("prediction  ", style="dim")
    for name, probability in sentences.prediction(first):
        line.append(f"{visible(name)} {sentences.percent(probability)}   ")
    console.print(line)
    score = sentences.signed(first.output, 2).strip()
    what = f"{visible(first.target)}  (score {score})"
    console.print(Text().append("explaining  ", style="dim").append(what))
    console.print()


def _cells(tokens: Tokens) -> list[_Cell]:
    cells: list[_Cell] = []
    gap = False
    for run in runs(tokens):
        if run.positions:
            shown = label(run.text)
            shown = shown if cell_len(shown) <= _TOKEN else set_cell_size(shown, _TOKEN - 1) + "…"
            cells.append(_Cell(shown, run.positions, gap and bool(cells)))
            gap = False
        else:
            gap = True
    return cells


def _blocks(cells: list[_Cell], widths: list[int], room: int) -> Iterator[tuple[int, int]]:
    """First and last cell of each block that fits into `room`; at least one cell each."""
    start, used = 0, 0
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        needed = width + cell.gap
        if i > start and used + needed > room:
            yield start, i
            start, used = i, 0
        used += needed
    if cells:
        yield start, len(cells)


def _lines(found: dict[str, Explanation], console: Console) -> None:
    tokens = next(iter(found.values())).tokens
    cells, colours = _cells(tokens), coloured(console)
    widths = [max(cell_len(cell.text), 0 if colours else _MARKS) for cell in cells]
    if not colours:  # marks stand below the tokens, so neighbours need a blank
        cells = [_Cell(cell.text, cell.positions, True) for cell in cells]
    name = max(map(len, found)) + 2
    shares = {method: _shares(explanation, cells) for method, explanation in found.items()}
    for start, end in _blocks(cells, widths, max(console.width - name, _TOKEN)):
        chosen = range(start, end)
        if not colours:
            heading = "".join(_pad(cells[i].text, widths[i], cells[i].gap and i > start) for i in chosen)
            console.print(Text(" " * name + heading, no_wrap=True, overflow="crop"))
        for method in found:
            line = Text(f"{method:<{name}}", no_wrap=True, overflow="crop")
            for i in chosen:
                line.append(" " if cells[i].gap and i > start else "")
                line.append(_token(cells[i], widths[i], found[method], float(shares[method][i]), console))
            console.print(line)
        console.print()


def _key(found: dict[str, Explanation], console: Console) -> Text:
    """What the colours mean, of the methods that have a sign and of those that have none."""
    kinds = {explanation.signed(): explanation for explanation in found.values()}
    if coloured(console):
        return Text("\n").join(legend(kinds[kind], console) for kind in (True, False) if kind in kinds)
    target = visible(next(iter(found.values())).target)
    parts = [f"+ speaks for {target}, - against it"] if True in kinds else []
    parts += [f"* counts, but {NO_SIDE}"] if False in kinds else []
    return Text("; ".join([*parts, "more signs, more weight"]))


def _pad(text: str, width: int, gap: bool) -> str:
    return " " * gap + text + " " * (width - cell_len(text))


def _token(cell: _Cell, width: int, explanation: Explanation, share: float, console: Console) -> Text:
    depth, side = level(share), sign(explanation, share)
    if not coloured(console):
        return Text(f"{_SIGNS[side] * depth:<{width}}")
    return Text(cell.text, style=shade(console, side, depth) if depth else "")


_SIGNS = {1: "+", -1: "-", 0: "*"}


def _shares(explanation: Explanation, cells: list[_Cell]) -> np.ndarray:
    scores = explanation.score()
    return strength(np.array([scores[list(cell.positions)].sum() for cell in cells], dtype=float))


def _matrix(comparison: Comparison, console: Console, signed: bool) -> None:
    """What each method cost and its rank correlation with each other, as hundredths."""
    found = explained(comparison)
    table = correlations(comparison, signed)
    names = [f"{i} {name}" for i, name in enumerate(found, start=1)]
    width = max(map(len, names))
    costs = [f"{e.cost.queries:>8,} {e.cost.seconds:>7.2f}" for e in found.values()]
    room = max((console.width - width - 18) // 5, 1)
    for start in range(0, len(found), room):
        chosen = range(start, min(start + room, len(found)))
        heading = "".join(f"{i + 1:>5}" for i in chosen)
        console.print(Text(f"{'':<{width}}  queries seconds{heading}", style="dim", no_wrap=True))
        for row, (name, cost) in enumerate(zip(names, costs, strict=True)):
            cells = "".join(f"{_hundredths(table[row, i]):>5}" for i in chosen)
            console.print(Text(f"{name:<{width}} {cost}{cells}", no_wrap=True, overflow="crop"))
    console.print(Text(f"{caption(signed)}, in hundredths.", style="dim"))


def caption(signed: bool) -> str:
    """What the matrix holds."""
    what = "the scores with their signs" if signed else "the sizes of the scores"
    return f"Rank correlation (Spearman) between {what}"


def _hundredths(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.0f}".replace("-", "−")


def render(comparison: Comparison, *, signed: bool = False) -> str:
    """The same as a web page that needs nothing but itself."""
    allowed = policy((PAGE, FRAGMENT, COMPARISON))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>methods side by side</title>\n<style>{PAGE}</style>\n<style>{FRAGMENT}</style>\n"
        f"<style>{COMPARISON}</style>\n</head>\n<body>\n<main>\n"
        "<h1>slalom <span>methods side by side</span></h1>\n"
        f'<div class="slalom-explanation">{_page(comparison, signed)}</div>\n</main>\n</body>\n</html>\n'
    )


def fragment(comparison: Comparison, *, signed: bool = False) -> str:
    """The same without the page around it, for notebooks; its styles touch nothing outside."""
    style = f"<style>{FRAGMENT}{COMPARISON}</style>"
    return f'<div class="slalom-explanation">{style}{_page(comparison, signed)}</div>'


def _page(comparison: Comparison, signed: bool) -> str:
    found = explained(comparison)
    parts = [_reasons(comparison)]
    if found:
        first = next(iter(found.values()))
        target = escape(visible(first.target))
        score = sentences.signed(first.output, 2).strip()
        notes = "".join(f'<p class="note">{escape(visible(note))}</p>' for note in _shared(found))
        parts = [
            f'<h2>Why <em>{target}</em>?</h2><p class="answer">{html_first(first)}</p>'
            f'<p class="muted">The model\'s score for it is {score}, explained by {len(found)} methods.</p>',
            notes,
            f'<section class="card">{_html_lines(found)}<p class="legend"><span class="t p a6">blue, solid'
            f'</span> speaks for {target}, <span class="t n a6">orange, dashed</span> against it'
            f"{_html_unsigned(found)}.</p></section>",
            f'<section class="card"><h3>{caption(signed)}</h3>{_html_matrix(comparison, signed)}</section>',
            *parts,
        ]
    return "".join(parts)


def _html_unsigned(found: dict[str, Explanation]) -> str:
    if all(explanation.signed() for explanation in found.values()):
        return ""
    return f', <span class="t s a6">violet, dotted</span> {NO_SIDE}'


def _html_lines(found: dict[str, Explanation]) -> str:
    cells = _cells(next(iter(found.values())).tokens)
    widths = [cell_len(cell.text) for cell in cells]
    shares = {name: _shares(explanation, cells) for name, explanation in found.items()}
    blocks = []
    for start, end in _blocks(cells, widths, _HTML_WIDTH):
        rows = "".join(
            f'<tr><th scope="row">{escape(visible(name))}</th>'
            + "".join(_td(cells[i], explanation, float(shares[name][i])) for i in range(start, end))
            + "</tr>"
            for name, explanation in found.items()
        )
        blocks.append(f'<div class="wide"><table class="lines"><tbody>{rows}</tbody></table></div>')
    return "".join(blocks)


def _td(cell: _Cell, explanation: Explanation, share: float) -> str:
    shaded = html_shade(share, explanation.signed())
    kind = f' class="{shaded}"' if shaded else ""
    scale = sentences.scale_of(explanation)
    value = scale.score(float(explanation.score()[list(cell.positions)].sum())).strip() + scale.factor
    tip = escape(visible(f"{explanation.method}, {explanation.ranking}: {value}"))
    return f'<td{kind} dir="auto" title="{tip}">{escape(cell.text)}</td>'


def _html_matrix(comparison: Comparison, signed: bool) -> str:
    found = explained(comparison)
    table = correlations(comparison, signed)
    head = "".join(f'<th class="number" scope="col">{i}</th>' for i in range(1, len(found) + 1))
    rows = "".join(
        f'<tr><th scope="row">{i + 1} {escape(visible(name))}</th>'
        f"<td>{escape(visible(explanation.ranking))}</td>"
        f"{_spent(explanation)}{''.join(map(_shaded, table[i]))}</tr>"
        for i, (name, explanation) in enumerate(found.items())
    )
    costs = "".join(
        f'<th class="number" scope="col">{what}</th>' for what in ("queries", "tokens", "seconds")
    )
    return (
        '<div class="wide"><table><thead><tr><th scope="col">method</th><th scope="col">score</th>'
        f"{costs}{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _spent(explanation: Explanation) -> str:
    cost = explanation.cost
    numbers = (f"{cost.queries:,}", f"{cost.tokens:,}", f"{cost.seconds:.2f}")
    return "".join(f'<td class="number">{number}</td>' for number in numbers)


def _shaded(value: float) -> str:
    if math.isnan(value):
        return '<td class="number">–</td>'
    kind = f"number {html_shade(value)}".strip()
    return f'<td class="{kind}">{sentences.signed(value, 2).strip().lstrip("+")}</td>'


def _reasons(comparison: Comparison) -> str:
    return "".join(
        f'<p class="note why">{escape(visible(name))}: not run. {escape(visible(reason))}</p>'
        for name, reason in skipped(comparison).items()
    )
