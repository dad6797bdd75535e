"""Several SLALOMs added up below a ceiling (maths 3h), fitted to outputs and gradients (maths 3g).

    y = offset + a·tanh(Σ_h F_h / a)

Four groups of heads are fitted, each without a quarter of the queries, and their mean is the surrogate: it
predicts better than any of them, and what a group has not seen tells how well it predicts. Importances and
values move together by L-BFGS with a Gaussian prior: copies of a token deviate little from each other, and
tokens that the model embeds alike are expected to be alike (maths 3h).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from slalom.fit.misfit import Shape, Spread, Task, prior, seen, token_prior
from slalom.surrogate import Heads, Slalom
from slalom.tokens import FloatArray, IntArray

GROUPS, HEADS = 4, 4
"""More heads in a group, or more groups, take longer and add little (docs/design-study.md)."""
_STEPS = 120
_LEAST_NOISE = 1e-12
_DIGITS = 3
"""Of the outputs in units of their spread. Steps that end early would carry float32 rounding, which depends
on batch and processor, into the scores; so it is rounded away, far below the noise."""
_START = 0.5
"""Spread of the places from which all heads but the first set out, in units of the prior."""


@dataclass(frozen=True, eq=False)
class HeadsFit:
    """The fitted surrogate over the units, all outputs, and what is known of one of them."""

    surrogate: Heads
    """The mean of the groups."""
    groups: tuple[Heads, ...]
    spread: Spread
    """Of the parameters of the first group, had it seen all queries."""
    left_out: FloatArray
    """(N,) the error on each query, of a group that has not seen it where it is one of those to leave out."""


def fit(
    counts: sparse.csr_array,
    outputs: FloatArray,
    inverse: IntArray,
    *,
    embeddings: FloatArray | None = None,
    slopes: FloatArray | None = None,
    held: IntArray | None = None,
    families: IntArray | None = None,
    column: int = 0,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> HeadsFit:
    """Fits all outputs (N, K) of queries (N, units); `inverse` tells which units are copies of one type.

    `embeddings` (units, D) are the model's own, where it shows them. `slopes` (Q, units) are soft-removal
    gradients of the last Q queries, added up over the tokens of a unit; `held` are the queries to leave out
    in turn, all unless told, those of one of the `families` (N,) together. Slopes, spread and errors are
    those of the output `column`.
    """
    # a saturated model has its mean near one end of its range, and needs room towards the other
    offset = (outputs.max(axis=0) + outputs.min(axis=0)) / 2
    scale = float(np.sqrt(outputs.var(axis=0).mean()))
    z = np.round((outputs - offset) / scale, _DIGITS)
    bent = np.zeros((0, len(inverse))) if slopes is None else np.round(slopes / scale, _DIGITS)
    rng = np.random.default_rng(seed)
    held = np.arange(len(z)) if held is None else held
    families = np.arange(len(z)) if families is None else families
    learns = _learns(np.diff(counts.indptr), held, families, rng)
    task = Task(_with_background(counts), z, bent, column, learns)
    shape = Shape(GROUPS, HEADS, len(inverse) + 1, z.shape[1])
    tokens = token_prior(inverse, embeddings)
    x = _solved(task, shape, tokens, rng, check)
    left_out = _left_out(task.errors(x, shape), learns)
    noise = max(float((left_out[held if len(held) else slice(None)] ** 2).mean()), _LEAST_NOISE)
    first = shape._replace(groups=1)
    _, factor = prior(first, tokens, z)
    known = seen(task.counts, _group(x, shape, 0), first, column, factor, noise, rng)
    groups = tuple(_surrogate(_group(x, shape, at), first, offset, scale) for at in range(GROUPS))
    spread = Spread(_own(factor, first, column, scale), *known)
    return HeadsFit(_mean(groups), groups, spread, scale * left_out)


def _learns(sizes: IntArray, held: IntArray, families: IntArray, rng: np.random.Generator) -> FloatArray:
    """(N, groups) zero where a group must not see a query; each leaves out copies of all sizes."""
    learns = np.ones((len(sizes), GROUPS))
    names, family = np.unique(families[held], return_inverse=True)  # named after one of their queries
    place = np.argsort(np.lexsort([rng.random(len(names)), sizes[names]]))
    learns[held, place[family] % GROUPS] = 0.0
    return learns


def _left_out(errors: FloatArray, learns: FloatArray) -> FloatArray:
    """(N,) the error of the group that has not seen a query; of all of them where there is none."""
    unseen = 1.0 - learns
    alone = unseen.any(axis=1)
    return np.where(alone, (errors * unseen).sum(axis=1), errors.mean(axis=1))


def _with_background(counts: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(sparse.hstack([counts, np.ones((len(counts.indptr) - 1, 1))], format="csr"))


def _solved(
    task: Task, shape: Shape, tokens: sparse.csr_array, rng: np.random.Generator, check: Callable[[], None]
) -> FloatArray:
    """The parameters of all groups."""
    centre, factor = prior(shape, tokens, task.z)
    back = sparse.csr_array(factor.T)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        check()
        loss, gradient = task.misfit(centre + factor @ theta, shape)
        return loss + 0.5 * float(theta @ theta), back @ gradient + theta

    options = {"maxiter": _STEPS, "maxcor": 10, "ftol": 1e-6, "gtol": 1e-9}
    start = _start(shape, len(sparse.csc_array(tokens).indptr), rng)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return centre + factor @ np.asarray(found.x)


def _start(shape: Shape, width: int, rng: np.random.Generator) -> FloatArray:
    """All heads but the first set out from random places, or they would stay copies of one head."""
    s = _START * rng.standard_normal((shape.all_heads, width))
    v = _START * rng.standard_normal((shape.all_heads, width, shape.outputs))
    s[:: shape.heads], v[:: shape.heads] = 0.0, 0.0
    return np.concatenate([s.ravel(), v.ravel(), np.zeros(shape.outputs)])


def _group(x: FloatArray, shape: Shape, at: int) -> FloatArray:
    """The parameters of one group."""
    s, v, log_a = shape.parts(x)
    own = slice(at * shape.heads, (at + 1) * shape.heads)
    return np.concatenate([s[own].ravel(), v[own].ravel(), log_a])


def _own(factor: sparse.csr_array, shape: Shape, column: int, scale: float) -> sparse.csr_array:
    """The prior of one output's parameters, its values in units of the output."""
    size, k = shape.all_heads * shape.units, shape.outputs
    units = np.r_[np.ones(size), np.full(size, scale), 1.0]
    rows = np.r_[np.arange(size), size + np.arange(size) * k + column, size * (1 + k) + column]
    return sparse.csr_array(factor[rows].multiply(units[:, None]), dtype=np.float32)


def _surrogate(x: FloatArray, shape: Shape, offset: FloatArray, scale: float) -> Heads:
    """Of one group."""
    s, v, log_a = shape.parts(x)
    parts = tuple(
        Slalom(scale * values[:-1], own[:-1], scale * values[-1], float(own[-1]))
        for own, values in zip(s, v, strict=True)
    )
    return Heads(parts, offset, scale * np.exp(log_a))


def _mean(groups: tuple[Heads, ...]) -> Heads:
    """All heads of all groups; what they say is shared out among the groups."""
    share = 1.0 / len(groups)
    parts = tuple(
        replace(part, values=share * part.values, background_value=share * part.background_value)
        for group in groups
        for part in group.parts
    )
    return Heads(parts, groups[0].offset, groups[0].ceiling)
