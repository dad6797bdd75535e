"""What is told of a fitted SLALOM: scores with standard errors, and how far to trust it (maths 3i)."""

from __future__ import annotations

import numpy as np

from slalom.explainers._slalom.study import Answers, Study
from slalom.files import Record
from slalom.fit import linear
from slalom.models.target import Target
from slalom.scores import (
    Level,
    centre,
    importance_slopes,
    output_slopes,
    readings,
    root,
    shapley_slopes,
)
from slalom.tokens import FloatArray, IntArray, Tokens


def level(
    tokens: Tokens, numbers: IntArray, found: Study, shares: FloatArray, gamma: float, ranking: str
) -> Level:
    """Scores and standard errors of units that hold one token or several; `numbers` (n,) count them.

    `shares` (n, n) is the covariance of the tokens' shares, which add up to those of the units.
    """
    member = np.zeros((int(numbers[-1]) + 1, len(numbers)))
    member[numbers, np.arange(len(numbers))] = 1.0
    units = tokens if len(member) == len(tokens) else tokens.grouped(numbers)
    surrogate = found.surrogate if units is tokens else found.surrogate.grouped(numbers)
    scores = readings(units, surrogate, gamma)
    if found.measured is not None:
        scores["removal"] = found.removals(member)
    variances = {
        "value": found.spread.variances(output_slopes(found.typical, member)),
        "importance": found.spread.variances(importance_slopes(found.typical, member, centre(units))),
        "share": ((member @ shares) * member).sum(axis=1),
        "removal": _removal_variance(found, member),
    }
    if ranking == "shapley":
        variances["shapley"] = found.spread.variances(shapley_slopes(found.typical, member))
    return Level(numbers, scores, {name: root(each) for name, each in variances.items()})


def _removal_variance(found: Study, member: FloatArray) -> FloatArray:
    if found.removal_variance is not None:
        added = member @ found.removal_variance
        return added if found.measured is None else added / member.sum(axis=1)
    whole = output_slopes(found.typical, np.ones((1, member.shape[1])))
    return found.spread.variances(whole - output_slopes(found.typical, 1.0 - member))


_CLASSES = 6
_LEAST = 8
"""Queries below which nothing is measured."""
_DRAWS = 200


def fidelity(
    answers: Answers, found: Study, target: Target, seed: int
) -> tuple[dict[str, float], list[Record]]:
    """R² over copies of all sizes, each size (on a log scale) counting alike; and the same by size.

    Beside it the R² of an additive surrogate of the same queries and weights, and a 95 % interval
    (bootstrap). Where errors are those of several fits, their mean is better by what they disagree; the
    interval allows for nothing of that and for twice as much.
    """
    truth, sizes = target.read(answers.outputs), answers.queries.lengths
    # copies of nearly the whole text would stand for all long ones, and are predicted better
    scaled = np.array([kind not in ("near", "removal") for kind in answers.kinds], dtype=bool)
    inner = np.flatnonzero(scaled & (sizes < answers.queries.size))
    result = _removals(found) | {"heldout_queries": float(len(inner))}
    if len(inner) < _LEAST or np.ptp(truth[inner]) == 0:
        return result, []
    truth, alone = truth[inner], found.left_out[inner]
    classes = _classes(sizes[inner], answers.queries.size)
    weights = _weights(sizes[inner])
    additive = linear.left_out(answers.queries[inner].counts(), truth, weights)
    apart = found.disagreement / max(float(np.average(alone**2, weights=weights)), np.finfo(float).tiny)
    widest, error, least = (np.sqrt(max(1.0 - part * apart, 0.1)) * alone for part in (0.0, 1.0, 2.0))
    rng = np.random.default_rng(seed)
    names, family = np.unique(answers.families[inner], return_inverse=True)
    drawn = rng.integers(0, len(names), (_DRAWS, len(names)))
    times = weights * np.stack([np.bincount(row, minlength=len(names)) for row in drawn])[:, family]
    low, high = np.quantile(_r2(truth, widest, times), 0.025), np.quantile(_r2(truth, least, times), 0.975)
    mean = np.average(truth, weights=weights)
    result |= {
        "r2": float(_r2(truth, error, weights)),
        "r2_low": float(low),
        "r2_high": float(high),
        "linear_r2": float(_r2(truth, additive, weights)),
        "rmse": float(np.sqrt(np.average(error**2, weights=weights))),
        "linear_rmse": float(np.sqrt(np.average(additive**2, weights=weights))),
        "constant_rmse": float(np.sqrt(np.average((truth - mean) ** 2, weights=weights))),
    }
    return result, [
        _one_class(truth, error, additive, sizes[inner], classes == c) for c in np.unique(classes)
    ]


def _one_class(
    truth: FloatArray, error: FloatArray, additive: FloatArray, sizes: IntArray, own: np.ndarray
) -> Record:
    flat = np.ones(int(own.sum()))
    return {
        "tokens": [int(sizes[own].min()), int(sizes[own].max())],
        "queries": int(own.sum()),
        "rmse": float(np.sqrt((error[own] ** 2).mean())),
        "r2": float(_r2(truth[own], error[own], flat)),
        "linear_r2": float(_r2(truth[own], additive[own], flat)),
    }


def _classes(sizes: IntArray, n: int) -> IntArray:
    """(N,) the class of each size; classes are equally wide on a log scale."""
    edges = np.unique(np.round(np.geomspace(1, n, _CLASSES + 1)).astype(np.int64))
    return np.searchsorted(edges, sizes, side="right")


def _weights(sizes: IntArray) -> FloatArray:
    """Every size counts as wide as it is on a log scale, whatever was asked of it; neighbours share gaps."""
    distinct, own, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    edges = np.r_[distinct[0], (distinct[:-1] + 1 + distinct[1:]) / 2, distinct[-1] + 1]
    return (np.diff(np.log(edges)) / counts)[own]


def _r2(truth: FloatArray, error: FloatArray, weights: FloatArray) -> FloatArray:
    """Over the last axis; 1 where a constant truth is met, else 0."""
    total = weights.sum(axis=-1, keepdims=True)
    mean = (weights * truth).sum(axis=-1, keepdims=True) / total
    spread: FloatArray = (weights * (truth - mean) ** 2).sum(axis=-1)
    misfit: FloatArray = (weights * error**2).sum(axis=-1)
    return np.where(spread > 0, 1.0 - misfit / np.where(spread > 0, spread, 1.0), misfit == 0.0)


def _removals(found: Study) -> dict[str, float]:
    """Squared error of the predicted changes near the whole text, relative to predicting no change."""
    if found.near_left_out is None:
        return {}
    error, change = found.near_left_out
    nothing = float((change**2).mean())
    return {"removal_error": float((error**2).mean()) / nothing} if nothing > 0 else {}
