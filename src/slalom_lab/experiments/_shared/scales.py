"""How well surrogates describe a model on copies of a text of every size (maths 3f).

SLALOM with a background, an additive model (a weight for each token, ridge by cross-validation) and a GAM (a
weight for each token at each place of the copy, as the paper fits it) learn from the same copies and are
judged on fresh ones. Sizes are log-uniform, a third of the copies are stretches of neighbours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse

from slalom import designs
from slalom.models.ask import Ask
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared.outcome import Row, mean_row

SLALOM, ADDITIVE, GAM = "SLALOM", "additive", "GAM"
SURROGATES = (SLALOM, ADDITIVE, GAM)
OVERALL = "R², all sizes"
LASSO = 0.01
"""The GAM's, as in Table 6."""
_SIZES = (1, 3, 8, 21, 55, 1 << 30)
"""Classes of sizes: each about e times the one before."""

Judged = tuple[FloatArray, FloatArray, dict[str, FloatArray]]
"""Of the fresh copies of a text: sizes (N,), the model's outputs (N, K), and what each surrogate says."""


def judged(ask: Ask, score: Callable[[FloatArray], FloatArray], count: int, fresh: int, seed: int) -> Judged:
    """Of `fresh` copies their sizes, the model's outputs (N, K), and what each surrogate says of them.

    `score` turns logits into the outputs to describe: (N,) or (N, K).
    """
    n, rng = len(ask.tokens), np.random.default_rng((seed, len(ask.tokens)))
    learned, asked = (designs.all_scales(n, number, 1, n - 1, rng) for number in (count, fresh))
    outputs, truth = (_columns(score(ask(copies))) for copies in (learned, asked))
    return asked.lengths.astype(float), truth, _fitted(learned, outputs, asked)


def _columns(outputs: FloatArray) -> FloatArray:
    return outputs[:, None] if outputs.ndim == 1 else outputs


def _fitted(learned: Perturbations, outputs: FloatArray, asked: Perturbations) -> dict[str, FloatArray]:
    from slalom.fit import exact, linear

    counts, fresh = learned.counts(), asked.counts()
    return {
        SLALOM: exact.fit(counts, outputs).surrogate.predict(fresh),
        ADDITIVE: linear.fit(counts, outputs).surrogate.predict(fresh),
        GAM: _gam(_by_place(learned), outputs, _by_place(asked)),
    }


def _gam(features: sparse.csr_array, outputs: FloatArray, fresh: sparse.csr_array) -> FloatArray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits do not matter here
        found = [Lasso(alpha=LASSO).fit(features, column).predict(fresh) for column in outputs.T]
    return np.stack(found, axis=1)


def _by_place(copies: Perturbations) -> sparse.csr_array:
    """(N, n · n) whether each token stands at each place of the copy."""
    n, rows = copies.size, copies.rows
    place = np.arange(len(rows)) - copies.offsets[rows]
    entries = (np.ones(len(rows)), (rows, place * n + copies.positions))
    found = sparse.csr_array(entries, shape=(len(copies), n * n))
    # scikit-learn takes no wider ones
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def r2(truth: FloatArray, told: FloatArray) -> float:
    """One minus the squared error over the outputs' variance, all outputs together."""
    spread = ((truth - truth.mean(axis=0)) ** 2).sum()
    return float(1 - ((truth - told) ** 2).sum() / spread) if spread > 0 else float("nan")


def table(where: dict[str, str | int], texts: Sequence[Judged]) -> list[Row]:
    """Mean R² over texts for all sizes, differences paired by text, and pooled R² for each class of sizes.

    The standard errors of the last are a jackknife's over texts.
    """
    rows, whole = [], {name: [r2(truth, told[name]) for _, truth, told in texts] for name in SURROGATES}
    for name in SURROGATES:
        rows.append(mean_row({**where, "surrogate": name}, OVERALL, whole[name]))
        for low, high in pairwise(_SIZES):
            share = _pooled(texts, name, low, high)
            if share is not None:
                label = (
                    f"R², {low} to {high - 1} tokens" if high < _SIZES[-1] else f"R², {low} tokens and more"
                )
                error = _jackknife(texts, name, low, high)
                rows.append(Row({**where, "surrogate": name}, label, share, error, len(texts)))
    return rows + [mean_row(where, measure, values) for measure, values in gaps(texts).items()]


def gaps(texts: Sequence[Judged]) -> dict[str, list[float]]:
    """By how much SLALOM's R² is above that of the others, text by text."""
    whole = {name: [r2(truth, told[name]) for _, truth, told in texts] for name in SURROGATES}
    return {
        f"{SLALOM} over {other}": [a - b for a, b in zip(whole[SLALOM], whole[other], strict=True)]
        for other in (ADDITIVE, GAM)
    }


def _jackknife(texts: Sequence[Judged], name: str, low: int, high: int) -> float | None:
    """The standard error of a pooled R² over texts: from the pooled R² without each of them."""
    without = [_pooled([*texts[:i], *texts[i + 1 :]], name, low, high) for i in range(len(texts))]
    known = np.array([share for share in without if share is not None])
    if len(known) < 2:
        return None
    return float(np.sqrt((len(known) - 1) * known.var()))


def _pooled(texts: Sequence[Judged], name: str, low: int, high: int) -> float | None:
    """R² on copies of these sizes, errors and variances added up over texts."""
    wrong = spread = 0.0
    for sizes, truth, told in texts:
        own = (low <= sizes) & (sizes < high)
        if own.sum() > 1:
            wrong += float(((truth - told[name])[own] ** 2).sum())
            spread += float(((truth[own] - truth[own].mean(axis=0)) ** 2).sum())
    return 1 - wrong / spread if spread > 0 else None
