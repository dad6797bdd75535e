"""The results as figures, PNG and SVG: bars, quality against cost, deletion and insertion curves."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slalom.errors import MissingExtraError
from slalom.evaluate.table import Number, Table

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = "figures"
_OWN, _OTHER = "#0072b2", "#8c96a3"
_MARKS = "osD^vP*X"
_FAR = 30


def check_matplotlib() -> None:
    """Raise now if the figures could not be drawn later."""
    try:
        import matplotlib.figure  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing the figures") from error


def draw(table: Table, out: str | os.PathLike[str]) -> list[Path]:
    """Draw everything there is to draw into the folder `figures` of a directory; the paths of the files."""
    check_matplotlib()
    folder = Path(out) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Figure] = {}
    for name, pages in table.groups().items():
        shown = [page for page in (_common(table, page) for page in pages) if page]
        for place, page in enumerate(shown, 1):
            figures[name if len(shown) == 1 else f"{name}_{place}"] = _bars(table, page)
    if table.main and not all(np.isnan(cost["tokens"].mean) for cost in table.costs.values()):
        figures["quality_and_cost"] = _against_cost(table)
    if table.results.points:
        figures["curves"] = _curves(table)
    return [path for name, figure in figures.items() for path in _save(figure, folder / name)]


def _common(table: Table, numbers: Sequence[Number]) -> list[Number]:
    """The numbers that at least half of the methods have."""
    return [number for number in numbers if 2 * len(table.cells[number]) >= len(table.results.methods)]


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _bars(table: Table, numbers: Sequence[Number]) -> Figure:
    methods = [m for m in table.results.methods if any(m in table.cells[number] for number in numbers)]
    figure = _figure(2.2 + 2.4 * len(numbers), 1.2 + 0.28 * len(methods))
    axes = figure.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
    for axis, number in zip(axes, numbers, strict=True):
        cells = table.cells[number]
        for place, method in enumerate(methods):
            if method in cells:
                cell = cells[method]
                error = 0.0 if np.isnan(cell.stderr) else cell.stderr
                axis.barh(place, cell.mean, xerr=error, color=_colour(method), height=0.7, capsize=2)
        sizes = [abs(cell.mean) for cell in cells.values()]
        if max(sizes) > _FAR * float(np.median(sizes)) > 0:  # one method far off would hide all others
            axis.set_xscale("symlog", linthresh=float(np.median(sizes)))
        axis.set_title(table.head(number, short=True), fontsize=9)
        axis.axvline(0, color="black", linewidth=0.6)
        axis.tick_params(labelsize=8)
        _bare(axis)
    axes[0].set_yticks(range(len(methods)), methods)
    axes[0].invert_yaxis()
    figure.suptitle(f"{numbers[0][0]}: means and standard errors", fontsize=10)
    return figure


def _against_cost(table: Table) -> Figure:
    columns = min(3, len(table.main))
    rows = -(-len(table.main) // columns)
    figure = _figure(1.8 + 3.4 * columns, 3.0 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, number in zip(axes, table.main, strict=False):
        for place, (method, cell) in enumerate(table.cells[number].items()):
            asked, error = table.costs[method]["tokens"].mean, 0.0 if np.isnan(cell.stderr) else cell.stderr
            if np.isnan(asked):
                continue  # what it cost is not known
            style = {"color": _colours(table)[method], "marker": _MARKS[place % len(_MARKS)]}
            axis.errorbar(
                asked, cell.mean, yerr=error, linestyle="", capsize=2, markersize=5, label=method, **style
            )
        axis.set_xscale("symlog", linthresh=100)  # a method that asks nothing stands at 0
        axis.set_xlim(left=0)
        axis.set_title(table.head(number), fontsize=9)
        axis.tick_params(labelsize=8)
        _bare(axis)
    for axis in axes[len(table.main) :]:
        axis.remove()
    figure.supxlabel("tokens asked of the model for an explanation", fontsize=9)
    _legend(figure, axes)
    return figure


def _curves(table: Table) -> Figure:
    names = list(dict.fromkeys(point.curve for point in table.results.points))
    figure = _figure(1.8 + 3.8 * len(names), 3.6)
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        for method in table.results.methods:
            shares, heights = _mean_curve(table, name, method)
            if len(shares):
                own = method.startswith("slalom")
                style = {"linewidth": 2.0 if own else 1.0, "linestyle": "-" if own else "--"}
                axis.plot(shares, heights, color=_colours(table)[method], label=method, **style)
        kept = "weakest" if name == "deletion" else "strongest"
        axis.set_title(f"{name}: the {kept} tokens kept", fontsize=9)
        axis.set_xlabel("share of the tokens kept", fontsize=9)
        axis.tick_params(labelsize=8)
        _bare(axis)
    axes[0].set_ylabel("probability of the label", fontsize=9)
    _legend(figure, axes)
    return figure


def _mean_curve(table: Table, name: str, method: str) -> tuple[np.ndarray, np.ndarray]:
    heights: dict[float, list[float]] = {}
    for point in table.results.points:
        if (point.curve, point.method) == (name, method):
            heights.setdefault(point.kept, []).append(point.probability)
    shares = sorted(heights)
    return np.array(shares), np.array([np.mean(heights[share]) for share in shares])


def _colour(method: str) -> str:
    return _OWN if method.startswith("slalom") else _OTHER


def _colours(table: Table) -> dict[str, str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    palette = colormaps["tab20"]
    return {method: to_hex(palette(i % palette.N)) for i, method in enumerate(table.results.methods)}


def _bare(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Iterable[Axes]) -> None:
    found: dict[str, Artist] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(list(found.values()), list(found), loc="outside right upper", fontsize=8, frameon=False)


def _save(figure: Figure, path: Path) -> list[Path]:
    import matplotlib

    made = [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg")]
    with matplotlib.rc_context({"svg.hashsalt": "slalom"}):  # the same results give the same files
        figure.savefig(made[0], dpi=150)
        figure.savefig(made[1], metadata={"Date": None})
    return made
