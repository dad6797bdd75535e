"""The chart of a corpus: value against importance of its token types, as an SVG without a script."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from slalom.tokens import FloatArray
from slalom.view.tables import Table
from slalom.view.text import label

WIDTH, HEIGHT = 520.0, 430.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 14.0, 14.0, 44.0
DOTS = 300
"""Token types in the chart, the strongest."""
NAMES = 30
_LETTER = 7.0
"""About the width of a letter."""
Box = tuple[float, float, float, float]


def chart(table: Table) -> str:
    """Empty where the method has no values and importances."""
    if not {"value", "importance"} <= set(table.scores):
        return '<p class="note">This method has no values and importances.</p>'
    rows = np.arange(min(DOTS, len(table)))
    x, y = np.nan_to_num(table.scores["value"][rows]), np.nan_to_num(table.scores["importance"][rows])
    across, down = _scale(x, _LEFT, WIDTH - _RIGHT), _scale(y, HEIGHT - _BOTTOM, _TOP)
    places = np.stack([across[0] + across[1] * x, down[0] + down[1] * y], axis=1)
    sizes = np.clip(
        2.2 * np.sqrt(table.documents[rows] / max(float(np.median(table.documents[rows])), 1.0)), 2, 9
    )
    dots = "".join(
        f'<circle class="dot {"n" if x[i] < 0 else "p"}" cx="{places[i, 0]:.1f}" cy="{places[i, 1]:.1f}" '
        f'r="{sizes[i]:.1f}"><title>{escape(label(table.tokens[i]))}: value {x[i]:+.2f}, '
        f"importance {y[i]:+.2f}</title></circle>"
        for i in reversed(range(len(rows)))
    )
    what = f"Value and importance of the {len(rows)} strongest token types; the lists hold the numbers"
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{what}">'
        f"{_grid(x, y, across, down, table.label)}{dots}{_names(table, places, sizes)}</svg>"
        '<p class="legend">Right or left: what a word says on its own. High up: it counts. '
        "Larger: in more texts.</p>"
    )


def _scale(values: FloatArray, start: float, end: float) -> tuple[float, float]:
    """The line from a score to its place, wide enough for zero."""
    low, high = min(float(values.min(initial=0.0)), 0.0), max(float(values.max(initial=0.0)), 0.0)
    margin = 0.06 * (high - low) or 1.0
    slope = (end - start) / (high - low + 2 * margin)
    return start - slope * (low - margin), slope


def _ticks(line: tuple[float, float], start: float, end: float) -> list[float]:
    low, high = sorted(((start - line[0]) / line[1], (end - line[0]) / line[1]))
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _grid(
    x: FloatArray,  # noqa: ARG001
    y: FloatArray,  # noqa: ARG001
    across: tuple[float, float],
    down: tuple[float, float],
    target: str,
) -> str:
    floor, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    for tick in _ticks(across, _LEFT, right):
        at = across[0] + across[1] * tick
        kind = "zero" if tick == 0 else "gridline"
        parts.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{floor}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{floor + 16}" text-anchor="middle">{_number(tick)}</text>'
        )
    for tick in _ticks(down, floor, _TOP):
        at = down[0] + down[1] * tick
        kind = "zero" if tick == 0 else "gridline"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    name = escape(label(target)[:24])
    parts.append(
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"← against · value · for {name} →</text>"
        f'<text x="11" y="{floor / 2:.0f}" text-anchor="middle" transform="rotate(-90 11 {floor / 2:.0f})">'
        "importance →</text>"
    )
    return "".join(parts)


def _number(tick: float) -> str:
    return f"{tick:.6g}".replace("-", "−")


def _names(table: Table, places: FloatArray, sizes: FloatArray) -> str:
    """Names of the strongest, as many as find a free place beside their dots."""
    taken: list[Box] = [
        (px - r, py - r, px + r, py + r)
        for (px, py), r in zip(places[:60].tolist(), sizes.tolist(), strict=False)
    ]
    parts = []
    for i in range(min(NAMES, len(places))):
        name = label(table.tokens[i])[:24]
        (px, py), r, width = places[i].tolist(), float(sizes[i]), _LETTER * len(name)
        tries = [("start", px + r + 3, px + r + 3), ("end", px - r - 3, px - r - 3 - width)]
        for anchor, at, left in tries:
            box = (left, py - 7, left + width, py + 7)
            inside = left >= _LEFT and left + width <= WIDTH
            if inside and not any(_meet(box, other) for other in taken if other != taken[i]):
                taken.append(box)
                parts.append(
                    f'<text class="name" x="{at:.1f}" y="{py + 4:.1f}" text-anchor="{anchor}">'
                    f"{escape(name)}</text>"
                )
                break
    return "".join(parts)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
