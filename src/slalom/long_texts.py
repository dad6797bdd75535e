"""The explanations of the windows of a long text as one explanation of the whole text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit, logsumexp, softmax

from slalom.coarse_to_fine import added
from slalom.explanation import Explanation
from slalom.levels import Level
from slalom.models.windows import join
from slalom.tokens import FloatArray, Tokens
from slalom.windows import Windows

_CLIP = 1e-12
_AS_IT_IS = ("value", "importance")
"""Scores that are not parts of the output: they do not shrink with the window's share of the text."""


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
            each = [own - logsumexp(own) + np.log(weight) for own, weight in zip(each, weights, strict=True)]
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


def _said(window: Explanation) -> dict[str, Any]:
    spans = window.tokens.spans
    return {
        "start": int(spans[0, 0]),
        "end": int(spans[-1, 1]),
        "tokens": sum(map(len, window.tokens.pieces)),
        "output": window.output,
        "prediction": window.prediction,
        "probability": float(window.probabilities.max()),
    }
