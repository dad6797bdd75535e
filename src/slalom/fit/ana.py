"""SLALOM-Ana (maths 3a, Prop. 5.2): a SLALOM read off 2d − 1 queries of one and two tokens.

The solver does not query. An explainer asks the `single_queries`, lets `pair_queries` choose d − 1 pairs from
what the model answered, asks those, and hands both answers to `solve`.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import logit

from slalom.errors import FitError, InputError
from slalom.fit import Fit, mean_squared_error, outputs_matrix
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray, frozen

# Values closer together than this, relative to their size, are one number with single-precision noise.
_RESOLUTION = 1e-6


@dataclass(frozen=True, eq=False)
class Plan:
    """Which pairs to ask about: every type but the reference, each with its partner."""

    n_types: int
    reference: int
    """The type every importance is finally measured from."""
    second: int
    """The partner of the types that the reference cannot tell apart from itself; equal to it where d = 1."""
    pairs: IntArray
    """(d − 1, 2) a type and its partner: (second, reference) first, then the others in their order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", frozen(self.pairs, np.int64))


def single_queries(n_types: int) -> IntArray:
    """(d, 1) the first stage: every type on its own."""
    if n_types < 1:
        raise InputError("a text without tokens has nothing to ask about")
    return np.arange(n_types)[:, None]


def pair_queries(single_outputs: FloatArray) -> Plan:
    """The second stage, chosen from the outputs (d,) or (d, K) of the first.

    The reference is the type whose value lies farthest from the mean, the second the one farthest from the
    reference, and every other type is paired with whichever of the two is farther from it: at least half
    the distance between them, so that no importance hangs on a small difference.
    """
    values = outputs_matrix(single_outputs, len(single_outputs), "single tokens")
    single_queries(len(values))
    d = len(values)
    r = int(np.argmax(_distance(values, values.mean(axis=0))))
    from_r = _distance(values, values[r])
    q = int(np.argmax(from_r))
    if d == 1:
        return Plan(1, 0, 0, np.zeros((0, 2), np.int64))
    if from_r[q] <= _RESOLUTION * np.abs(values).max():
        raise FitError(
            f"the model gives each of the {d} tokens the same output on its own "
            f"({np.round(values[r], 6).tolist()}), so their importances cannot be told apart; "
            "SLALOM-Ana needs a model that is not constant"
        )
    others = np.setdiff1d(np.arange(d), [r, q])
    partners = np.where(from_r[others] >= _distance(values[others], values[q]), r, q)
    return Plan(d, r, q, np.vstack([[q, r], np.stack([others, partners], axis=1)]))


def solve(
    plan: Plan,
    single_outputs: FloatArray,
    pair_outputs: FloatArray,
    *,
    strict: bool = True,
    bound: float = 1e-3,
    names: Sequence[str] | None = None,
    gamma: float = 0.0,
) -> Fit[Slalom]:
    """The SLALOM behind the answers to the d singles and the d − 1 pairs of the plan.

    The output of a pair must lie strictly between the values of its two tokens. Where it does not, the model
    is no SLALOM: FitError names the tokens. With strict=False the token's share of the pair is moved into
    [bound, 1 − bound], and the status says for how many ("clipped 3 of 12"). There is no covariance.
    """
    if not 0 < bound < 0.5:
        raise InputError(f"bound must lie between 0 and 0.5, not {bound}")
    values = outputs_matrix(single_outputs, plan.n_types, "single tokens")
    pairs = outputs_matrix(pair_outputs, len(plan.pairs), "pairs")
    if pairs.shape[1] != values.shape[1]:
        raise InputError(
            f"singles and pairs need one K, but have {values.shape[1]} and {pairs.shape[1]} outputs"
        )
    shares = _shares(plan.pairs, values, pairs)
    outside = np.flatnonzero((shares <= 0) | (shares >= 1))
    if len(outside) and strict:
        raise _no_slalom(plan, outside, names)
    moved = len(outside)
    shares[outside] = np.clip(shares[outside], bound, 1 - bound)
    importances = np.zeros(plan.n_types)
    # The second type comes first in the plan, so it is known before those that are chained through it.
    for (token, partner), step in zip(plan.pairs, logit(shares), strict=True):
        importances[token] = importances[partner] + step
    surrogate = Slalom(values, importances).normalised(gamma)
    loss = mean_squared_error(surrogate, _counts(plan), np.vstack([values, pairs]))
    return Fit(surrogate, None, loss, 1, f"clipped {moved} of {len(shares)}" if moved else "exact")


def _distance(values: FloatArray, origin: FloatArray) -> FloatArray:
    return np.linalg.norm(values - origin, axis=1)


def _shares(pairs: IntArray, values: FloatArray, outputs: FloatArray) -> FloatArray:
    """w_τ / (w_τ + w_r) of every pair: where f lies on the way from v_r to v_τ, over all outputs."""
    start = values[pairs[:, 1]]
    way = values[pairs[:, 0]] - start
    return ((outputs - start) * way).sum(axis=1) / (way**2).sum(axis=1)


def _counts(plan: Plan) -> sparse.csr_array:
    d, m = plan.n_types, len(plan.pairs)
    rows = np.r_[np.arange(d), np.repeat(d + np.arange(m), 2)]
    columns = np.r_[np.arange(d), plan.pairs.ravel()]
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(d + m, d))


def _no_slalom(plan: Plan, outside: IntArray, names: Sequence[str] | None) -> FitError:
    tokens = [int(i) for i in plan.pairs[outside, 0]]
    shown = ", ".join(repr(names[i]) if names is not None else f"type {i}" for i in tokens[:5])
    more = f" and {len(tokens) - 5} more" if len(tokens) > 5 else ""
    return FitError(
        f"the model is no SLALOM: for {len(tokens)} of {len(plan.pairs)} pairs of tokens its output does not "
        f"lie between those of the two alone ({shown}{more}); use the 'exact' fit, or strict=False to clip"
    )
