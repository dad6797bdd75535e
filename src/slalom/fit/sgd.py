"""SLALOM-SGD (maths 3b, Algorithm 1): Adam on minibatches of the squared error, as the paper does it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from slalom.errors import FitError, InputError
from slalom.fit import Fit, mean_squared_error, problem
from slalom.surrogate import Counts, Slalom
from slalom.tokens import FloatArray, IntArray

# Adam's usual constants.
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


def fit(
    counts: Counts,
    outputs: FloatArray,
    *,
    epochs: int = 20,
    batch_size: int = 128,
    learning_rate: float = 1e-2,
    seed: int = 0,
    gamma: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Fit[Slalom]:
    """A SLALOM without background, fitted from (s, v) = 0 by `epochs` passes over the shuffled queries.

    The defaults are those of the paper's final runs. There is no covariance, and nothing tells whether it has
    converged: the status is always "max_iterations", the iterations are Adam's steps. `check` is called at
    every step and may raise to end the fit.
    """
    if epochs < 1 or batch_size < 1 or not 0 < learning_rate < np.inf:
        raise InputError(
            "epochs and batch_size must be at least 1 and learning_rate positive; "
            f"got {epochs}, {batch_size}, {learning_rate}"
        )
    rows, y, _ = problem(counts, outputs)
    if np.any(rows.sum(axis=1) == 0):
        raise InputError("an empty query has no value under a SLALOM without background; leave it out")
    _, d = rows.shape or (0, 0)
    # One row for every token: importance first, values after it.
    theta = np.zeros((d, 1 + y.shape[1]))
    mean, square, step = np.zeros_like(theta), np.zeros_like(theta), 0
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is noticed below
        for batch, wanted in _batches(rows, y, epochs, batch_size, np.random.default_rng(seed)):
            check()
            step += 1
            gradient = _gradient(theta, batch, wanted)
            mean += (1 - _BETA_1) * (gradient - mean)
            square += (1 - _BETA_2) * (gradient**2 - square)
            rate = learning_rate / (1 - _BETA_1**step)
            theta -= rate * mean / (np.sqrt(square / (1 - _BETA_2**step)) + _EPSILON)
        surrogate = Slalom(theta[:, 1:], theta[:, 0]).normalised(gamma)
        loss = mean_squared_error(surrogate, rows, y)
    if not np.isfinite(loss):
        raise FitError(f"SGD diverged with learning_rate={learning_rate}; try a smaller one")
    return Fit(surrogate, None, loss, step, "max_iterations")


def _batches(
    rows: sparse.csr_array, outputs: FloatArray, epochs: int, size: int, rng: np.random.Generator
) -> Iterator[tuple[tuple[IntArray, FloatArray, IntArray], FloatArray]]:
    """Minibatches as (columns, counts, offsets of the rows) and the outputs wanted."""
    for _ in range(epochs):
        order = rng.permutation(len(outputs))
        shuffled, wanted = rows[order], outputs[order]
        for start in range(0, len(order), size):
            offsets = shuffled.indptr[start : start + size + 1]
            part = slice(offsets[0], offsets[-1])
            yield (
                (shuffled.indices[part], shuffled.data[part], offsets - offsets[0]),
                wanted[start : start + size],
            )


def _gradient(
    theta: FloatArray, batch: tuple[IntArray, FloatArray, IntArray], wanted: FloatArray
) -> FloatArray:
    """Of the mean squared error: ∂F/∂v = a, ∂F/∂s = a (v − F) with the shares a of every row (maths 3c)."""
    columns, counts, offsets = batch
    starts, lengths = offsets[:-1], np.diff(offsets)
    s, v = theta[columns, 0], theta[columns, 1:]
    shares = counts * np.exp(s - np.repeat(np.maximum.reduceat(s, starts), lengths))
    shares /= np.repeat(np.add.reduceat(shares, starts), lengths)
    predicted = np.add.reduceat(shares[:, None] * v, starts, axis=0)
    pull = np.repeat(2 * (predicted - wanted) / wanted.size, lengths, axis=0)
    slopes = np.empty((len(columns), theta.shape[1]))
    slopes[:, 1:] = shares[:, None] * pull
    slopes[:, 0] = (slopes[:, 1:] * (v - np.repeat(predicted, lengths, axis=0))).sum(axis=1)
    result = np.empty_like(theta)
    for k in range(theta.shape[1]):
        result[:, k] = np.bincount(columns, slopes[:, k], len(theta))
    return result
