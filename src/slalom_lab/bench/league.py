"""The league table: every method × models and data sets × protocols × budgets, with what each cost.

A cell is a model on a data set. Its results lie in a folder of their own, document by document, so that the
same command continues where it was interrupted; a method that is added later is run on its own, on the same
documents, and takes its row. What a cell needs and does not find (a model, a data set) is said in the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from slalom.api import Explainer
from slalom.data import read
from slalom.errors import SlalomError
from slalom.evaluate.results import Finished, Results
from slalom.evaluate.run import Progress, evaluate
from slalom.evaluate.table import Table
from slalom.files import Record, from_json, make_folder, plain, read_text, to_json, write_text

METHODS = (
    "slalom",
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
    "occlusion",
    "integrated_gradients",
    "gradient",
    "attention",
    "random",
)
INSIDE = ("integrated_gradients", "gradient", "attention")
"""Methods that need the torch module."""
PROTOCOLS = ("all_scales", "removals:masks=20", "deletion", "lds", "leave_one_out")
NUMBERS = (
    ("all_scales", "r2"),
    ("removals", "relative"),
    ("deletion", "aopc"),
    ("lds", "spearman"),
    ("leave_one_out", "spearman"),
)
"""What the table shows of the protocols."""
FORMAT, VERSION = "slalom-league", 1
DOCUMENTS = 100
"""Fewer than so many decide nothing; the table says where there are fewer."""


@dataclass(frozen=True)
class LeagueCell:
    """A model on a data set."""

    name: str
    title: str
    model: str
    """"bundled", a name for `--model NAME=DIR`, "train:DATA" (trained here, once) or "smollm2"."""
    data: str
    split: str = "test"
    cut: int = 128
    documents: int = DOCUMENTS
    inside: bool = True


CELLS = (
    LeagueCell("bundled-sst2", "bundled model, phrases of SST-2", "bundled", "sst2", "validation"),
    LeagueCell("bundled-imdb", "bundled model, IMDB reviews", "bundled", "imdb"),
    LeagueCell("encoder-yelp", "6-layer encoder (MiniLM) fine-tuned on Yelp", "encoder", "yelp"),
    LeagueCell("gpt2-imdb", "small GPT-2 trained on IMDB", "gpt2", "imdb"),
    LeagueCell("agnews", "AG News, four classes, 2-layer DistilBERT trained here", "train:agnews", "agnews"),
    LeagueCell("hatexplain", "HateXplain, three classes, likewise", "train:hatexplain", "hatexplain"),
    LeagueCell("long-imdb", "bundled model, whole IMDB reviews", "bundled", "imdb", cut=400),
    LeagueCell(
        "smollm2-sst2", "SmolLM2-135M, prompted, SST-2", "smollm2", "sst2", "validation", inside=False
    ),
)


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

    models: directories by name. methods: further ones, beside METHODS. limit: documents of a cell, fewer than
    its own number.
    """
    folder = make_folder(out)
    before = {cell["name"]: cell for cell in _written(folder)["cells"]}
    for cell in cells:
        documents = min(cell.documents, limit or cell.documents)
        try:
            explainer = (open_model or opened)(cell, models or {})
            found = read(
                cell.data, split=cell.split, limit=documents, seed=seed, data_dir=data_dir, on_bad="skip"
            )
        except SlalomError as error:
            before.setdefault(cell.name, _row(cell) | {"not_run": str(error)})
            continue
        results = []
        usual = [m for m in METHODS if cell.inside or m.partition(":")[0] not in INSIDE]
        extra = [m for m in methods if m not in usual]
        for group in (usual, *([m] for m in extra)):
            watch = progress(cell.name if group is usual else f"{cell.name} {group[0]}") if progress else None
            where = folder / cell.name / ("usual" if group is usual else _slug(group[0]))
            named = {"source": f"{cell.data} ({cell.split})", "progress": watch}
            results.append(
                evaluate(explainer, found, group, PROTOCOLS, where, seed=seed, cut=cell.cut, **named)
            )
        before[cell.name] = _row(cell) | _measured(Table(_merged(results)))
        _write(folder, before)
    _write(folder, before)
    return _written(folder)


def opened(cell: LeagueCell, models: Mapping[str, str]) -> Explainer:
    """The model of a cell: given, bundled, or trained once and kept."""
    if cell.model == "bundled":
        return Explainer()
    if cell.model in models:
        return Explainer(models[cell.model])
    kind, _, data = cell.model.partition(":")
    if kind != "train":
        raise SlalomError(f"no model was given for this cell: --model {cell.model}=DIR")
    from slalom_lab.training import Network, TrainSettings, cached

    shape = Network("distilbert", layers=2, width=128)
    settings = TrainSettings(data=data, model=shape, limit=8000, epochs=3, length=128)
    return Explainer(os.fspath(cached(settings)))


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
    return {"name": cell.name, "title": cell.title, "data": cell.data, "cut": cell.cut}


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
            {"method": method, "family": family(method), "numbers": numbers}
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


def _write(folder: Path, cells: Mapping[str, Record]) -> None:
    document = {"format": FORMAT, "version": VERSION, "cells": list(cells.values())}
    write_text(folder / "league.json", to_json(plain(document)) + "\n")


def _written(folder: Path) -> Record:
    path = folder / "league.json"
    return from_json(read_text(path), repr(str(path))) if path.exists() else {"cells": []}


def _slug(method: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in method)
