"""The scaling tables as one picture."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FILE = "scaling.png"
_COLOUR = "#0072b2"


def draw(part: Mapping[str, Any] | None, folder: Path) -> bool:
    """Draw scaling.png where there is something to draw and matplotlib is installed; whether it was drawn."""
    if not part or "tables" not in part or find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    tables = part["tables"]
    figure = Figure(figsize=(3.2 * len(tables), 2.8), layout="constrained")
    for axes, table in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
        x = [row["x"] for row in table["rows"]]
        middle = [row["seconds"]["median"] for row in table["rows"]]
        low = [row["seconds"]["low"] for row in table["rows"]]
        high = [row["seconds"]["high"] for row in table["rows"]]
        axes.fill_between(x, low, high, color=_COLOUR, alpha=0.2, linewidth=0)
        axes.plot(x, middle, "o-", color=_COLOUR, markersize=4)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(table["of"].replace(" (", "\n("), fontsize=8)
        axes.set_ylabel("seconds", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(color="0.9")
    figure.savefig(folder / FILE, dpi=150)
    return True
