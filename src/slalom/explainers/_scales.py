"""SLALOM at the scales of a text: types on their own, positions in excerpts, positions in the whole text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from slalom.explainers._answers import Answered, Answers, together
from slalom.explainers._plan import Kind
from slalom.fit import context, exact
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray, Tokens

Granularity = Literal["positions", "types"]

_LEAST_LEFT_OUT = 5
"""Copies with tokens left out from which the second look is taken: its shift and gain alone explain two."""


@dataclass(frozen=True, eq=False)
class Scales:
    """The fitted SLALOMs, all outputs, over the positions of the text."""

    types: Slalom
    """The paper's: copies of a token share their scores."""
    excerpt: Slalom
    """Positions as they count in excerpts of the text: the value and importance that are shown."""
    context: Slalom
    """The same importances with values read near the whole text: what removal and predictions use."""
    covariance: FloatArray
    """Of `excerpt`, target's output: importances, background's, values, background's."""
    context_covariance: FloatArray
    """Of the values of `context`, target's output, the background last."""
    left_out: FloatArray | None
    """(N, C) errors of `context` on the copies with tokens left out, each left out of the fit."""
    status: str


def fit(
    tokens: Tokens, answers: Answers, whole: FloatArray, granularity: Granularity, column: int, gamma: float
) -> Scales:
    """One fit to the excerpts, a second look at the copies with a few tokens left out.

    `whole` (C,) is the signal of the text as it is.
    """
    by_position = granularity == "positions" and any(k in answers.fitted for k in ("span", "scattered"))
    d, n = tokens.n_types, len(tokens)
    units = np.arange(d, d + n) if by_position else tokens.inverse
    width = d + n if by_position else d
    groups, lengths = [], []
    by_kind: list[tuple[tuple[Kind, ...], IntArray]] = [
        (("single", "short"), tokens.inverse),
        (("span",), units),
        (("scattered",), units),
    ]
    for kinds, unit in by_kind:
        part = together(answers.fitted, kinds)
        if part is not None:
            groups.append(exact.Group(part.queries.counts(unit, width), part.outputs))
            lengths.append(part.queries.lengths)
    ties = exact.two_levels(tokens.inverse) if by_position else exact.untied(d)
    # Neither with few types nor with queries of one length can the background be told from the tokens.
    background = d > 2 and np.ptp(np.concatenate(lengths)) > 0
    solved = exact.fit(groups, ties, column=column, background=bool(background))
    shift = solved.surrogate.importances[:d].mean() - gamma / d
    types = _select(solved.surrogate, tokens.inverse, shift)
    excerpt = _select(solved.surrogate, units, shift)
    covariance = _covariance(solved.covariance, units, d)
    units = np.arange(n) if granularity == "positions" else tokens.inverse
    near, near_covariance, left_out = _in_context(excerpt, covariance, answers, whole, units, column)
    return Scales(types, excerpt, near, covariance, near_covariance, left_out, solved.status)


def _select(surrogate: Slalom, units: np.ndarray, shift: float) -> Slalom:
    return Slalom(
        surrogate.values[units],
        surrogate.importances[units] - shift,
        surrogate.background_value,
        surrogate.background_importance - shift,
    )


def _covariance(covariance: FloatArray | None, units: np.ndarray, d: int) -> FloatArray:
    """From units to positions, importances measured from the mean of the types, which is fixed."""
    if covariance is None:
        raise ValueError("the exact solver always gives a covariance")
    width = len(covariance) // 2 - 1
    n = len(units)
    choose = np.zeros((n + 1, width + 1))
    choose[np.arange(n), units] = 1.0
    choose[n, width] = 1.0
    centred = choose.copy()
    centred[:, :d] -= 1.0 / d
    s, v = slice(0, width + 1), slice(width + 1, None)
    mixed = centred @ covariance[s, v] @ choose.T
    return np.block(
        [[centred @ covariance[s, s] @ centred.T, mixed], [mixed.T, choose @ covariance[v, v] @ choose.T]]
    )


def _in_context(
    excerpt: Slalom,
    covariance: FloatArray,
    answers: Answers,
    whole: FloatArray,
    units: IntArray,
    column: int,
) -> tuple[Slalom, FloatArray, FloatArray | None]:
    """`units` says which positions share their values: none, or the copies of a type."""
    near, n = _different(answers.fitted.get("deletion")), len(units)
    if near is None or len(near) < _LEAST_LEFT_OUT:
        return excerpt, covariance[n + 1 :, n + 1 :], None
    _, first = np.unique(units, return_index=True)
    shared = _select(excerpt, first, 0.0)
    text = np.bincount(units).astype(float)
    counts = np.vstack([near.queries.counts(units, len(text)).toarray(), text])
    looked = context.look(shared, counts, np.vstack([near.outputs, whole]))
    where = np.append(units, len(text))
    spread = looked.covariance[column][np.ix_(where, where)]
    near_text = _anchored(looked.surrogate, text, whole)
    return _select(near_text, units, 0.0), spread, looked.left_out[:-1]


def _anchored(surrogate: Slalom, text: FloatArray, whole: FloatArray) -> Slalom:
    """Shifted so that the text as it is has the answer that is known; changes are predicted as before."""
    gap = whole - surrogate.predict(text[None])[0]
    return Slalom(
        surrogate.values + gap,
        surrogate.importances,
        surrogate.background_value + gap,
        surrogate.background_importance,
    )


def _different(near: Answered | None) -> Answered | None:
    """Short texts have few different copies; one that is left out must not stay in as its own twin."""
    if near is None:
        return None
    rows = np.sort(np.unique(near.queries.counts().toarray(), axis=0, return_index=True)[1])
    return Answered(near.queries[rows], near.outputs[rows])
