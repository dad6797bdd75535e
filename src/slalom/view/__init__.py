"""How results are shown. A file here that says its SUFFIX is a format of explanations; nothing else names it.

A format is a module with

    "..."      a docstring; its first sentence says what it is
    SUFFIX     the ending of its files, ".md"
    render     (explanation) → the text of such a file

`slalom explain --format NAME` prints one, `--out FILE` writes the one of the file's ending. Another package
brings one by an entry point of the group `slalom.views`.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slalom.files import write_text
from slalom.registry import Registry
from slalom.tokens import FloatArray, Tokens

if TYPE_CHECKING:
    from slalom.explanation import Explanation

_JOINERS = "\u200c\u200d"
"""Invisible, but harmless and needed: they shape Persian and Indic words and join emoji."""
_SPELLINGS = 3
"""Ways to write one type that its name holds: an unknown token can be any word."""

REGISTRY = Registry("format", __name__, "SUFFIX", "slalom.views")


def names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    return REGISTRY.names()


def load(name: str) -> Callable[[Explanation], str]:
    """The function of a format that turns an explanation into text."""
    return REGISTRY.module(name).render


def of_path(path: str | os.PathLike[str]) -> str:
    """The format of a file by its ending; json, which `Explanation.load` reads, for endings of no format."""
    ending = Path(path).suffix.lower()
    suffixes = {str(REGISTRY.header(name).said["SUFFIX"]): name for name in reversed(names())}
    return suffixes.get({".htm": ".html"}.get(ending, ending), "json")


def write(explanation: Explanation, path: str | os.PathLike[str], name: str | None = None) -> None:
    """Write an explanation to a file, in the format that is named or else in that of the file's ending."""
    write_text(path, load(name or of_path(path))(explanation))


@dataclass(frozen=True)
class Run:
    """A stretch of text; `positions` are the tokens it stands for, none for what lies between tokens."""

    text: str
    positions: tuple[int, ...] = ()
    cut: bool = False
    """Beyond what the model reads."""


def visible(text: str, keep: str = "") -> str:
    """`text` with every control or direction character shown as a sign instead of obeyed."""
    return "".join(c if c in keep or c in _JOINERS else _sign(c) for c in text)


def _sign(char: str) -> str:
    if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures, ␀ to ␟
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def label(token: str) -> str:
    """A token as it stands in a table: on one line, blanks made visible."""
    shown = visible(token.strip()) if token.strip() else visible(token.replace(" ", "␣"))
    return shown or "∅"


def spellings(tokens: Tokens) -> list[str]:
    """The name of every type: as it is written in the text, and where it is written in several ways, all."""
    found: list[dict[str, None]] = [{} for _ in range(tokens.n_types)]
    for kind, string in zip(tokens.inverse.tolist(), tokens.strings, strict=True):
        found[kind][label(string)] = None
    return [
        " / ".join([*names][:_SPELLINGS]) + (" / …" if len(names) > _SPELLINGS else "") for names in found
    ]


def runs(tokens: Tokens) -> list[Run]:
    """The whole text in order, as runs."""
    found: list[Run] = []
    cursor = 0
    for place, (start, end) in enumerate(tokens.spans.tolist()):
        if end > cursor:
            start = _first_letter(tokens.text, max(start, cursor), end)
            found += [*_between(tokens, cursor, start), Run(tokens.text[start:end], (place,))]
            cursor = end
        elif found:  # several tokens share a character, or a token has none
            found[-1] = Run(found[-1].text, (*found[-1].positions, place))
    found += _between(tokens, cursor, len(tokens.text))
    return [run for run in found if run.text]


def _between(tokens: Tokens, start: int, end: int) -> list[Run]:
    # In a pair the first text can be cut while the second goes on behind it.
    if tokens.cut is None or not (start <= tokens.cut < end or end == len(tokens.text)):
        return [Run(tokens.text[start:end])]
    cut = max(tokens.cut, start)
    return [Run(tokens.text[start:cut]), Run(tokens.text[cut:end], cut=True)]


def _first_letter(text: str, start: int, end: int) -> int:
    # Some tokenizers count the blank before a word to the word; nobody wants to see it marked.
    return next((i for i in range(start, end) if not text[i].isspace()), start)


def strength(scores: FloatArray) -> FloatArray:
    """Scores as shares of the largest, −1 to 1; what is not a number counts as 0."""
    clean = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)
    top = np.abs(clean).max(initial=0.0)
    return clean / top if top > 0 else clean


def run_score(explanation: Explanation, run: Run) -> float:
    """A run's ranking score; tokens that share one character add up."""
    return float(explanation.score()[list(run.positions)].sum())


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text, on one line."""
    text = visible(" ".join(text[: 4 * most].split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"
