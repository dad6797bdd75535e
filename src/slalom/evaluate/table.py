"""The results as tables in Markdown: methods as rows, numbers of protocols as columns."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from slalom.evaluate.results import Results, Spent
from slalom.evaluate.statistics import Average, Standing, best_or_tied, least_documents, summary

ASKED = ("queries", "tokens", "backwards")
_WIDE, _NARROW = 6, 4
"""A protocol with more numbers than the first gets several tables, with as many as the second in each."""

Number = tuple[str, str]
"""A protocol and one of its numbers."""


@dataclass(frozen=True)
class Table:
    """What the tables, figures and the terminal show, computed once.

    Example:
        >>> import tempfile
        >>> from slalom import Explainer
        >>> from slalom.data import Document
        >>> from slalom.evaluate.run import evaluate
        >>> from slalom.evaluate.table import Table
        >>> films = [Document("dull, lifeless and far too long"), Document("an honest, moving film")]
        >>> with tempfile.TemporaryDirectory() as out:
        ...     results = evaluate(Explainer(), films, ["slalom", "random"], ["removals"], out)
        >>> Table(results).cells["removals", "mse"]["slalom"].n
        2
    """

    results: Results

    @cached_property
    def cells(self) -> dict[Number, dict[str, Average]]:
        """Mean and standard error over documents, by number and method; only what was measured."""
        found: dict[Number, dict[str, Average]] = {}
        for number, values in self._values.items():
            found[number] = {method: summary(list(by.values())) for method, by in values.items()}
        return found

    @cached_property
    def standings(self) -> dict[Number, Standing]:
        """Who is best or tied, where two methods or more share a document."""
        found: dict[Number, Standing] = {}
        for number, values in self._values.items():
            if len(values) > 1 and set[str].intersection(*(set(by) for by in values.values())):
                way = "high" if self.results.numbers[number] == "high" else "low"
                found[number] = best_or_tied(values, way)
        return found

    @cached_property
    def _values(self) -> dict[Number, dict[str, dict[str, float]]]:
        found: dict[Number, dict[str, dict[str, float]]] = {}
        for number in self.results.numbers:
            values = {method: by for method, by in self.results.values(*number).items() if by}
            if values:
                found[number] = values
        return found

    @cached_property
    def costs(self) -> dict[str, dict[str, Average]]:
        """What an explanation cost on average, by method and part of `Spent`; NaN where that is not known."""
        names = ("queries", "tokens", "backwards", "seconds", "model_seconds")
        rows: dict[str, list[Spent]] = {}
        for row in self.results.spent:
            rows.setdefault(row.method, []).append(row)
        return {
            method: {name: summary([float(getattr(row, name)) for row in found]) for name in names}
            | dict.fromkeys(self.results.unknown_costs(method), Average(math.nan, math.nan, 0))
            for method, found in rows.items()
        }

    def asked(self, method: str) -> list[str]:
        """Queries, tokens read and backward passes; a dash where they are not known."""
        cost = self.costs.get(method)
        return [
            "–" if cost is None or math.isnan(cost[name].mean) else f"{cost[name].mean:,.0f}"
            for name in ASKED
        ]

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


def missing(results: Results) -> Counter[tuple[str, str, str, str]]:
    """How often (status, protocol, method, reason) happened; protocol "" where the method itself failed."""
    return Counter(
        (row.status, row.protocol or "", row.method, row.reason or "")
        for row in results.measurements
        if row.status != "ok"
    )


def duration(seconds: float) -> str:
    """Seconds in words: 3 h 5 min, 2 min 10 s, 4.0 s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
    )


def _pages(numbers: list[Number]) -> list[list[Number]]:
    size = len(numbers) if len(numbers) <= _WIDE else _NARROW
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


_CHEAPER = 0.5
"""The share of the winner's cost up to which a method is named for being cheap."""
_LIKE = 0.25
"""And the share of what the winner is ahead of the worst by which it may be behind."""


def verdict(table: Table) -> str:
    """One or two sentences over the first number of every protocol; "" where nothing was compared."""
    judged = [number for number in table.main if number in table.standings]
    if not judged:
        return ""
    numbers = [number for number in judged if table.standings[number].worse]
    if not numbers:
        return _undecided(table, judged)
    wins = {m: sum(table.leads(number, m) for number in numbers) for m in table.results.methods}
    most = max(wins.values())
    leaders = [m for m in wins if wins[m] == most]
    best, *tied = sorted(leaders, key=lambda m: (_distance(table, m, numbers), _dear(table, m), m))
    parts = [f"Use {best}: best or tied in {_of(most, len(numbers))}"]
    if tied:
        parts.append(f"{_and(tied)} {'is' if len(tied) == 1 else 'are'} so as often")
    cheap = _cheap(table, best, numbers)
    if cheap is not None:
        parts.append(_cheaper(table, best, cheap, numbers))
    return "; ".join(parts) + "."


_ENOUGH = 1.0
"""Documents are too few where a mean difference of so many standard deviations would not be shown."""


def _undecided(table: Table, judged: list[Number]) -> str:
    """Why nobody is ahead: too few documents for that, or no difference on as many as there are."""
    standings = [table.standings[number] for number in judged]
    most, shows = max(s.documents for s in standings), min(s.detectable for s in standings)
    documents = "1 document" if most == 1 else f"{most} documents"
    if math.isinf(shows):
        return (
            f"Too few documents to tell: {documents}, and no outcome on fewer than {least_documents()} can."
        )
    if shows > _ENOUGH:
        return (
            f"Too few documents to tell: on {documents} a difference shows from {shows:.1f} of its standard "
            "deviations on."
        )
    return (
        f"No number tells the methods apart on these {most} documents: use the cheapest, or judge more "
        "documents."
    )


def _of(count: int, total: int) -> str:
    return "the one number that tells methods apart" if total == 1 else f"{count} of {total} numbers"


def _cost(table: Table, method: str) -> float:
    """Tokens read; NaN where that is not known."""
    cost = table.costs.get(method)
    return cost["tokens"].mean if cost else 0.0


def _dear(table: Table, method: str) -> float:
    """Its cost, to choose the cheapest by: who does not tell it is not chosen for it."""
    cost = _cost(table, method)
    return math.inf if math.isnan(cost) else cost


def _cheap(table: Table, best: str, numbers: list[Number]) -> str | None:
    """The closest of the methods that are known to cost half or less, if it is close."""
    known = [
        method
        for method in table.costs
        if _cost(table, method) <= _CHEAPER * _cost(table, best)
        and all(method in table.cells[number] for number in numbers)
    ]
    near = {method: max(_behind(table, best, method, number)[1] for number in numbers) for method in known}
    chosen = min(near, key=lambda method: near[method], default=None)
    return chosen if chosen is not None and near[chosen] <= _LIKE else None


def _behind(table: Table, best: str, method: str, number: Number) -> tuple[float, float]:
    """How far a method is behind, in units of the number and as a share of the way to the worst method."""
    sign = 1.0 if table.results.numbers[number] == "high" else -1.0
    means = {name: sign * cell.mean for name, cell in table.cells[number].items()}
    if best not in means or method not in means:
        return 0.0, 1.0
    gap, span = means[best] - means[method], means[best] - min(means.values())
    return gap, gap / span if span > 0 else 0.0


def _distance(table: Table, method: str, numbers: list[Number]) -> float:
    """How far a method is from the best mean, as a share of the way to the worst, summed over numbers.

    Where documents are few, a method may be tied and yet much worse by all that was seen.
    """
    return sum(max(_behind(table, one, method, n)[1] for one in table.cells[n]) for n in numbers)


def _cheaper(table: Table, best: str, cheap: str, numbers: list[Number]) -> str:
    share = _cost(table, cheap) / max(_cost(table, best), 1e-9)
    cost = f"{cheap} costs {_part(share)}"
    if len(numbers) == 1:
        gap = _behind(table, best, cheap, numbers[0])[0]
        return f"{cost} and is {figure(abs(gap))} {'behind' if gap >= 0 else 'ahead'}"
    return f"{cost} and is nowhere far behind"


def _part(share: float) -> str:
    """A share in words: half, a third, 1/20."""
    whole = round(1 / max(share, 1e-4))
    words = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 10: "a tenth"}
    return words.get(whole, f"1/{whole}") + " of it"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
