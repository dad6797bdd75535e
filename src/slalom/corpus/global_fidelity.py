"""How far one SLALOM describes a model over a corpus, on queries that were not fitted."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsmr

from slalom.corpus.global_corpus import SHORT, SPAN, Corpus
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import Perturbations
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray

_DOCUMENTS = 500
"""Whole documents that are predicted, to see how far excerpts carry."""
_CHUNK = 8_192


def answers(ask: Ask, queries: Perturbations) -> FloatArray:
    """The model's logits, a bounded number of queries at a time."""
    parts = range(0, len(queries), _CHUNK)
    return np.concatenate([ask(queries[start : start + _CHUNK]) for start in parts])


def excerpts(
    surrogate: Slalom, counts: sparse.csr_array, answers: FloatArray, kinds: IntArray, held: np.ndarray
) -> dict[str, float]:
    """How well the queries in `held` are predicted, by kind and beside a linear surrogate."""
    rows = np.flatnonzero(held)
    truth, told = answers[rows], surrogate.predict(counts[rows])
    mean = answers[~held].mean(axis=0)
    result = {"r2": _r2(truth, told), "rmse": _rms(truth - told), "constant_rmse": _rms(truth - mean)}
    for name, kind in (("short_r2", SHORT), ("span_r2", SPAN)):
        own = kinds[rows] == kind
        if own.any():
            result[name] = _r2(truth[own], told[own])
    linear = _linear(counts[np.flatnonzero(~held)], answers[~held], counts[rows], truth)
    return result | {"linear_r2": linear, "heldout_queries": float(len(rows))}


def _linear(
    counts: sparse.csr_array, answers: FloatArray, other: sparse.csr_array, truth: FloatArray
) -> float:
    """R² of ridge regression on counts; its ridge is the best of a few for the queries it is judged by."""
    mean = answers.mean(axis=0)

    def told(damp: float) -> FloatArray:
        weights = [lsmr(counts, answers[:, k] - mean[k], damp=damp, maxiter=200)[0] for k in range(len(mean))]
        return other @ np.stack(weights, axis=1) + mean

    return max(_r2(truth, told(damp)) for damp in (0.3, 1.0, 3.0))


def documents(
    ask: Ask, aim: Target, corpus: Corpus, surrogate: Slalom, rng: np.random.Generator
) -> dict[str, float]:
    """How well whole documents are predicted, of which only excerpts were asked about."""
    chosen = np.sort(rng.permutation(len(corpus))[:_DOCUMENTS])
    queries = corpus.documents(chosen)
    truth = aim.signal(answers(ask, queries))
    told = surrogate.predict(queries.counts(corpus.units, corpus.n_units))
    return {"document_r2": _r2(truth, told), "documents": float(len(chosen))}


def _r2(truth: FloatArray, told: FloatArray) -> float:
    spread, left = ((truth - truth.mean(axis=0)) ** 2).sum(), ((truth - told) ** 2).sum()
    return float(1.0 - left / spread) if spread > 0 else float(left == 0.0)


def _rms(error: FloatArray) -> float:
    return float(np.sqrt((error**2).mean()))
