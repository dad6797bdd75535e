"""What an evaluation comes to, in words: which method to use, who is tied with it, and what is cheaper."""

from __future__ import annotations

from slalom.evaluate.statistics import least_documents
from slalom.evaluate.table import Number, Table, figure

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
    best, *tied = sorted((m for m in wins if wins[m] == most), key=lambda m: (_cost(table, m), m))
    parts = [f"Use {best}: best or tied in {_of(most, len(numbers))}"]
    if tied:
        parts.append(f"{_and(tied)} {'is' if len(tied) == 1 else 'are'} so as often")
    cheap = _cheap(table, best, numbers)
    if cheap is not None:
        parts.append(_cheaper(table, best, cheap, numbers))
    return "; ".join(parts) + "."


def _undecided(table: Table, judged: list[Number]) -> str:
    """Why nobody is ahead: too few documents for anybody to be, or no difference on as many as there are."""
    most = max(table.standings[number].documents for number in judged)
    if not any(table.standings[number].enough for number in judged):
        documents = "1 document" if most == 1 else f"{most} documents"
        return (
            f"Too few documents to tell: {documents}, and no outcome on fewer than {least_documents()} can."
        )
    return (
        f"No number tells the methods apart on these {most} documents: use the cheapest, or judge more "
        "documents."
    )


def _of(count: int, total: int) -> str:
    return "the one number that tells methods apart" if total == 1 else f"{count} of {total} numbers"


def _cost(table: Table, method: str) -> float:
    cost = table.costs.get(method)
    return cost["tokens"].mean if cost else 0.0


def _cheap(table: Table, best: str, numbers: list[Number]) -> str | None:
    """The closest of the methods that cost half or less, if it is close."""
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
    if best not in means:
        return 0.0, 1.0
    gap, span = means[best] - means[method], means[best] - min(means.values())
    return gap, gap / span if span > 0 else 0.0


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
