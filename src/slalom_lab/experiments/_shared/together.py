"""Rows about all models of a table together, document by document.

The models explain the same documents, and what a document is like moves all of them at once. So the standard
error of a mean over the models is that of each document's own mean, over the documents that every model has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slalom.evaluate.results import Results
from slalom_lab.experiments._shared.columns import OVER, by_document
from slalom_lab.experiments._shared.outcome import Row, mean_row
from slalom_lab.experiments._shared.verdicts import ALL

Columns = Mapping[str, tuple[str, str]]
"""By column, the method as it was named and its number."""


def rows(
    studied: Sequence[Results],
    protocol: str,
    numbers: Columns,
    columns: Sequence[str] = (),
    pairs: Mapping[str, Sequence[str]] | None = None,
    sign: float = 1.0,
) -> list[Row]:
    """Means of columns and of differences of columns over several models; nothing where there is one model.

    `sign` is −1 where low is good; it is that of the differences.
    """
    found: dict[str, list[Mapping[str, float]]] = {}
    for results in studied:
        own = {name: by_document(results, protocol, *numbers[name]) for name in numbers}
        for column in columns:
            found.setdefault(column, []).append(own[column])
        for one, others in (pairs or {}).items():
            for other in others:
                less = {
                    name: sign * (own[one][name] - own[other][name])
                    for name in own[one]
                    if name in own[other]
                }
                found.setdefault(f"{one}{OVER}{other}", []).append(less)
    return means(found) if len(studied) > 1 else []


def means(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Row]:
    """By measure, the mean over models of what each has by document."""
    return [
        mean_row({"model": ALL, "beside": ""}, measure, _by_document(own)) for measure, own in found.items()
    ]


def _by_document(models: Sequence[Mapping[str, float]]) -> list[float]:
    shared = [name for name in models[0] if all(name in own for own in models)]
    return [float(np.mean([own[name] for own in models])) for name in shared]
