# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Explanations as matplotlib pictures. Functions take axes or make some, give them back and show nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom.checks import at_least_one
from slalom.compare import Comparison, correlations
from slalom.compare import explained as _explained
from slalom.errors import InputError, MissingExtraError
from slalom.explanation import Explanation
from slalom.tokens import FloatArray
from slalom.view import Run, label, runs, spellings, strength, visible
from slalom.view.sentences import NO_SIDE, kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

BLUE, ORANGE, VIOLET = "#2563eb", "#e15308", "#7c3aed"
_NAMES = 30
"""Dots that get a name at most."""
_LONGEST = 24
_LINE = 60
"""Letters of text in one line of `highlight`."""
_HIGH = 20
"""Points from one line to the next."""


def scatter(explanation: Explanation, *, ax: Axes | None = None, errors: bool = False) -> Axes:
    """Value and importance of every token type (the paper's Fig. 5); larger dots stand there more often.

    `errors` draws the standard errors. Copies of a token that differ stand at their mean.
    """
    ax, explanation = _axes(ax), explanation.shown
    x, y, sizes, strongest = _types(explanation)
    colours = [ORANGE if value < 0 else BLUE for value in x]
    ax.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    if errors and {"value", "importance"} <= set(explanation.stderr):
        wide, tall = (_by_type(explanation, explanation.stderr[name] ** 2) ** 0.5 for name in _PLANE)
        ax.errorbar(x, y, xerr=wide, yerr=tall, fmt="none", ecolor="0.75", elinewidth=0.8, zorder=1)
    ax.scatter(x, y, s=sizes, c=colours, alpha=0.75, linewidths=0, zorder=2)
    ax.set_xlabel(f"value: speaks for {_plain(explanation.target)}", **_TEXT)
    ax.set_ylabel("importance: how much it counts")
    names = spellings(explanation.tokens)
    _name(ax, [(_plain(names[i]), x[i], y[i]) for i in strongest])
    return ax


def bar(explanation: Explanation, *, score: str | None = None, top: int = 15, ax: Axes | None = None) -> Axes:
    """The tokens with the largest scores, strongest on top, with standard errors where there are some."""
    at_least_one(top=top)
    explanation, name = explanation.shown, explanation.ranking if score is None else score
    scores = explanation.score(name)
    order = np.argsort(-np.abs(np.nan_to_num(scores)), kind="stable")[:top]
    ax = _axes(ax)
    places = np.arange(len(order))
    stderr = explanation.stderr.get(name)
    ax.barh(
        places,
        scores[order],
        xerr=None if stderr is None else stderr[order],
        color=[_ink(explanation, name, float(scores[i])) for i in order],
        error_kw={"elinewidth": 0.8, "ecolor": "0.4"},
    )
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_yticks(places, [_plain(explanation.tokens.strings[i]) for i in order], **_TEXT)
    ax.invert_yaxis()
    said = f"for {_plain(explanation.target)}" if explanation.signed(name) else NO_SIDE
    ax.set_xlabel(f"{visible(name)}, {said}", **_TEXT)
    return ax


def waterfall(
    explanation: Explanation, *, score: str | None = None, top: int = 10, ax: Axes | None = None
) -> Axes:
    """How the scores of the tokens add up to the output: the strongest one by one, the others together.

    It starts at what is not shared out among the tokens (of SLALOM, the background).
    """
    explanation, name = explanation.shown, explanation.ranking if score is None else score
    at_least_one(top=top)
    if not explanation.signed(name):
        raise InputError(f"a waterfall adds scores up, but {name!r} {NO_SIDE}; use kind='bar'")
    scores = np.nan_to_num(explanation.score(name))
    order = np.argsort(-np.abs(scores), kind="stable")[:top]
    steps = [(_plain(explanation.tokens.strings[i]), float(scores[i])) for i in order]
    if len(order) < len(scores):
        others = float(scores.sum() - scores[order].sum())
        steps.append((f"{len(scores) - len(order)} other {kinds(explanation)}", others))
    start = explanation.output - float(scores.sum())
    ends = start + np.cumsum([step for _, step in steps])
    ax = _axes(ax)
    places = np.arange(len(steps))
    colours = [_ink(explanation, name, step) for _, step in steps]
    ax.barh(places, [step for _, step in steps], left=[start, *ends[:-1]], color=colours)
    ax.vlines(ends[:-1], places[:-1] - 0.4, places[1:] + 0.4, color="0.6", linewidth=0.8)
    ax.axvline(start, color="0.7", linewidth=0.8, linestyle=":")
    ax.axvline(explanation.output, color="0.4", linewidth=0.8)
    ax.set_yticks(places, [step for step, _ in steps], **_TEXT)
    ax.invert_yaxis()
    ax.use_sticky_edges = False  # bars that end at the edge still have some air
    ax.set_xlabel(f"{visible(name)}, added up to the score of {_plain(explanation.target)}", **_TEXT)
    return ax


def highlight(explanation: Explanation, *, score: str | None = None, ax: Axes | None = None) -> Axes:
    """The text, each token on a ground that follows its score: blue for the target, orange against it.

    Violet where the score does not say for or against.
    """
    ax, explanation = _axes(ax), explanation.shown
    scores = explanation.score(score)
    pieces = [run for run in runs(explanation.tokens) if not run.cut]
    shares = strength(np.array([scores[list(run.positions)].sum() for run in pieces], dtype=float))
    inks = [_ink(explanation, score, share) for share in (1.0, -1.0)]
    for row, line in enumerate(_lines(pieces, shares)):
        _write(ax, line, row, inks)
    ax.set_axis_off()
    return ax


def curves(
    by_method: Mapping[str, FloatArray], *, step: int = 5, kind: str = "deletion", ax: Axes | None = None
) -> Axes:
    """Curves (`evaluate.protocols.deletion.curve`) by method: the probability by the number of tokens kept.

    kind: "deletion" where the lowest were kept, "insertion" where the highest were.
    """
    if kind not in ("deletion", "insertion"):
        raise InputError(f"kind must be 'deletion' or 'insertion'; got {kind!r}")
    at_least_one(step=step)
    ax = _axes(ax)
    for name, values in by_method.items():
        shown = np.asarray(values, dtype=float)
        ax.plot(step * np.arange(1, len(shown) + 1), shown, marker="o", markersize=3, label=_plain(name))
    ax.set_ylim(-0.02, 1.02)
    which = "weakest" if kind == "deletion" else "strongest"
    ax.set_xlabel(f"tokens kept, the {which} ones ({kind})")
    ax.set_ylabel("probability of the explained label")
    if by_method:
        _plain_text(ax.legend(frameon=False).get_texts())
    return ax


def compare(comparison: Comparison, *, signed: bool = False, ax: Axes | None = None) -> Axes:
    """How far the rankings of several methods agree: Spearman's rank correlation of each pair."""
    names = [_plain(name) for name in _explained(comparison)]
    if not names:
        raise InputError("none of the methods gave an explanation; there is nothing to compare")
    table = correlations(comparison, signed)
    ax = _axes(ax)
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("slalom", [ORANGE, "white", BLUE])
    picture = ax.imshow(table, cmap=colours, vmin=-1, vmax=1)
    places = np.arange(len(names))
    ax.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor", **_TEXT)
    ax.set_yticks(places, names, **_TEXT)
    for (row, column), value in np.ndenumerate(table):
        ink = "white" if abs(value) > 0.7 else "black"
        shown = "–" if np.isnan(value) else f"{value:.2f}".replace("-", "−")
        ax.text(column, row, shown, ha="center", va="center", color=ink, fontsize=7)
    what = "scores with their signs" if signed else "sizes of the scores"
    bar_of = ax.get_figure()
    if bar_of is not None:
        bar_of.colorbar(picture, ax=ax, label=f"rank correlation of the {what}")
    return ax


_PLANE = ("value", "importance")
Options = dict[str, Any]
"""Of matplotlib's functions."""
_TEXT: Options = {"parse_math": False}
"""A dollar sign in a token is a dollar sign, not the start of a formula."""


def _axes(ax: Axes | None) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "slalom.view.plot") from error
    if ax is not None:
        return ax
    from matplotlib import pyplot

    figure: Figure = pyplot.figure(layout="constrained")
    return figure.add_subplot()


def _plain(text: str) -> str:
    shown = label(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _name(ax: Axes, dots: list[tuple[str, float, float]]) -> None:
    """Names beside the first dots, those left out that would cover another name."""
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.draw_without_rendering()  # the layout settles, so that what is measured is what is drawn
    taken: list[Bbox] = []
    for name, x, y in dots:
        if len(taken) == _NAMES or not np.isfinite([x, y]).all():
            continue
        note = ax.annotate(name, (x, y), xytext=(5, 3), textcoords="offset points", fontsize=8, **_TEXT)
        note.set_in_layout(False)
        box = note.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            note.remove()
        else:
            taken.append(box)


def _plain_text(texts: Iterable[Text]) -> None:
    for text in texts:
        text.set_parse_math(False)


def _types(explanation: Explanation) -> tuple[FloatArray, FloatArray, FloatArray, list[int]]:
    """Value, importance and dot size of every type, and the types by the size of the ranking score."""
    x, y = (_by_type(explanation, explanation.score(name)) for name in _PLANE)
    frequency = np.bincount(explanation.tokens.inverse, minlength=explanation.tokens.n_types)
    peak = np.zeros(len(frequency))
    np.maximum.at(peak, explanation.tokens.inverse, np.abs(np.nan_to_num(explanation.score())))
    return x, y, 22.0 * np.minimum(frequency, 12), np.argsort(-peak, kind="stable").tolist()


def _by_type(explanation: Explanation, scores: FloatArray) -> FloatArray:
    kinds = explanation.tokens.inverse
    return np.bincount(kinds, weights=scores) / np.bincount(kinds)


def _lines(pieces: list[Run], shares: FloatArray) -> list[list[tuple[str, float]]]:
    """Words and gaps with their shares, broken into lines between words."""
    lines: list[list[tuple[str, float]]] = [[]]
    for word in _words(pieces, shares):
        used = sum(len(shown) for shown, _ in lines[-1])
        if used and used + sum(len(shown) for shown, _ in word) > _LINE:
            lines.append([])
        lines[-1] += word
    return lines


def _words(pieces: list[Run], shares: FloatArray) -> list[list[tuple[str, float]]]:
    """Runs that stand together without a gap, and the gap behind them."""
    words: list[list[tuple[str, float]]] = [[]]
    for run, share in zip(pieces, shares.tolist(), strict=True):
        shown = visible(" ".join(run.text.splitlines()) if run.positions else " ")
        words[-1].append((shown, share if run.positions else 0.0))
        if not run.positions:
            words.append([])
    return words


def _ink(explanation: Explanation, name: str | None, score: float) -> str:
    if not explanation.signed(name):
        return VIOLET
    return ORANGE if score < 0 else BLUE


def _write(ax: Axes, line: list[tuple[str, float]], row: int, inks: list[str]) -> None:
    """One line; each piece starts where the one before it ends, whatever the font."""
    at: Annotation | None = None
    for shown, share in line:
        ground = (*_rgb(inks[share < 0]), 0.08 + 0.5 * abs(share)) if round(share, 2) else "none"
        box = {"facecolor": ground, "edgecolor": "none", "pad": 1.5}
        place: Options = {"xy": (1, 0.5), "xycoords": at}
        if at is None:
            place = {"xy": (0, 1), "xycoords": "axes fraction", "xytext": (3, -10 - _HIGH * row)}
            place["textcoords"] = "offset points"
        at = ax.annotate(
            shown,
            va="center",
            ha="left",
            family="monospace",
            fontsize=10,
            bbox=box,
            **place,
            **_TEXT,
        )


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def picture(explanation: Explanation, kind: str, options: Mapping[str, object]) -> Axes:
    """A matplotlib picture by name."""
    kinds: dict[str, Callable[..., Axes]] = {
        "bar": bar,
        "plane": scatter,
        "waterfall": waterfall,
        "text": highlight,
    }
    if kind not in kinds:
        raise InputError(f"there is no picture {kind!r:.40}; choose one of: {', '.join(kinds)}")
    return kinds[kind](explanation, **options)
