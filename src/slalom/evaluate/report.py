"""The files that tell a reader what an evaluation found."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slalom.evaluate.figures import draw
from slalom.evaluate.page import render
from slalom.evaluate.results import write_parquet
from slalom.evaluate.store import TABLE
from slalom.evaluate.table import Table, missing, report
from slalom.evaluate.verdict import verdict
from slalom.files import plain, write_text

COMPARISONS, PAGE = "comparisons.parquet", "report.html"


def write_report(
    table: Table, out: str | os.PathLike[str], *, command: str | None = None, figures: bool = True
) -> list[Path]:
    """Write table.md, report.html, comparisons.parquet and the figures; the paths of the files.

    command: the command line that made the results, to stand in the report.
    """
    folder = Path(out)
    columns: dict[str, type] = {"protocol": str, "number": str, "leader": str, "method": str}
    columns |= {"difference": float, "low": float, "high": float, "p": float, "n": int}
    columns |= {"leader_tokens": float, "method_tokens": float, "leader_backwards": float}
    columns |= {"method_backwards": float}
    write_parquet(folder / COMPARISONS, columns, comparisons(table))
    write_text(folder / TABLE, report(table, command))
    drawn = draw(table, folder) if figures else []
    write_text(folder / PAGE, render(table, [path for path in drawn if path.suffix == ".png"]))
    return [folder / TABLE, folder / COMPARISONS, folder / PAGE, *drawn]


def comparisons(table: Table) -> list[dict[str, Any]]:
    """The leader of every number against each other method: difference, interval, p, and what both cost."""
    return [
        {"protocol": protocol, "number": number, "leader": standing.leader, "method": method}
        | asdict(difference)
        | _asked(table, "leader", standing.leader)
        | _asked(table, "method", method)
        for (protocol, number), standing in table.standings.items()
        for method, difference in standing.differences.items()
    ]


def _asked(table: Table, role: str, method: str) -> dict[str, float]:
    return {f"{role}_{name}": table.costs[method][name].mean for name in ("tokens", "backwards")}


def document(table: Table) -> dict[str, Any]:
    """The whole report as one JSON document."""
    results = table.results
    numbers = [
        {
            "protocol": number[0],
            "number": number[1],
            "good": results.numbers[number],
            "methods": {
                method: asdict(cell) | {"best_or_tied": table.leads(number, method)}
                for method, cell in cells.items()
            },
        }
        for number, cells in table.cells.items()
    ]
    gone = [
        {
            "status": status,
            "protocol": protocol or None,
            "method": method,
            "reason": reason,
            "documents": count,
        }
        for (status, protocol, method, reason), count in missing(results).items()
    ]
    costs = {method: {name: cell.mean for name, cell in cost.items()} for method, cost in table.costs.items()}
    return plain(
        {
            "format": "slalom-evaluation-report",
            "version": 1,
            "settings": results.settings,
            "documents": len(results.finished),
            "seconds": results.wall,
            "verdict": verdict(table),
            "numbers": numbers,
            "cost": costs,
            "skipped_and_failed": gone,
        }
    )
