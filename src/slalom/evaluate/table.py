"""The results as tables in Markdown: methods as rows, numbers of protocols as columns."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from slalom.evaluate import protocols
from slalom.evaluate.results import Results
from slalom.evaluate.statistics import Standing, Summary, best_or_tied, summary

_ASKED = ("queries", "tokens", "backwards")
_WIDE, _NARROW = 6, 4
"""A protocol with more numbers than the first gets several tables, with as many as the second in each."""

Number = tuple[str, str]
"""A protocol and one of its numbers."""


@dataclass(frozen=True)
class Table:
    """What the tables, figures and the terminal show, computed once."""

    results: Results

    @cached_property
    def cells(self) -> dict[Number, dict[str, Summary]]:
        """Mean and standard error over documents, by number and method; only what was measured."""
        found: dict[Number, dict[str, Summary]] = {}
        for number, values in self._values.items():
            found[number] = {method: summary(list(by.values())) for method, by in values.items()}
        return found

    @cached_property
    def standings(self) -> dict[Number, Standing]:
        """Who is best or tied, where two methods or more share a document."""
        found = {}
        for number, values in self._values.items():
            if len(values) > 1 and set.intersection(*map(set, values.values())):
                way = "high" if self.results.numbers[number] == "high" else "low"
                found[number] = best_or_tied(values, way)
        return found

    @cached_property
    def _values(self) -> dict[Number, dict[str, dict[str, float]]]:
        found = {}
        for number in self.results.numbers:
            values = {method: by for method, by in self.results.values(*number).items() if by}
            if values:
                found[number] = values
        return found

    @cached_property
    def costs(self) -> dict[str, dict[str, Summary]]:
        """What an explanation cost on average, by method and part of `Spent`."""
        names = ("queries", "tokens", "backwards", "seconds", "model_seconds")
        rows: dict[str, list[Any]] = {}
        for row in self.results.spent:
            rows.setdefault(row.method, []).append(row)
        return {
            method: {name: summary([float(getattr(row, name)) for row in found]) for name in names}
            for method, found in rows.items()
        }

    @property
    def main(self) -> list[Number]:
        """The first number of every protocol that measured something."""
        first: dict[str, Number] = {}
        for number in self.cells:
            first.setdefault(number[0], number)
        return list(first.values())

    def groups(self) -> dict[str, list[list[Number]]]:
        """The numbers of every protocol, in tables that a page can hold."""
        found: dict[str, list[Number]] = {}
        for number in self.cells:
            found.setdefault(number[0], []).append(number)
        return {name: _pages(numbers) for name, numbers in found.items()}

    def cell(self, number: Number, method: str) -> str:
        """`mean ± standard error`, in bold where best or tied; n where documents are missing."""
        found = self.cells[number].get(method)
        if found is None:
            return "–"
        text = figure(found.mean) + ("" if math.isnan(found.stderr) else f" ± {figure(found.stderr)}")
        if self.leads(number, method):
            text = f"**{text}**"
        return text if found.n == len(self.results.finished) else f"{text} ({found.n})"

    def leads(self, number: Number, method: str) -> bool:
        """Whether the method is best or tied; where nobody is shown to be worse, that says nothing."""
        standing = self.standings.get(number)
        return standing is not None and bool(standing.worse) and method in standing.tied

    def head(self, number: Number, *, short: bool = False) -> str:
        """The number's name with an arrow for the good direction."""
        arrow = "↑" if self.results.numbers[number] == "high" else "↓"
        return f"{number[1] if short else ' '.join(number)} {arrow}"


def plain_cell(table: Table, number: Number, method: str) -> str:
    """A cell without marks, for the terminal."""
    return table.cell(number, method).replace("**", "").replace(" ± ", " ±")


def figure(value: float) -> str:
    """A number with as many digits as it takes to tell it from another."""
    if value == 0 or 0.001 <= abs(value) < 100:
        return f"{value:.3f}"
    return f"{value:.1f}" if 100 <= abs(value) < 10_000 else f"{value:.2e}"


def markdown(table: Table) -> str:
    """All tables that depend on settings and documents alone: the same for every run of the same settings."""
    from slalom.evaluate.verdict import verdict

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
        [f"`{method}`", *(figure(cost[name].mean) for name in ("seconds", "model_seconds"))]
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
        "the leader is not shown to be better (sign flips over documents, 5 % for all pairs together), and "
        "not all methods are tied. In brackets the number of documents, where it is not all of them."
    )


def _summary(table: Table) -> str:
    heads = ["method", *(table.head(number) for number in table.main), "queries", "tokens read", "backward"]
    rows = []
    for method in table.results.methods:
        cost = table.costs.get(method)
        asked = [f"{cost[name].mean:,.0f}" if cost else "–" for name in _ASKED]
        rows.append([f"`{method}`", *(table.cell(number, method) for number in table.main), *asked])
    return _grid(heads, rows)


def _page(table: Table, numbers: Sequence[Number]) -> str:
    methods = [m for m in table.results.methods if any(m in table.cells[number] for number in numbers)]
    heads = ["method", *(table.head(number, short=True) for number in numbers)]
    return _grid(heads, [[f"`{m}`", *(table.cell(number, m) for number in numbers)] for m in methods])


def _pages(numbers: list[Number]) -> list[list[Number]]:
    size = len(numbers) if len(numbers) <= _WIDE else _NARROW
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def missing(results: Results) -> Counter[tuple[str, str, str, str]]:
    """How often (status, protocol, method, reason) happened; protocol "" where the method itself failed."""
    return Counter(
        (row.status, row.protocol or "", row.method, row.reason or "")
        for row in results.measurements
        if row.status != "ok"
    )


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


def duration(seconds: float) -> str:
    """Seconds in words: 3 h 5 min, 2 min 10 s, 4.0 s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
    )
