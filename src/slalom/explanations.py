"""Several explanations: a list that shows itself, and those of windows or of coarse and fine units as one."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import ceil
from typing import TYPE_CHECKING, SupportsIndex, overload

import numpy as np
from scipy.special import expit, logit, softmax

from slalom.errors import InputError
from slalom.explanation import Cost, Explanation
from slalom.files import Record
from slalom.models.proxy import join
from slalom.scores import Level, Windows
from slalom.tokens import BoolArray, FloatArray, IntArray, Tokens

if TYPE_CHECKING:
    import pandas

_CLIP = 1e-12
_AS_IT_IS = ("value", "importance")
"""Scores that are not parts of the output: they do not shrink with the window's share of the text."""
_MATTER = 0.6
"""Units are looked at until they hold this share of all scores, by size …"""
_MOST = 1 / 3
"""… and never more than this share of the units, but for the first few."""
_LEAST = 3


class Explanations(list[Explanation]):
    """Explanations of several texts: a list that shows itself.

    Example:
        >>> import slalom
        >>> several = slalom.explain(["an honest film", "overlong and dull"], effort="fast")
        >>> several, [one.prediction for one in several]
        (<2 explanations; print them, or .show() them>, ['positive', 'negative'])
        >>> page, documents = several.to_html(), several.to_dict()  # several.show()
        >>> list(several.to_frame().columns[:2])
        ['document', 'token']
    """

    @overload
    def __getitem__(self, place: SupportsIndex) -> Explanation: ...

    @overload
    def __getitem__(self, place: slice) -> Explanations: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Explanation | Explanations:
        found = super().__getitem__(place)
        return Explanations(found) if isinstance(found, list) else found

    def __repr__(self) -> str:
        return f"<{len(self)} explanations; print them, or .show() them>"

    def __str__(self) -> str:
        """A line for each: the beginning of its text, and the answer."""
        from slalom.view import shown

        return shown.several_lines(self)

    def _repr_html_(self) -> str:
        from slalom.view import shown

        return shown.several_fragment(self)

    def show(self) -> None:
        """Show them here: a page in a notebook, a line for each in a terminal."""
        from slalom.view import shown

        shown.show_several(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page with all answers, each of which opens to its explanation.

        Args:
            path: where to write it, too.

        Returns:
            The page.
        """
        from slalom.view import shown

        return shown.several_page(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """All of them as one table.

        Returns:
            One row for each token of each text; the column `document` counts the texts.

        Raises:
            InputError: where there are none.
        """
        frames = [one.to_frame().assign(document=place) for place, one in enumerate(self)]
        if not frames:
            raise InputError("there are no explanations to make a frame of")
        import pandas

        frame = pandas.concat(frames, ignore_index=True)
        return frame.loc[:, ["document", *(name for name in frame.columns if name != "document")]]

    def to_dict(self) -> list[Record]:
        """The document of each.

        Returns:
            A list of dictionaries of JSON's own types.
        """
        return [one.to_dict() for one in self]


def combined(tokens: Tokens, windows: Sequence[Explanation], weights: FloatArray) -> Explanation:
    """One explanation of the windows' mean, weighted by their tokens; `tokens` are those of the text."""
    first = windows[0]
    if len(windows) == 1:
        return first
    surrogates = [one.surrogate for one in windows]
    known = [part for part in surrogates if part is not None and not isinstance(part, Windows)]
    names = [name for name in first.scores if all(name in one.scores for one in windows)]
    scores, errors = _scores([(one.scores, one.stderr) for one in windows], names, weights)
    return replace(
        first,
        tokens=join(tokens, [one.tokens for one in windows]),
        probabilities=_probabilities(windows, weights),
        output=float(weights @ [one.output for one in windows]),
        scores=scores,
        stderr=errors,
        surrogate=Windows(tuple(known), weights) if len(known) == len(windows) else None,
        fidelity=_fidelity(windows, weights),
        cost=added([one.cost for one in windows]),
        settings={**first.settings, "windows": [_said(one) for one in windows]},
        notes=tuple(dict.fromkeys(note for one in windows for note in one.notes)),
        classes={
            label: combined(tokens, [one.classes[label] for one in windows], weights)
            for label in first.classes
        },
        levels=_levels(windows, names, weights),
    )


def note(explanation: Explanation) -> str | None:
    """What a reader should know of a text in windows."""
    windows = explanation.settings.get("windows", ())
    if not windows:
        return None
    said = [window["prediction"] for window in windows]
    counts = ", ".join(f"{label} in {said.count(label)}" for label in dict.fromkeys(said))
    return (
        f"The text is longer than the model reads. It was read in {len(windows)} windows; the score is the "
        f"mean of theirs, weighted by their tokens. The model says {counts} of them."
    )


def _scores(
    parts: Sequence[tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]],
    names: Sequence[str],
    weights: FloatArray,
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Parts of a window's output become parts of the mean; importances count in the whole text."""
    scores: dict[str, FloatArray] = {}
    errors: dict[str, FloatArray] = {}
    for name in names:
        factors = np.ones(len(parts)) if name in _AS_IT_IS else weights
        each = [factor * own[name] for (own, _), factor in zip(parts, factors, strict=True)]
        if name == "importance":
            totals = [float(np.logaddexp.reduce(own)) for own in each]
            each = [
                own - total + np.log(share) for own, total, share in zip(each, totals, weights, strict=True)
            ]
        scores[name] = np.concatenate(each)
        if name == "importance":
            scores[name] -= scores[name].mean()
        if all(name in own for _, own in parts):
            errors[name] = np.concatenate(
                [factor * own[name] for (_, own), factor in zip(parts, factors, strict=True)]
            )
    return scores, errors


def _levels(windows: Sequence[Explanation], names: Sequence[str], weights: FloatArray) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for name in dict.fromkeys(name for one in windows for name in one.levels):
        parts = [
            one.levels.get(name) or Level(np.arange(len(one)), one.scores, one.stderr) for one in windows
        ]
        starts = np.cumsum([0, *(part.numbers[-1] + 1 for part in parts)])
        numbers = [part.numbers + start for part, start in zip(parts, starts, strict=False)]
        scores = _scores([(part.scores, part.stderr) for part in parts], names, weights)
        levels[name] = Level(np.concatenate(numbers), *scores)
    return levels


def _probabilities(windows: Sequence[Explanation], weights: FloatArray) -> FloatArray:
    """Those of the mean logits."""
    each = np.clip([one.probabilities for one in windows], _CLIP, 1 - _CLIP)
    if abs(float(windows[0].probabilities.sum()) - 1.0) < 1e-6:
        return softmax(weights @ np.log(each))
    return expit(weights @ logit(each))


def _fidelity(windows: Sequence[Explanation], weights: FloatArray) -> dict[str, float]:
    """The mean over windows; of queries, the sum."""
    shared = [name for name in windows[0].fidelity if all(name in one.fidelity for one in windows)]
    found = {name: float(weights @ [one.fidelity[name] for one in windows]) for name in shared}
    if "heldout_queries" in found:
        found["heldout_queries"] = float(sum(one.fidelity["heldout_queries"] for one in windows))
    return found


def _said(window: Explanation) -> Record:
    spans = window.tokens.spans
    return {
        "start": int(spans[0, 0]),
        "end": int(spans[-1, 1]),
        "tokens": sum(map(len, window.tokens.pieces)),
        "output": window.output,
        "prediction": window.prediction,
        "probability": float(window.probabilities.max()),
    }


def that_matter(windows: Sequence[Explanation], weights: FloatArray) -> list[BoolArray]:
    """For each window, which of its units matter; the strongest of the whole text come first."""
    sizes = [weight * np.abs(one.score()) for one, weight in zip(windows, weights, strict=True)]
    every = np.concatenate(sizes)
    order = np.argsort(-every, kind="stable")
    reached = np.cumsum(every[order])
    enough = int(np.searchsorted(reached, _MATTER * reached[-1])) + 1
    count = min(enough, max(_LEAST, ceil(_MOST * len(every))))
    chosen = np.zeros(len(every), dtype=bool)
    chosen[order[:count]] = True
    return np.split(chosen, np.cumsum([len(one) for one in windows])[:-1])


def mixed(numbers: IntArray, chosen: BoolArray) -> IntArray:
    """(n,) for tokens in units `numbers`: those of the chosen units for themselves, the others together."""
    own = chosen[numbers]
    change = np.r_[True, (np.diff(numbers) != 0) | own[1:] | own[:-1]]
    return np.cumsum(change) - 1


def both_levels(
    name: str, coarse: Explanation, fine: Explanation | None, numbers: IntArray, finer: IntArray
) -> Explanation:
    """The finer explanation, which has the scores of the coarse one as a level.

    numbers, finer: the units of the tokens, before and after some of them were looked at.
    """
    if fine is None:
        levels = {name: Level(np.arange(len(coarse)), coarse.scores, coarse.stderr)}
        classes = {
            label: both_levels(name, one, None, numbers, finer) for label, one in coarse.classes.items()
        }
        return replace(coarse, levels=levels, classes=classes)
    _, first = np.unique(finer, return_index=True)
    levels = {**fine.levels, name: Level(numbers[first], coarse.scores, coarse.stderr)}
    classes = {
        label: both_levels(name, coarse.classes[label], one, numbers, finer)
        for label, one in fine.classes.items()
    }
    return replace(fine, levels=levels, classes=classes, cost=added([coarse.cost, fine.cost]))


def added(costs: Sequence[Cost]) -> Cost:
    """What several explanations cost together; the seconds of the whole are known to the caller."""
    each = [asdict(cost) for cost in costs]
    return Cost(**{name: sum(cost[name] for cost in each) for name in each[0]})
