"""An explanation in the terminal. Colour helps, but nothing is said by colour alone."""

from __future__ import annotations

import io

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from slalom.explanation import Explanation
from slalom.units import is_punctuation
from slalom.view import label, run_score, runs, sentences, shortened, strength, visible
from slalom.view.answer import answer, pieces
from slalom.view.sentences import NO_SIDE

FEW = 5
"""Tokens that a few lines name."""

SUFFIX = ".txt"
TOP = 15
"""Words in the table unless all are asked for."""
_WIDE = 100
"""Columns of a file."""
_UNITS = 5
"""Larger units, where words were looked at after them."""
_NARROW = 40
"""Columns of a terminal below which bars are short."""
_TOKEN = 24
"""Cells of the longest token that is shown in full."""
_INK = {1: "blue", -1: "dark_orange3", 0: "medium_purple3"}
_VERDICT_STYLE = {
    "good": "green",
    "fair": "green",
    "rough": "yellow",
    "poor": "bold red",
    "unknown": "yellow",
}


def show(explanation: Explanation, console: Console | None = None, *, every_token: bool = False) -> None:
    """Print the explanation, and those of the other classes where it has them.

    The table holds the strongest tokens, or with `every_token` all of them in the order of the text.
    """
    console, explanation = Console() if console is None else console, explanation.shown
    _header(explanation, console)
    _body(explanation, console, every_token)
    for other in explanation.classes.values():
        console.print(Rule(Text(f"the same for {visible(other.target)}")))
        console.print(first(other, explanation))
        _body(other, console, every_token)
    _footer(explanation, console)


def render(explanation: Explanation) -> str:
    """The same as text without colours."""
    buffer = io.StringIO()
    show(explanation, Console(file=buffer, width=_WIDE, no_color=True, force_terminal=False))
    return buffer.getvalue()


def _header(explanation: Explanation, console: Console) -> None:
    console.print(first(explanation))
    console.print()
    line = Text().append("prediction  ", style="dim")
    for name, probability in sentences.prediction(explanation):
        style = "bold" if name == explanation.prediction else ""
        line.append(f"{visible(name)} {sentences.percent(probability)}", style=style).append("   ")
    console.print(line)


def first(explanation: Explanation, of: Explanation | None = None) -> Text:
    """The answer, the words of the text in quotes; `of` has the explanation among its other labels."""
    line = Text(style="bold")
    for piece in pieces(explanation, of):
        line.append(f"“{piece.text}”" if piece.quoted else piece.text, style="italic" if piece.quoted else "")
    return line


def _body(explanation: Explanation, console: Console, every_token: bool) -> None:
    what = Text().append("explaining  ", style="dim")
    what.append(visible(explanation.target), style="bold")
    what.append(
        f"  (score {sentences.signed(explanation.output, 2).strip()}) by {visible(explanation.method)}"
    )
    console.print(what)
    console.print(Padding(_text(explanation, console), (1, 2)))
    console.print(legend(explanation, console))
    console.print(_table(explanation, console, every_token))
    total = len(explanation.listed)
    if not every_token and total > TOP:
        console.print(Text(f"the {TOP} strongest of {total} {sentences.kinds(explanation)}", style="dim"))
    if explanation.measured and "removal" in _fitting(explanation, console.width):
        console.print(Text("* measured: the model's own answers without each token", style="dim"))
    for name in explanation.levels:
        console.print(_larger(explanation.at(name), name))
    said = sentences.verdict(explanation)
    console.print(Text(said.sentence, style=_VERDICT_STYLE[said.level]))


def _footer(explanation: Explanation, console: Console) -> None:
    console.print(Text(sentences.cost(explanation), style="dim"))
    for note in explanation.notes:
        console.print(Text(f"note: {visible(note)}", style="yellow"))


def _text(explanation: Explanation, console: Console) -> Text:
    pieces = runs(explanation.tokens)
    shares = strength(np.array([run_score(explanation, run) for run in pieces], dtype=float))
    text = Text()
    for run, share in zip(pieces, shares, strict=True):
        shown, depth = visible(run.text, keep="\n"), level(share)
        if run.cut:
            text.append(shown, style="dim strike")
        elif not run.positions or depth == 0:
            text.append(shown)
        elif coloured(console):
            text.append(shown, style=shade(console, sign(explanation, share), depth))
        else:
            text.append(shown + marks(sign(explanation, share), depth, console))
    return text


def _table(explanation: Explanation, console: Console, every_token: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column(
        sentences.kind(explanation), overflow="ellipsis", no_wrap=True, min_width=6, max_width=_TOKEN
    )
    table.add_column("", no_wrap=True, min_width=2 * _half(console.width) + 1)
    names = _fitting(explanation, console.width)
    for name in names:
        table.add_column(_heading(explanation, name), justify="right", no_wrap=True)
    shares = strength(explanation.score())
    cells = {name: _cells(explanation, name) for name in names}
    positions = explanation.listed.tolist() if every_token else sentences.order(explanation, TOP)
    for i in positions:
        string = explanation.tokens.strings[i]
        token = Text(label(string), style="dim" if is_punctuation(string) else "")
        bar = _bar(shares[i], sign(explanation, shares[i]), console)
        table.add_row(str(i), token, bar, *(cells[name][i] for name in names))
    return table


def _larger(explanation: Explanation, name: str) -> Table:
    """The strongest of the larger units, which were explained before their words."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    cells = _cells(explanation, explanation.ranking)
    table.add_column(_heading(explanation, explanation.ranking), justify="right", no_wrap=True)
    table.add_column(name, overflow="ellipsis", no_wrap=True)
    for i in sentences.order(explanation, _UNITS):
        table.add_row(cells[i], Text(label(explanation.tokens.strings[i])))
    return table


def _half(width: int) -> int:
    """Cells of a bar on each side of zero."""
    return 6 if width >= _NARROW else 3


def _heading(explanation: Explanation, name: str) -> Text:
    mark = "*" if name == "removal" and explanation.measured else ""
    return Text(f"{visible(name)}{mark}{sentences.scale_of(explanation, name).factor}")


def _fitting(explanation: Explanation, width: int) -> list[str]:
    """As many scores as fit, the one to rank by always."""
    widest = max((cell_len(label(token)) for token in explanation.tokens.strings), default=0)
    room = width - len(str(len(explanation))) - max(min(widest, _TOKEN), 6) - 2 * _half(width) - 4
    used = 0
    fit: list[str] = []
    for name in sentences.columns(explanation):
        used += (
            max(len(_heading(explanation, name)), *(cell.cell_len for cell in _cells(explanation, name)), 0)
            + 1
        )
        if fit and used > room:
            break
        fit.append(name)
    return fit


def _cells(explanation: Explanation, name: str) -> list[Text]:
    scores, errors = explanation.scores[name], explanation.stderr.get(name)
    scale = sentences.scale_of(explanation, name)
    cells = [Text(scale.score(score)) for score in scores.tolist()]
    if errors is not None:
        shown = [scale.error(stderr) for stderr in errors.tolist()]
        widest = max(map(len, shown), default=0)
        cells = [
            cell.append(f" {text:>{widest}}", style="dim") for cell, text in zip(cells, shown, strict=True)
        ]
    return cells


def _bar(share: float, side: int, console: Console) -> Text:
    """A bar to the right of zero for a positive share, to the left for a negative one."""
    half_width = _half(console.width)
    halves = round(abs(share) * 2 * half_width)
    ascii_only = console.options.ascii_only
    full = ("#" if ascii_only else "█") * (halves // 2)
    half = ("" if ascii_only else ("▌" if share > 0 else "▐")) * (halves % 2)
    left, right = (f"{half}{full}", "") if share < 0 else ("", f"{full}{half}")
    axis = "|" if ascii_only else "│"
    bar = Text().append(f"{left:>{half_width}}", style=_INK[-1]).append(axis, style="dim")
    return bar.append(f"{right:<{half_width}}", style=_INK[side if side == 0 else 1])


_SHADES = {
    1: ("#4f86e8", "bold underline #4f86e8", "white on #5873a8", "bold white on #2b6bf0"),
    -1: ("#d0752f", "bold underline #d0752f", "white on #95684a", "bold white on #c24e00"),
    0: ("#9470e0", "bold underline #9470e0", "white on #7d6a9e", "bold white on #8743e8"),
}
"""Nobody knows the ground that they stand on: all are as far from black as from white, and stronger means
first a colour, then a line, then a field, then a field of full colour."""
_FEW_SHADES = {
    1: ("blue", "bold blue", "white on blue", "bold white on blue"),
    -1: ("yellow", "bold yellow", "black on yellow", "bold black on yellow"),
    0: ("magenta", "bold magenta", "white on magenta", "bold white on magenta"),
}
"""For terminals of 16 colours, where pale blue and pale orange would both become white."""
_STEPS = (0.1, 0.3, 0.55, 0.8)
"""Shares of the largest score from which a token gets the first to the fourth shade."""


def coloured(console: Console) -> bool:
    """Whether the console shows colours."""
    return console.color_system is not None and not console.no_color


def level(share: float) -> int:
    """The shade of a share of the largest score: 0 for none, 4 for the strongest."""
    return sum(abs(share) >= step for step in _STEPS)


def sign(explanation: Explanation, share: float) -> int:
    """−1 for what speaks against the target, 1 for what speaks for it; 0 where the score does not say."""
    if not explanation.signed():
        return 0
    return -1 if share < 0 else 1


def shade(console: Console, side: int, depth: int) -> str:
    """The style of a sign and a level of at least 1."""
    many = console.color_system in ("truecolor", "256")
    return (_SHADES if many else _FEW_SHADES)[side][depth - 1]


def marks(side: int, depth: int, console: Console) -> str:
    """The same without colours."""
    if console.options.ascii_only:
        return f"({_ASCII[side] * depth})"
    return _MARKS[side] * depth


_MARKS = {1: "⁺", -1: "⁻", 0: "°"}
_ASCII = {1: "+", -1: "-", 0: "*"}


def legend(explanation: Explanation, console: Console) -> Text:
    """What the colours, or the signs, mean."""
    target = visible(explanation.target)
    if not explanation.signed():
        if coloured(console):
            return (
                Text().append(" violet ", style=shade(console, 0, 3)).append(f" counts; the score {NO_SIDE}")
            )
        return Text(f"{marks(0, 1, console)} counts, but {NO_SIDE}; more signs, more weight")
    if not coloured(console):
        plus, minus = marks(1, 1, console), marks(-1, 1, console)
        return Text(f"{plus} speaks for {target}, {minus} against it; more signs, more weight")
    told = Text().append(" blue ", style=shade(console, 1, 3)).append(f" speaks for {target}, ")
    return told.append(" orange ", style=shade(console, -1, 3)).append(" against it")


def line(explanation: Explanation) -> str:
    """What stands for an explanation in one line."""
    return f"<Explanation of {explanation.target!r} by {visible(explanation.method)}: {answer(explanation)}>"


def lines(explanation: Explanation) -> str:
    """The answer, the prediction, the strongest words, and how far to trust them."""
    explanation = explanation.shown
    chances = [f"{visible(name)} {sentences.percent(p)}" for name, p in sentences.prediction(explanation)]
    notes = [f"note: {visible(note)}" for note in explanation.notes]
    verdict = sentences.verdict(explanation).sentence
    return "\n".join([answer(explanation), ", ".join(chances), *_strongest(explanation), verdict, *notes])


def _strongest(explanation: Explanation) -> list[str]:
    scale, errors = sentences.scale_of(explanation), explanation.stderr.get(explanation.ranking)
    places = sentences.order(explanation, FEW)
    names = [label(explanation.tokens[i]) for i in places]
    wide = max(map(len, names))
    rows = [
        f"  {name:<{wide}}  {scale.score(float(explanation.score()[i]))}"
        for name, i in zip(names, places, strict=True)
    ]
    if errors is not None:
        rows = [f"{row} {scale.error(float(errors[i]))}" for row, i in zip(rows, places, strict=True)]
    for name in explanation.levels:
        larger = explanation.at(name)
        scale = sentences.scale_of(larger)
        best = [(i, shortened(larger.tokens[i])) for i in sentences.order(larger, FEW)]
        rows += [f"{name}:", *(f"  {scale.score(float(larger.score()[i]))}  {text}" for i, text in best)]
    return [f"{visible(explanation.ranking)}{scale.factor}:", *rows]
