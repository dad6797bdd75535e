"""The experiments' figures, PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slalom.errors import MissingExtraError
from slalom_lab.experiments._shared.outcome import Row, RunSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "figure.png"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#999999")


def figure(width: float = 6.4, height: float = 4.0) -> Figure:
    """An empty figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing the figures") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(picture: Figure, settings: RunSettings) -> str | None:
    """Write a figure into the experiment's folder, if there is one; the file's name."""
    if settings.out is None:
        return None
    settings.out.mkdir(parents=True, exist_ok=True)
    picture.savefig(settings.out / NAME, dpi=110)
    picture.savefig((settings.out / NAME).with_suffix(".svg"), metadata={"Date": None})
    return NAME


def lines(
    ax: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, dashed: Sequence[str] = ()
) -> None:
    """Curves by name; those named in `dashed` are references."""
    for place, (name, (x, y)) in enumerate(curves.items()):
        style = "--" if name in dashed else "-"
        colour = "black" if name in dashed else COLOURS[place % len(COLOURS)]
        ax.plot(x, y, style, marker=None if name in dashed else "o", markersize=3, color=colour, label=name)
    ax.legend(frameon=False, fontsize=8)


def columns(rows: Sequence[Row], title: str) -> Figure:
    """Bars of every measure with standard errors, a group for each model; the paper's numbers as crosses."""
    measures = list(dict.fromkeys(row.measure for row in rows))
    models = list(dict.fromkeys(str(row.where["model"]) for row in rows))
    picture = figure(7.5, 1.2 + 0.28 * len(measures) * len(models))
    ax = picture.subplots()
    height = 0.8 / len(models)
    for place, model in enumerate(models):
        own = {row.measure: row for row in rows if row.where["model"] == model and row.ours is not None}
        y = [measures.index(name) + height * (place - (len(models) - 1) / 2) for name in own]
        errors = [row.error or 0.0 for row in own.values()]
        colour = COLOURS[place % len(COLOURS)]
        ax.barh(y, [row.ours or 0.0 for row in own.values()], height, xerr=errors, color=colour, label=model)
        known = [(row.paper, at) for row, at in zip(own.values(), y, strict=True) if row.paper is not None]
        if known:
            ax.plot(*zip(*known, strict=True), "kx", markersize=5, label="paper" if place == 0 else None)
    ax.set_yticks(range(len(measures)), measures)
    ax.invert_yaxis()
    ax.set_xlabel(title)
    picture.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return picture


def plain(text: str) -> str:
    """A token as text that matplotlib does not take for mathematics."""
    return text.strip().replace("$", r"\$")
