"""The columns of a table on real texts: rows from evaluations, their differences, what these allow to say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slalom.evaluate.results import Results
from slalom_lab.experiments._shared.outcome import Row, decide, mean_row
from slalom_lab.experiments._shared.real import ACCURACY, METHODS, Classifier
from slalom_lab.experiments._shared.verdicts import ALL

OVER = " over "
"""In the measure of a difference, between the two columns."""
_READ, _SECONDS = "tokens read, ", "seconds, "
"""Before the column, in the measure of what its explanations cost."""


def scores_of_slalom(number: str) -> dict[str, tuple[str, str]]:
    """The columns that the paper has for its method, as (method, number): by value, importance and share."""
    columns = {"values": f"{number}_value", "importances": f"{number}_importance", "lin. SLALOM": number}
    return {column: ("slalom_sgd", name) for column, name in columns.items()}


def rows(
    results: Results,
    classifier: Classifier,
    protocol: str,
    numbers: Mapping[str, tuple[str, str]],
    paper: Mapping[str, tuple[float, float]] | None = None,
) -> list[Row]:
    """A row for each column of the paper's table: by column, the method (as it was named) and its number.

    The mean over documents; what a method could not do on a document is missing from its n.
    """
    found = []
    for column, (method, number) in numbers.items():
        values = list(by_document(results, protocol, method, number).values())
        theirs = (paper or {}).get(column)
        found.append(mean_row({"model": classifier.title, "beside": classifier.like}, column, values, theirs))
    return found


def differences(
    results: Results,
    classifier: Classifier,
    protocol: str,
    numbers: Mapping[str, tuple[str, str]],
    one: str,
    others: Sequence[str],
    sign: float = 1.0,
) -> list[Row]:
    """How much better one column is than others: means over the documents that both have, paired.

    `sign` is −1 where low is good.
    """
    found = []
    for other in others:
        mine, theirs = (by_document(results, protocol, *numbers[column]) for column in (one, other))
        values = [sign * (mine[name] - theirs[name]) for name in mine if name in theirs]
        where: dict[str, str | int] = {"model": classifier.title, "beside": classifier.like}
        found.append(mean_row(where, f"{one}{OVER}{other}", values))
    return found


def costs(results: Results, classifier: Classifier) -> list[Row]:
    """How many tokens a model reads for an explanation, and its seconds, on average over documents."""
    where: dict[str, str | int] = {"model": classifier.title, "beside": classifier.like}
    found = []
    for column in ("lin. SLALOM", "LIME", "this library"):
        own = [spent for spent in results.spent if _same(spent.method, METHODS[column])]
        if not own:
            continue
        found.append(mean_row(where, f"{_READ}{column}", [spent.tokens for spent in own]))
        found.append(mean_row(where, f"{_SECONDS}{column}", [spent.seconds for spent in own]))
    return found


def tell_costs(rows: Sequence[Row]) -> str:
    """What explanations cost, in words."""
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        found.setdefault(str(row.where["model"]), {})[row.measure] = row.ours
    told = []
    for model, own in found.items():
        columns = [measure.removeprefix(_READ) for measure in own if measure.startswith(_READ)]
        parts = [
            f"{column} {own[_READ + column]:,.0f} tokens read and {own[_SECONDS + column]:.1f} s"
            for column in columns
        ]
        told.append(f"{model}: {', '.join(parts)}")
    return f"What one explanation takes: {'; '.join(told)}"


def by_document(results: Results, protocol: str, method: str, number: str) -> dict[str, float]:
    """What a method has by document."""
    by_method = results.values(protocol, number)
    spec = next((name for name in by_method if _same(name, method)), None)
    return {} if spec is None else by_method[spec]


def shown(rows: Sequence[Row]) -> list[Row]:
    """The rows of the table itself, without differences, accuracies, costs and all models together."""
    return [
        row
        for row in models(rows)
        if OVER not in row.measure
        and row.measure != ACCURACY
        and not row.measure.startswith((_READ, _SECONDS))
    ]


def models(rows: Sequence[Row]) -> list[Row]:
    """The rows of single models."""
    return [row for row in rows if row.where.get("model") != ALL]


def gaps(rows: Sequence[Row], key: str = "model") -> dict[str, list[Row]]:
    """The differences by model, or by another key."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if OVER in row.measure:
            found.setdefault(str(row.where[key]), []).append(row)
    return found


def weigh(rows: Sequence[Row], key: str = "model", threshold: float = 0.0) -> str:
    """What the differences allow to say: where they are clear, and how many documents others would take.

    `threshold` is the difference that counts as none, below zero where being on par is enough.
    """
    better, worse = ("better", "worse") if not threshold else ("on par", f"behind by more than {-threshold}")
    found: dict[str, dict[str, list[str]]] = {}
    for place, differences in gaps(rows, key).items():
        for row in differences:
            verdict = decide(row, threshold)
            kind = "open" if verdict is None else f"clearly {better if verdict else worse}"
            more = f" (about {_needed(row, threshold)} documents would tell)" if verdict is None else ""
            found.setdefault(row.measure, {}).setdefault(kind, []).append(f"{place}{more}")
    return ". ".join(
        f"{measure}: " + "; ".join(f"{kind} for {' and '.join(places)}" for kind, places in kinds.items())
        for measure, kinds in found.items()
    )


def _needed(row: Row, threshold: float) -> str:
    """Documents after which a mean like this one would be two standard errors from the threshold."""
    if row.ours is None or row.error is None or row.n is None or row.ours == threshold:
        return "more"
    return f"{math.ceil(row.n * (2 * row.error / (row.ours - threshold)) ** 2):,}"


def _same(spec: str, method: str) -> bool:
    """Whether a spec is that method, apart from the budget that `study` gave it."""
    return [p for p in spec.split(":") if not p.startswith("budget=")] == method.split(":")
