"""The experiments' figures, PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slalom.errors import MissingExtraError
from slalom.experiments.outcome import Settings

NAME = "figure.png"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#999999")


def figure(width: float = 6.4, height: float = 4.0) -> Any:
    """An empty figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing the figures") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(picture: Any, settings: Settings) -> str | None:
    """Write a figure into the experiment's folder, if there is one; the file's name."""
    if settings.out is None:
        return None
    settings.out.mkdir(parents=True, exist_ok=True)
    picture.savefig(settings.out / NAME, dpi=150)
    picture.savefig((settings.out / NAME).with_suffix(".svg"), metadata={"Date": None})
    return NAME


def lines(
    ax: Any, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, dashed: Sequence[str] = ()
) -> None:
    """Curves by name; those named in `dashed` are references."""
    for place, (name, (x, y)) in enumerate(curves.items()):
        style = "--" if name in dashed else "-"
        colour = "black" if name in dashed else COLOURS[place % len(COLOURS)]
        ax.plot(x, y, style, marker=None if name in dashed else "o", markersize=3, color=colour, label=name)
    ax.legend(frameon=False, fontsize=8)


def bars(ax: Any, heights: Mapping[str, tuple[float, float | None]]) -> None:
    """Horizontal bars by name, with standard errors."""
    names = list(heights)
    values = [heights[name][0] for name in names]
    errors = [heights[name][1] or 0.0 for name in names]
    ax.barh(names, values, xerr=errors, color=COLOURS[0], error_kw={"elinewidth": 0.8, "ecolor": "0.4"})
    ax.invert_yaxis()
