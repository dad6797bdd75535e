"""How the terminal views mark a token: colours where there are some, signs where there are none."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from slalom.explanation import Explanation
from slalom.view.sentences import NO_SIDE
from slalom.view.text import visible

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
