"""Value against importance as an inline SVG picture."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

from slalom.explanation import Explanation
from slalom.tokens import FloatArray
from slalom.view import sentences
from slalom.view.text import label

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 46
_LABELS = 14
_LETTER = 6.6
"""Width of a letter of a label in the picture's units, about."""


class Axis(NamedTuple):
    """A linear scale from data to the picture, with round ticks."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, about: int = 6) -> list[float]:
        step = _round_step((self.high - self.low) / about)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step) + 1)]


class Box(NamedTuple):
    """Where a label would stand."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def scatter(explanation: Explanation) -> str:
    """One dot for each token at (value, importance), the strongest named; "" without these scores."""
    if not {"value", "importance"} <= set(explanation.scores):
        return ""
    places = _distinct(explanation)
    if not places:
        return ""
    xs, ys = explanation.values[places], explanation.importances[places]
    x = _axis(xs, _LEFT, WIDTH - _RIGHT)
    y = _axis(ys, HEIGHT - _BOTTOM, _TOP)
    dots = [(x(a), y(b)) for a, b in zip(xs.tolist(), ys.tolist(), strict=True)]
    parts = [*_grid(x, y), *_dots(explanation, places, dots), *_names(explanation, places, dots)]
    title = escape(f"Value and importance of each token, for {label(explanation.target)}")
    return (
        f'<svg class="scatter" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
        f"{''.join(parts)}</svg>"
    )


def _distinct(explanation: Explanation) -> list[int]:
    """Finite positions, strongest first; copies of a token with the same scores are one dot."""
    seen: dict[tuple[str, float, float], int] = {}
    for i in sentences.order(explanation):
        at = float(explanation.values[i]), float(explanation.importances[i])
        if all(map(math.isfinite, at)):
            seen.setdefault((explanation.tokens.strings[i], *at), i)
    return list(seen.values())


def _axis(values: FloatArray, start: float, end: float) -> Axis:
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    margin = 0.06 * (high - low) or 1.0
    return Axis(low - margin, high + margin, start, end)


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)


def _grid(x: Axis, y: Axis) -> list[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    for tick in x.ticks():
        kind = "zero" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(tick)}" x2="{x(tick)}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(
            f'<text class="tick" x="{x(tick)}" y="{bottom + 17}" text-anchor="middle">{_tick(tick)}</text>'
        )
    for tick in y.ticks():
        kind = "zero" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{right}" y1="{y(tick)}" y2="{y(tick)}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 7}" y="{y(tick) + 4}" text-anchor="end">{_tick(tick)}</text>'
        )
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text class="axis" x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        "value: what the token says on its own</text>"
        f'<text class="axis" x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        "importance: how much it counts</text>"
    )
    return parts


def _tick(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _dots(explanation: Explanation, places: list[int], dots: list[tuple[float, float]]) -> list[str]:
    ranked = explanation.score()
    # Weakest first, so that the strong ones lie on top.
    return [
        f'<circle class="{"n" if ranked[i] < 0 else "p"}" cx="{cx}" cy="{cy}" r="4.5">'
        f"<title>{escape(label(explanation.tokens.strings[i]))}</title></circle>"
        for i, (cx, cy) in reversed(list(zip(places, dots, strict=True)))
    ]


def _names(explanation: Explanation, places: list[int], dots: list[tuple[float, float]]) -> list[str]:
    """Names of the strongest tokens, each where it covers neither another name nor a named dot."""
    taken = [Box(cx - 5, cy - 5, cx + 5, cy + 5) for cx, cy in dots[:_LABELS]]
    parts = []
    for i, (cx, cy) in list(zip(places, dots, strict=True))[:_LABELS]:
        name = label(explanation.tokens.strings[i])
        name = name if len(name) <= 24 else name[:23] + "…"
        found = _free(cx, cy, len(name) * _LETTER, taken)
        if found is not None:
            box, anchor = found
            taken.append(box)
            at = {"start": box.left, "end": box.right, "middle": cx}[anchor]
            parts.append(
                f'<text class="name" x="{at:.1f}" y="{box.bottom - 3.5:.1f}" text-anchor="{anchor}">'
                f"{escape(name)}</text>"
            )
    return parts


def _free(cx: float, cy: float, width: float, taken: list[Box]) -> tuple[Box, str] | None:
    lefts = {"start": cx + 7, "end": cx - 7 - width, "middle": cx - width / 2}
    tries = [("start", cy - 7), ("end", cy - 7), ("middle", cy - 20), ("middle", cy + 6)]
    tries += [("start", cy - 17), ("end", cy - 17), ("start", cy + 3), ("end", cy + 3)]
    for anchor, top in tries:
        box = Box(lefts[anchor], top, lefts[anchor] + width, top + 14)
        inside = box.left >= _LEFT and box.right <= WIDTH and box.top >= 0 and box.bottom <= HEIGHT - _BOTTOM
        if inside and not any(box.meets(other) for other in taken):
            return box, anchor
    return None
