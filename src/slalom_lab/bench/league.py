"""The league table: every method × models and data sets × protocols × budgets, with what each cost.

A cell is a model on a data set. Its results lie in a folder of their own, by method and document, so that the
same command continues where it was interrupted; a method that is added or measured again later is run on its
own, on the same documents, and takes its row. What a cell needs and does not find (a model, a data set) is
said in the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock

from slalom.api import Explainer
from slalom.errors import SlalomError
from slalom.evaluate import parse_methods, store
from slalom.evaluate.run import Progress, evaluate
from slalom.evaluate.table import Table
from slalom.files import Record, from_json, make_folder, plain, read_text, to_json, write_text
from slalom.outside import is_outside
from slalom_lab.bench import league_origin, league_rows
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
LEFT_OUT = {
    "gam": "an additive surrogate, as lasso and lime are, with a weight for every place besides",
    "linear": "an additive surrogate, as lasso and lime are",
    "naive_bayes": "explains labelled texts and not the model",
    "shapley_sampling": "Shapley values, as kernel_shap and partition_shap estimate them",
    "slalom_ana": "the paper's closed form, exact where the model is a SLALOM; slalom stands for it",
    "slalom_fidelity": "the paper's fit near the whole text; slalom stands for it",
    "slalom_sgd": "the paper's algorithm; slalom stands for it",
}
"""Methods of the library that have no row, and why; `--methods` gives them one."""
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
    only: Sequence[str] | None = None,
    again: Sequence[str] = (),
    earlier: Record | None = None,
    limit: int | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    open_model: Callable[[LeagueCell, Mapping[str, str]], Explainer] | None = None,
    progress: Callable[[str], Progress | None] | None = None,
    command: str | None = None,
) -> Record:
    """Run what is missing, and give the table of everything that is there; it is written to league.json.

    models: directories by name. methods: further ones, beside METHODS. only: run no others than these.
    again: forget what was measured of these, first. Both name a method with its options, or all of its
    variants ("lime"). earlier: a league.json, whose cells stay where this folder has none. limit: documents
    of a cell, in place of its own number. command: what the table says that its rows were made by.

    Rows that another process is at work on are left to it, with a warning.
    """
    if methods:
        parse_methods(methods)  # a file or a function that is not there is told before any model is opened
    folder = make_folder(out)
    for cell in (earlier or {"cells": []})["cells"]:
        _add(folder, cell, keep=True)
    for cell in cells:
        usual = usual_methods(cell)
        wanted = [*usual, *(m for m in methods if m not in usual)]
        own, chosen = folder / cell.name, [m for m in wanted if only is None or among(m, only)]
        league_rows.forget(own, [method for method in wanted if among(method, again)])
        try:
            explainer = (open_model or opened)(cell, models or {})
            found = league_rows.named(documents(cell, limit or cell.documents, seed, data_dir))
        except SlalomError as error:
            _add(folder, _row(cell) | _known(own, wanted, str(error)))
            continue
        here = store.here(explainer.model) | {"seed": seed}
        lacking = league_rows.lacking(league_rows.load(own, here), found, chosen)
        for group, texts in lacking.items():
            watch = progress(f"{cell.name} {', '.join(group)}") if progress else None
            named = {"source": f"{cell.data} ({cell.split})", "progress": watch}
            where = make_folder(own / league_rows.run_name(group))
            with league_rows.spared(f"{cell.name}: {', '.join(group)} not run"):
                with store.locked(where):
                    league_origin.note(where, [league_origin.origin(command)])
                evaluate(explainer, texts, group, PROTOCOLS, where, seed=seed, cut=cell.cut, **named)
        _add(folder, _row(cell) | _known(own, wanted, "none of its methods was asked for"))
    return _written(folder)


def _known(own: Path, order: Sequence[str], missing: str) -> Record:
    """What the folder of a cell shows, or why nothing."""
    found = league_rows.load(own)
    if found is None:
        return {"not_run": missing}
    made = league_origin.made_by(league_rows.runs(own))
    return _measured(Table(league_rows.shared(found, order))) | {"made": made}


def among(method: str, names: Sequence[str]) -> bool:
    """Whether a method is named, itself or with all its variants."""
    return method in names or method.partition(":")[0] in names


def usual_methods(cell: LeagueCell) -> list[str]:
    """The methods that every cell has; on a dear one without DEAR, outside torch without INSIDE."""
    kept = [m for m in METHODS if cell.inside or m.partition(":")[0] not in INSIDE]
    return [m for m in kept if m not in cell.without and not (cell.dear and m in DEAR)]


def family(method: str) -> str:
    """What is one curve of quality against cost: a method without its budget and effort."""
    name, *options = method.split(":")
    kept = [o for o in options if not o.startswith(("budget=", "effort="))]
    return ":".join([name, *kept])


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
        name, numbers = table.results.settings["methods"][method]["method"], {}
        for number in shown:
            cell = table.cells[number].get(method)
            if cell is not None:
                numbers[" ".join(number)] = asdict(cell) | {"tied": table.leads(number, method)}
        rows.append(
            {"method": method, "family": family(method), "outside": is_outside(name), "numbers": numbers}
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


def _add(folder: Path, row: Record, *, keep: bool = False) -> None:
    """Write a cell's row; another process may be at work on other cells, and what was measured stays.

    keep: also where the new row was measured, too; and why a cell was not run here.
    """
    with FileLock(folder / ".league.lock"):
        rows = {cell["name"]: cell for cell in _written(folder)["cells"]}
        there = rows.get(row["name"], {})
        if not _stays(there, row, keep):
            rows[row["name"]] = row
        document = {"format": FORMAT, "version": VERSION, "cells": list(rows.values())}
        write_text(folder / "league.json", to_json(plain(document)) + "\n")


def _stays(there: Record, row: Record, keep: bool) -> bool:
    if "rows" in there:
        return keep or "rows" not in row
    return keep and bool(there) and "rows" not in row


def _written(folder: Path) -> Record:
    path = folder / "league.json"
    return from_json(read_text(path), repr(str(path))) if path.exists() else {"cells": []}
