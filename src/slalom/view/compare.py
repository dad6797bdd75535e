"""Several methods on one text in the terminal: a line for each, which is best, how far they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from slalom.compare import Compared, Comparison, Predicted, correlations, explained, skipped
from slalom.explanation import Explanation
from slalom.tokens import Tokens
from slalom.view import label, runs, sentences, strength, visible
from slalom.view.answer import answer
from slalom.view.sentences import NO_SIDE
from slalom.view.terminal import coloured, legend, level, shade, sign
from slalom.view.terminal import first as answer_first

_TOKEN = 24
"""Cells of the longest token that is shown in full."""
_MARKS = 4


@dataclass(frozen=True)
class Cell:
    """A token (or several that share their characters) as it stands in every line."""

    text: str
    positions: tuple[int, ...]
    gap: bool
    """Whether a blank stands before it."""


def ranked(comparison: Comparison) -> dict[str, Explanation]:
    """The same, the method that predicts the model best first; as they came where that was not tested."""
    found, r2 = explained(comparison), predicted_of(comparison).r2
    return {name: found[name].shown for name in sorted(found, key=lambda name: -r2.get(name, 0.0))}


def predicted_of(comparison: Comparison) -> Predicted:
    """How well the methods predict the model; nothing for what `compare` did not make."""
    return comparison.predicted if isinstance(comparison, Compared) else Predicted()


def show(comparison: Comparison, console: Console | None = None, *, signed: bool = False) -> None:
    """Print the methods side by side, what they cost, and the rank correlation between them."""
    console = Console() if console is None else console
    found = ranked(comparison)
    if found:
        first = next(iter(explained(comparison).values()))
        console.print(answer_first(first))
        for sentence in told(comparison):
            console.print(Text(sentence))
        console.print()
        _head(first, console)
        _lines(found, console)
        console.print(_key(found, console))
        console.print()
        _matrix(comparison, console, signed)
    for note in shared(found):
        console.print(Text(f"note: {visible(note)}", style="yellow"))
    for name, reason in skipped(comparison).items():
        console.print(Text(visible(f"{name}: not run. {reason}"), style="yellow"))


def shared(found: dict[str, Explanation]) -> list[str]:
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


def cells_of(tokens: Tokens) -> list[Cell]:
    cells: list[Cell] = []
    gap = False
    for run in runs(tokens):
        if run.positions:
            shown = label(run.text)
            shown = shown if cell_len(shown) <= _TOKEN else set_cell_size(shown, _TOKEN - 1) + "…"
            cells.append(Cell(shown, run.positions, gap and bool(cells)))
            gap = False
        else:
            gap = True
    return cells


def _blocks(cells: list[Cell], widths: list[int], room: int) -> Iterator[tuple[int, int]]:
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
    cells, colours = cells_of(tokens), coloured(console)
    widths = [max(cell_len(cell.text), 0 if colours else _MARKS) for cell in cells]
    if not colours:  # marks stand below the tokens, so neighbours need a blank
        cells = [Cell(cell.text, cell.positions, True) for cell in cells]
    name = max(map(len, found)) + 2
    shares = {method: shares_of(explanation, cells) for method, explanation in found.items()}
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


def _token(cell: Cell, width: int, explanation: Explanation, share: float, console: Console) -> Text:
    depth, side = level(share), sign(explanation, share)
    if not coloured(console):
        return Text(f"{_SIGNS[side] * depth:<{width}}")
    return Text(cell.text, style=shade(console, side, depth) if depth else "")


_SIGNS = {1: "+", -1: "-", 0: "*"}


def shares_of(explanation: Explanation, cells: list[Cell]) -> np.ndarray:
    scores = explanation.score()
    return strength(np.array([scores[list(cell.positions)].sum() for cell in cells], dtype=float))


def _matrix(comparison: Comparison, console: Console, signed: bool) -> None:
    """What each method predicts, what it cost and its rank correlation with each other, as hundredths."""
    found, r2 = ranked(comparison), predicted_of(comparison).r2
    table = correlations(found, signed)
    names = [f"{i} {name}" for i, name in enumerate(found, start=1)]
    width = max(map(len, names))
    costs = [
        (f"{_hundredths(r2[method]):>9}" if r2 else "") + f"{e.cost.queries:>8,} {e.cost.seconds:>7.2f}"
        for method, e in found.items()
    ]
    about = ("predicts" if r2 else "") + "  queries seconds"
    room = max((console.width - width - len(costs[0]) - 1) // 5, 1)
    for start in range(0, len(found), room):
        chosen = range(start, min(start + room, len(found)))
        heading = "".join(f"{i + 1:>5}" for i in chosen)
        console.print(Text(f"{'':<{width}} {about:>{len(costs[0])}}{heading}", style="dim", no_wrap=True))
        for row, (name, cost) in enumerate(zip(names, costs, strict=True)):
            cells = "".join(f"{_hundredths(table[row, i]):>5}" for i in chosen)
            console.print(Text(f"{name:<{width}} {cost}{cells}", no_wrap=True, overflow="crop"))
    predicted = (
        f"Predicts: R² on {predicted_of(comparison).copies} new copies of the text, best first. "
        if r2
        else ""
    )
    console.print(Text(f"{predicted}{caption(signed)}, in hundredths.", style="dim"))


def lines(comparison: Comparison) -> str:
    """The answer, which method predicts best, and each method with its strongest word."""
    found, r2 = ranked(comparison), predicted_of(comparison).r2
    if not found:
        return "\n".join(["No method explained the text.", *_not_run(comparison)])
    wide = max(map(len, found))
    rows = [
        f"  {visible(name):<{wide}}  {f'{100 * r2[name]:>3.0f} %  ' if r2 else ''}{_strongest(explanation)}"
        for name, explanation in found.items()
    ]
    first = answer(next(iter(explained(comparison).values())))
    return "\n".join([first, *told(comparison), *rows, *_not_run(comparison)])


def _strongest(explanation: Explanation) -> str:
    return ", ".join(label(word) for word, _ in explanation.shown.top(3))


def _not_run(comparison: Comparison) -> list[str]:
    return [f"  {visible(name)}: not run, {visible(reason)}" for name, reason in skipped(comparison).items()]


def told(comparison: Comparison) -> list[str]:
    """Which method predicts the model best here and at what cost; how far the methods agree."""
    found = ranked(comparison)
    return [sentence for sentence in (_best(predicted_of(comparison), found), _agreement(found)) if sentence]


def _best(test: Predicted, found: dict[str, Explanation]) -> str:
    if not test.r2:
        return ""
    best, *tied = test.tied
    rest = [name for name in found if name not in test.tied]
    said = (
        f"{visible(best)} predicts this model best here: {_share(test, best)} of what it does on "
        f"{test.copies} new copies of the text, for {_spent(found[best])}"
    )
    if tied:
        names = ", ".join(f"{visible(name)} ({_share(test, name)}, {_queries(found[name])})" for name in tied)
        said += f"; tied with it: {names}"
    if rest:
        said += f"; {visible(rest[0])} follows with {_share(test, rest[0])} ({_queries(found[rest[0]])})"
    return f"{said}."


def _agreement(found: dict[str, Explanation]) -> str:
    """How far the rankings agree, and who agrees most."""
    if len(found) < 3:
        return ""
    names, table = list(found), correlations(found)
    pairs = [(float(table[i, j]), i, j) for i in range(len(names)) for j in range(i)]
    known = [pair for pair in pairs if math.isfinite(pair[0])]
    if not known:
        return ""
    most, i, j = max(known)
    middle = sentences.signed(float(np.median([pair[0] for pair in known])), 2).strip().lstrip("+")
    return (
        f"Between two methods the order of the words agrees to {middle} (median rank correlation); "
        f"most between {visible(names[j])} and {visible(names[i])} ({most:.2f})."
    )


def _share(test: Predicted, name: str) -> str:
    return f"{100 * test.r2[name]:.0f} %"


def _queries(explanation: Explanation) -> str:
    count = explanation.cost.queries
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _spent(explanation: Explanation) -> str:
    return f"{_queries(explanation)} and {explanation.cost.seconds:.1f} s"


def caption(signed: bool) -> str:
    """What the matrix holds."""
    what = "the scores with their signs" if signed else "the sizes of the scores"
    return f"Rank correlation (Spearman) between {what}"


def _hundredths(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.0f}".replace("-", "−")


def nearest(names: list[str], row: np.ndarray, own: int) -> str:
    """With whom a method agrees most and least."""
    known = [(float(value), name) for j, (value, name) in enumerate(zip(row, names, strict=True)) if j != own]
    known = [pair for pair in known if math.isfinite(pair[0])]
    if not known:
        return "scores all words alike, or stands alone"
    near, far = (f"{visible(name)} ({correlation(value)})" for value, name in (max(known), min(known)))
    return f"agrees most with {near}, least with {far}"


def correlation(value: float) -> str:
    """As pages show it."""
    return sentences.signed(value, 2).strip().lstrip("+")
