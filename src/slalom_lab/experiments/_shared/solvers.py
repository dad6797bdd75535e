"""The solvers that experiments with known truth compare, and the references they are judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse

from slalom.surrogate import Slalom
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared.synthetic import centred

SGD, LONG, EXACT = "sgd", "sgd, ten times the epochs", "exact"
_EPOCHS = {SGD: 20, LONG: 200}
"""20 are those of the paper's final runs."""


def fitted(solver: str, counts: sparse.csr_array, outputs: FloatArray, seed: int) -> Slalom:
    """The SLALOM that a solver fits to the same queries; with a background for any other name."""
    from slalom.fit import exact, sgd

    if solver in _EPOCHS:
        return sgd.fit(counts, outputs, epochs=_EPOCHS[solver], seed=seed).surrogate
    return exact.fit(counts, outputs, background=solver != EXACT).surrogate


def least_squares(counts: sparse.csr_array, outputs: FloatArray, start: Slalom) -> FloatArray:
    """Importances around their mean and values of least squared error, without any ridge (maths 3c)."""
    dense = counts.toarray()
    options: Any = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    found = optimize.least_squares(
        lambda theta: _slopes(dense, theta)[0] - outputs,
        centred(start),
        jac=lambda theta: _slopes(dense, theta)[1],  # type: ignore[arg-type]
        **options,
    )
    return centred(_surrogate(found.x))


def likeliest(counts: sparse.csr_array, labels: FloatArray) -> Slalom:
    """The SLALOM under which labels are likeliest: what can be known from labels that were drawn."""
    dense = counts.toarray()

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        log_odds, slopes = _slopes(dense, theta)
        surprise = np.mean(np.logaddexp(0.0, log_odds) - labels * log_odds)
        return float(surprise), (1 / (1 + np.exp(-log_odds)) - labels) @ slopes / len(labels)

    found: Any = optimize.minimize(loss, np.zeros(2 * dense.shape[1]), jac=True, method="L-BFGS-B")
    return _surrogate(found.x)


def _slopes(dense: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F of every row and its derivatives by importances and values (maths 3c)."""
    words = dense.shape[1]
    weighted = dense * np.exp(theta[:words])
    alpha = weighted / weighted.sum(axis=1, keepdims=True)
    predicted = alpha @ theta[words:]
    return predicted, np.hstack([alpha * (theta[words:] - predicted[:, None]), alpha])


def _surrogate(theta: FloatArray) -> Slalom:
    words = len(theta) // 2
    return Slalom(theta[words:], theta[:words])
