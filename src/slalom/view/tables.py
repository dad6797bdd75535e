"""Reports about a corpus: a table of token types for each label, short lists beside it; in the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from slalom.files import plain
from slalom.scores import Scores
from slalom.tokens import BoolArray, FloatArray, IntArray
from slalom.view import label, sentences, visible

_TOKEN = 24
_CELL = 70
_LEAST = ("removal", "copies", "opposite", "documents", "importance", "value")
"""Columns that a narrow terminal does without, the first first."""
_RANKED = "Strongest first: by what is left of |{ranking}| after {sure:.0f} standard errors."
_UNSTABLE = (
    "Important, but the sign depends on the document (in {share:.0%} of the documents or more the other one):"
)

Column = tuple[str, ...] | IntArray | FloatArray

_SMALL = 0.03
"""Scores below this part of the largest move nothing, however sure they are."""
SURE = 2.0
"""Standard errors by which a score must differ from zero to be counted on."""
UNSTABLE = 0.1
"""Share of documents with the rarer sign from which a token's sign is called unstable."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Token types and what they say about one label, the strongest first."""

    label: str
    about: str
    """What the scores are about, in a few words."""
    size: int
    """Documents that take part."""
    ranking: str
    tokens: tuple[str, ...]
    documents: IntArray
    occurrences: IntArray
    scores: Mapping[str, FloatArray]
    """By name, the mean over documents."""
    stderr: Mapping[str, FloatArray]
    between: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    """Standard deviation between documents; empty where each type has one score for the whole corpus."""
    opposite: FloatArray | None = None
    """Share of the documents with the rarer sign, where that sign is clear."""
    hidden: int = 0
    """Types that occur in too few documents to be shown."""

    def __post_init__(self) -> None:
        for name in ("scores", "stderr", "between"):
            object.__setattr__(self, name, Scores(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.tokens)

    def record(self, row: int) -> dict[str, object]:
        """One row by column name."""
        return {name: column[row] for name, column in self.columns().items()}

    def columns(self) -> dict[str, Column]:
        """All columns by name, the token first."""
        found: dict[str, Column] = {"token": self.tokens}
        found |= {"documents": self.documents, "occurrences": self.occurrences}
        for name, scores in self.scores.items():
            found |= {name: scores, f"{name}_stderr": self.stderr[name]}
            if name in self.between:
                found[f"{name}_between"] = self.between[name]
        if self.opposite is not None:
            found["opposite"] = self.opposite
        return found


@dataclass(frozen=True)
class Section:
    """A short list beside the tables: documents, reasons."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Context:
    """A word where it stands: what is before it, itself, what is behind it."""

    before: str
    word: str
    after: str
    document: str
    """The id of its document."""
    row: int


@dataclass(frozen=True)
class ShownDocument:
    """A document that a page can show: its words, each with its share of the strongest score."""

    id: str
    target: str
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Report:
    """A view of a corpus, ready to be shown: same for the terminal, the page and the files."""

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[TokenTable, ...]
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    contexts: Mapping[tuple[str, str], tuple[Context, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[Context, ...]]
    )
    """Where words stand, by label (empty for every label) and token."""
    documents: Mapping[int, ShownDocument] = field(default_factory=dict[int, ShownDocument])
    """By row, the documents that `contexts` are taken from."""

    def context(self, table: TokenTable, row: int) -> tuple[Context, ...]:
        """Where the token of a row stands."""
        token = table.tokens[row]
        return self.contexts.get((table.label, token)) or self.contexts.get(("", token), ())


NAMED = 12
"""Words on either side of a label that a page names one by one."""
_FREQUENT = 0.02
"""Of the documents, from which a word is frequent."""


@cache
def _function_words() -> frozenset[str]:
    """English words without content of their own; negations are not among them."""
    return frozenset(files("slalom.view").joinpath("assets", "function_words.txt").read_text("utf-8").split())


def sides(table: TokenTable, count: int = NAMED) -> tuple[list[int], list[int]]:
    """Rows of the strongest words that speak for the label, and against it."""
    scores = np.nan_to_num(table.scores[table.ranking])
    clear = _strong(table)
    return tuple(np.flatnonzero(chosen & clear)[:count].tolist() for chosen in (scores > 0, scores < 0))  # type: ignore[return-value]


def spurious(table: TokenTable, count: int = NAMED) -> list[int]:
    """Candidates: strong for sure, frequent, and no content words: marks, numbers, function words."""
    strong = np.flatnonzero(_strong(table))
    least = max(2.0, _FREQUENT * table.size)
    rows = map(int, strong[: max(len(strong) // 2, 4 * count)])
    return [row for row in rows if table.documents[row] >= least and not _content(table.tokens[row])][:count]


def _strong(table: TokenTable) -> BoolArray:
    """For sure of a sign, and not small beside the strongest."""
    scores = np.nan_to_num(table.scores[table.ranking])
    clear = sure(scores, np.nan_to_num(table.stderr[table.ranking])) > 0
    return clear & (np.abs(scores) >= _SMALL * np.abs(scores).max(initial=0.0))


def _content(token: str) -> bool:
    word = token.strip().lower().lstrip("…")
    letters = sum(character.isalpha() for character in word)
    return letters > 0 and word not in _function_words() and (letters > 1 or ord(word[0]) > 0x24F)


def told(report: Report) -> list[str]:
    """What a reader should take away, in sentences."""
    found: list[str] = []
    for table in report.tables:
        towards, against = ([_quoted(table.tokens[row]) for row in rows[:3]] for rows in sides(table))
        parts = [f"for it mainly by {_listed(towards)}"] if towards else []
        parts += [f"against it by {_listed(against)}"] if against else []
        if parts:
            found.append(f"{visible(table.label)}: the model is moved {', '.join(parts)}.")
        odd = [_quoted(table.tokens[row]) for row in spurious(table, 5)]
        if odd:
            found.append(f"Strong and frequent, but no content: {_listed(odd)}. Look at these first.")
    return found


def _quoted(token: str) -> str:
    return f"“{label(token)}”"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def least_count(documents: int) -> int:
    """In how many documents a token must stand to be shown, unless told otherwise: few in a small corpus."""
    return 1 if documents < 10 else min(max(2, round(documents**0.5 / 6)), 20)


def sure(scores: FloatArray, errors: FloatArray) -> FloatArray:
    """The part of |score| that its uncertainty leaves: |score| − 2 standard errors, not below zero."""
    return np.nan_to_num(np.maximum(np.abs(scores) - SURE * errors, 0.0), nan=0.0)


def order(scores: FloatArray, errors: FloatArray, documents: IntArray) -> IntArray:
    """Strongest first: by what is sure of the score, then by its size, then by documents."""
    size = np.nan_to_num(np.abs(scores), nan=0.0)
    return np.lexsort((-documents, -size, -sure(scores, errors)))


def unstable(table: TokenTable) -> list[int]:
    """Rows of types that count more than an average token, and whose sign depends on the document."""
    if table.opposite is None or "importance" not in table.scores:
        return []
    importance, error = table.scores["importance"], table.stderr["importance"]
    lower = importance - SURE * np.nan_to_num(error, nan=np.inf)
    chosen = np.flatnonzero((lower > 0) & (table.opposite >= UNSTABLE))
    return chosen[np.argsort(-importance[chosen], kind="stable")].tolist()


def to_record(table: TokenTable) -> dict[str, object]:
    """A table in JSON's own types."""
    parts: dict[str, object] = {
        "label": table.label,
        "about": table.about,
        "documents": table.size,
        "ranking": table.ranking,
    }
    rows = [plain(table.record(row)) for row in range(len(table))]
    return parts | {
        "hidden": table.hidden,
        "tokens": rows,
        "unstable": [table.tokens[i] for i in unstable(table)],
    }


def show(report: Report, top: int, console: Console | None = None) -> None:
    """Print the first `top` rows of every table and list."""
    console = Console() if console is None else console
    console.print(Text(visible(report.title), style="bold"))
    facts = Grid.grid(padding=(0, 2, 0, 0))
    for name, said in report.facts:
        facts.add_row(Text(name, style="dim"), Text(visible(said)))
    console.print(facts)
    for sentence in told(report):
        console.print(Text(sentence))
    for table in report.tables:
        _show_table(table, top, console)
    for section in report.sections:
        _show_section(section, top, console)
    for note in report.notes:
        console.print(Text(visible(note), style="dim"))


def _show_table(table: TokenTable, top: int, console: Console) -> None:
    console.print()
    console.print(Text(f"{visible(table.label)} · {visible(table.about)}", style="bold"))
    if len(table) == 0:
        console.print(Text("No token is in enough documents; lower --min-count.", style="yellow"))
        return
    console.print(_grid(table, list(range(min(top, len(table)))), console.width))
    said = _RANKED.format(ranking=table.ranking, sure=SURE)
    console.print(Text(f"{said} {rest(table, top)}", style="dim"))
    shaky = unstable(table)
    if shaky:
        console.print()
        console.print(Text(_UNSTABLE.format(share=UNSTABLE)))
        console.print(_grid(table, shaky[:top], console.width))


def rest(table: TokenTable, shown: int) -> str:
    """What the table does not show."""
    more = len(table) - min(shown, len(table))
    parts = [f"{more:,} more types follow."] if more else []
    parts += [f"{table.hidden:,} types are too rare to be shown."] if table.hidden else []
    return " ".join(parts)


def _grid(table: TokenTable, rows: list[int], width: int) -> Grid:
    """The rows that are asked for; columns that do not fit are left out, the token never."""
    shown = {name: [cells(table, row)[i] for row in rows] for i, name in enumerate(heads(table))}
    tokens = [_short(label(table.tokens[row]), _TOKEN) for row in rows]
    room = width - max(map(cell_len, ["token", *tokens])) - 2
    for name in (name for name in _LEAST if name != table.ranking):
        if sum(max(map(len, [head, *column])) + 2 for head, column in shown.items()) > room:
            shown.pop(name, None)
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("token", no_wrap=True)
    for name in shown:
        grid.add_column(name, justify="right", no_wrap=True)
    for row, token in enumerate(tokens):
        grid.add_row(Text(token), *(Text(column[row]) for column in shown.values()))
    return grid


def heads(table: TokenTable) -> list[str]:
    """The columns behind the token."""
    names = [table.ranking, *(name for name in table.scores if name != table.ranking)]
    return ["documents", "copies", *names, *(["opposite"] if table.opposite is not None else [])]


def cells(table: TokenTable, row: int) -> list[str]:
    """The numbers of one row as they are shown."""
    shown = [f"{table.documents[row]:,}", f"{table.occurrences[row]:,}"]
    for name in heads(table)[2:]:
        if name == "opposite" and table.opposite is not None:
            shown.append(f"{table.opposite[row]:.0%}")
            continue
        places = min(max(sentences.scale(table.scores[name]).places, 2), 3)
        score = sentences.signed(float(table.scores[name][row]), places).strip()
        shown.append(f"{score} {sentences.error(float(table.stderr[name][row]), places)}")
    return shown


def number(table: TokenTable, row: int, name: str) -> float:
    """The number behind a cell, for sorting."""
    known = {"documents": table.documents, "copies": table.occurrences, "opposite": table.opposite}
    column = known.get(name)
    value = float((table.scores[name] if column is None else column)[row])
    return value if math.isfinite(value) else 0.0


def _show_section(section: Section, top: int, console: Console) -> None:
    if not section.rows:
        return
    console.print()
    console.print(Text(visible(section.heading), style="bold"))
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in section.columns:
        grid.add_column(name)
    for row in section.rows[:top]:
        grid.add_row(*(Text(_short(visible(cell), _CELL)) for cell in row))
    console.print(grid)
    if section.note:
        console.print(Text(visible(section.note), style="dim"))


def _short(text: str, most: int) -> str:
    return text if cell_len(text) <= most else set_cell_size(text, most - 1) + "…"
