"""What the fitted surrogate says of tokens, and of words, with standard errors."""

from __future__ import annotations

import numpy as np

from slalom.explainers._slalom.study import Study
from slalom.fit.readings import importance_slopes, output_slopes, root
from slalom.scores import Level, centre, readings
from slalom.surrogate import Heads
from slalom.tokens import FloatArray, IntArray, Tokens


def level(tokens: Tokens, numbers: IntArray, found: Study, shares: FloatArray, gamma: float) -> Level:
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
        "importance": found.spread.variances(_importance_slopes(found.typical, member, centre(units))),
        "share": ((member @ shares) * member).sum(axis=1),
        "removal": _removal_variance(found, member),
    }
    return Level(numbers, scores, {name: root(each) for name, each in variances.items()})


def _importance_slopes(surrogate: Heads, member: FloatArray, middle: FloatArray) -> FloatArray:
    """The weight of a unit is the sum of its tokens' weights."""
    weights = surrogate.log_weights()
    parts = member * np.exp(weights - weights.max())
    by_token = importance_slopes(surrogate, np.zeros(len(weights)))
    slopes = (parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)) @ by_token
    return slopes - middle @ slopes


def _removal_variance(found: Study, member: FloatArray) -> FloatArray:
    if found.removal_variance is not None:
        added = member @ found.removal_variance
        return added if found.measured is None else added / member.sum(axis=1)
    whole = output_slopes(found.typical, np.ones((1, member.shape[1])))
    return found.spread.variances(whole - output_slopes(found.typical, 1.0 - member))
