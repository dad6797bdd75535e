"""The league table: every method × models and data sets × protocols × budgets, with what each cost.

A cell is a model on a data set. Its results lie in a folder of their own, document by document, so that the
same command continues where it was interrupted; a method that is added later is run on its own, on the same
documents, and takes its row. What a cell needs and does not find (a model, a data set) is said in the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from filelock import FileLock

from slalom.api import Explainer
from slalom.errors import SlalomError
from slalom.evaluate.results import Finished, Results
from slalom.evaluate.run import Progress, evaluate
from slalom.evaluate.table import Table
from slalom.files import Record, from_json, make_folder, plain, read_text, to_json, write_text
from slalom.outside import is_outside
from slalom_lab.bench.league_cells import CELLS, LeagueCell, documents, opened

METHODS = (
    "slalom",
    "slalom:score=shapley",
    "slalom:effort=fast",
    "slalom:effort=faithful",
    "slalom:gradients=false",
    "lime:budget=100",
    "lime:budget=300",
    "lime:budget=1000",
    "kernel_shap:budget=100",
    "kernel_shap:budget=300",
    "kernel_shap:budget=1000",
    "partition_shap:budget=100",
    "partition_shap:budget=300",
    "lasso:budget=300",
    "occlusion",
    "integrated_gradients:budget=300",
    "smoothgrad",
    "gradient",
    "attention",
    "random",
)
INSIDE = ("integrated_gradients", "smoothgrad", "gradient", "attention")
"""Methods that need the torch module."""
DEAR = ("kernel_shap:budget=1000", "partition_shap:budget=300", "smoothgrad")
"""Left out on dear cells: the cost of the largest, and each has a smaller or better one beside it."""
PROTOCOLS = ("all_scales", "removals:masks=20", "deletion", "lds", "leave_one_out")
NUMBERS = (
    ("all_scales", "r2"),
    ("removals", "correlation"),
    ("deletion", "aopc"),
    ("lds", "spearman"),
    ("leave_one_out", "spearman"),
)
"""What the table shows of the protocols."""
FORMAT, VERSION = "slalom-league", 1


def league(
    out: str | os.PathLike[str],
    cells: Sequence[LeagueCell] = CELLS,
    *,
    models: Mapping[str, str] | None = None,
    methods: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    open_model: Callable[[LeagueCell, Mapping[str, str]], Explainer] | None = None,
    progress: Callable[[str], Progress | None] | None = None,
) -> Record:
    """Run what is missing, and give the table of everything that is there; it is written to league.json.

    models: directories by name. methods: further ones, beside METHODS. limit: documents of a cell, in place
    of its own number.
    """
    folder = make_folder(out)
    for cell in cells:
        try:
            explainer = (open_model or opened)(cell, models or {})
            found = documents(cell, limit or cell.documents, seed, data_dir)
        except SlalomError as error:
            _add(folder, _row(cell) | {"not_run": str(error)})
            continue
        results = []
        usual = usual_methods(cell)
        extra = [m for m in methods if m not in usual]
        for group in (usual, *([m] for m in extra)):
            watch = progress(cell.name if group is usual else f"{cell.name} {group[0]}") if progress else None
            where = folder / cell.name / ("usual" if group is usual else _slug(group[0]))
            named = {"source": f"{cell.data} ({cell.split})", "progress": watch}
            results.append(
                evaluate(explainer, found, group, PROTOCOLS, where, seed=seed, cut=cell.cut, **named)
            )
        _add(folder, _row(cell) | _measured(Table(_merged(results))))
    return _written(folder)


def usual_methods(cell: LeagueCell) -> list[str]:
    """The methods that every cell has; on a dear one without DEAR, outside torch without INSIDE."""
    kept = [m for m in METHODS if cell.inside or m.partition(":")[0] not in INSIDE]
    return [m for m in kept if m not in DEAR] if cell.dear else kept


def family(method: str) -> str:
    """What is one curve of quality against cost: a method without its budget and effort."""
    name, *options = method.split(":")
    kept = [o for o in options if not o.startswith(("budget=", "effort="))]
    return ":".join([name, *kept])


def _merged(results: Sequence[Results]) -> Results:
    """Evaluations of the same documents by different methods as one."""
    settings = dict(results[0].settings)
    settings["methods"] = {label: call for one in results for label, call in one.settings["methods"].items()}
    found: dict[str, Finished] = {}
    for finished in (f for one in results for f in one.finished):
        known = found.get(finished.key)
        found[finished.key] = finished if known is None else _joined(known, finished)
    return Results(settings, tuple(found.values()))


def _joined(one: Finished, other: Finished) -> Finished:
    lists = ("measurements", "spent", "points")
    parts = {name: (*getattr(one, name), *getattr(other, name)) for name in lists}
    return replace(one, **parts, wall=one.wall + other.wall)


def _row(cell: LeagueCell) -> Record:
    return {"name": cell.name, "title": cell.title, "data": cell.data, "cut": cell.cut, "dear": cell.dear}


def _measured(table: Table) -> Record:
    """What the page shows of a cell."""
    shown = [number for number in NUMBERS if number in table.cells]
    rows = []
    for method in table.results.methods:
        cost = table.costs.get(method)
        if cost is None:
            continue
        numbers = {}
        for number in shown:
            cell = table.cells[number].get(method)
            if cell is not None:
                numbers[" ".join(number)] = asdict(cell) | {"tied": table.leads(number, method)}
        rows.append(
            {"method": method, "family": family(method), "outside": is_outside(method), "numbers": numbers}
            | {"removal_error": _pooled(table, method)}
            | {name: cost[name].mean for name in ("queries", "tokens", "backwards", "seconds")}
        )
    lengths = [row.length for row in table.results.spent]
    return {
        "documents": len(table.results.finished),
        "tokens": sum(lengths) / len(lengths) if lengths else 0.0,
        "hours": table.results.wall / 3600,
        "good": {" ".join(number): table.results.numbers[number] for number in shown},
        "versions": table.results.settings["versions"],
        "rows": rows,
    }


def _pooled(table: Table, method: str) -> float | None:
    """Squared errors under removals over all documents, relative to predicting no change.

    A mean of the documents' own ratios is that of the few texts where removals hardly change anything.
    """
    found = [table.cells.get(("removals", name), {}).get(method) for name in ("mse", "zero_mse")]
    return found[0].mean / found[1].mean if found[0] and found[1] else None


def _add(folder: Path, row: Record) -> None:
    """Write a cell's row; another process may be at work on other cells, and what was measured stays."""
    with FileLock(folder / ".league.lock"):
        rows = {cell["name"]: cell for cell in _written(folder)["cells"]}
        if "rows" in row or row["name"] not in rows:
            rows[row["name"]] = row
        document = {"format": FORMAT, "version": VERSION, "cells": list(rows.values())}
        write_text(folder / "league.json", to_json(plain(document)) + "\n")


def _written(folder: Path) -> Record:
    path = folder / "league.json"
    return from_json(read_text(path), repr(str(path))) if path.exists() else {"cells": []}


def _slug(method: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in method)
