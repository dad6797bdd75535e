"""One SLALOM for a model over a whole corpus: the same view as a summary, from the model's side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from slalom.api import Explainer
from slalom.corpus import wide
from slalom.corpus.global_corpus import SHORT, SPAN, Corpus, draw, read_corpus
from slalom.corpus.global_fidelity import answers, documents, excerpts
from slalom.corpus.global_slalom import GlobalSlalom
from slalom.errors import InputError
from slalom.explanation import Cost
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.models.protocol import Model
from slalom.models.target import Target, choose_target
from slalom.tokens import IntArray

__all__ = ["GlobalSlalom", "fit_global"]

PER_TYPE, FEWEST, MOST = 25, 2_000, 300_000
"""Queries that are asked by default: so many for each type, within bounds."""
_HELD_OUT = 0.1
_MOST_HELD_OUT = 5_000


def fit_global(
    model: Any,
    texts: Iterable[str],
    *,
    queries: int | Literal["auto"] = "auto",
    seed: int = 0,
    min_count: int = 2,
    target: str | int | None = None,
    background: bool = True,
    progress: Callable[[int], None] | None = None,
) -> GlobalSlalom:
    """Fit one SLALOM to a model's answers about excerpts of many texts.

    model: an `Explainer`, or whatever one takes. texts: a corpus, or a vocabulary of single words.
    queries: how many excerpts to ask about; by default 25 for each type, 2 000 to 300 000. min_count: types
    with fewer copies share one pair of scores. target: the label, for models of independent labels.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"texts must be many texts, not a {type(texts).__name__}; give a list")
    if queries != "auto" and (not isinstance(queries, int) or queries < 20):
        raise InputError(f"queries must be 'auto' or a whole number of at least 20; got {queries!r}")
    if min_count < 1:
        raise InputError(f"min_count must be at least 1; got {min_count}")
    start = time.perf_counter()
    access: Model = model.model if isinstance(model, Explainer) else open_model(model)
    corpus = read_corpus(access, texts, min_count)
    aim = _aim(access, target)
    rng = np.random.default_rng(seed)
    wanted = min(max(PER_TYPE * corpus.n_types, FEWEST), MOST) if queries == "auto" else queries
    asked, kinds = draw(corpus, wanted, rng)
    ask = Ask(access, corpus.tokens, progress)
    told = aim.signal(answers(ask, asked))
    held = _held_out(kinds, rng)
    counts = asked.counts(corpus.units, corpus.n_units)
    fitted = wide.fit(counts[np.flatnonzero(~held)], told[~held], background=background, seed=seed)
    fidelity = excerpts(fitted.surrogate, counts, told, kinds, held)
    fidelity |= documents(ask, aim, corpus, fitted.surrogate, rng)
    settings = {
        "model": access.name,
        "texts": len(corpus),
        "skipped": corpus.skipped,
        "queries": len(asked),
        "min_count": min_count,
        "rare_types": corpus.rare,
        "seed": seed,
        "noise": fitted.noise,
        "parameters": fitted.freedom,
        "iterations": fitted.iterations,
        "status": fitted.status,
    }
    cost = replace(ask.cost, seconds=time.perf_counter() - start)
    return _result(corpus, fitted, aim, fidelity, cost, settings)


def _aim(model: Model, target: str | int | None) -> Target:
    if model.activation == "softmax":
        if target is not None:
            raise InputError(
                "target is for models of independent labels; exclusive labels are fitted together"
            )
        return Target(len(model.labels) - 1, model.labels, model.activation)
    if target is None and len(model.labels) > 1:
        raise InputError(f"the labels are independent; name one as target: {', '.join(model.labels)}")
    return choose_target(model, target, np.zeros(len(model.labels)))


def _held_out(kinds: IntArray, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the queries of several tokens."""
    several = np.flatnonzero((kinds == SHORT) | (kinds == SPAN))
    chosen = rng.permutation(several)[: min(int(np.ceil(_HELD_OUT * len(several))), _MOST_HELD_OUT)]
    return np.isin(np.arange(len(kinds)), chosen)


def _result(
    corpus: Corpus,
    fitted: wide.WideFit,
    aim: Target,
    fidelity: Mapping[str, float],
    cost: Cost,
    settings: Mapping[str, Any],
) -> GlobalSlalom:
    kept, d = corpus.kept, corpus.n_types
    counts = corpus.counts()
    surrogate = fitted.surrogate
    present = sparse.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    holding = np.asarray(present.sum(axis=0))[:d]
    top = surrogate.importances.max()
    weights = np.exp(surrogate.importances - top)
    mass = counts @ weights + np.exp(surrogate.background_importance - top)
    share = weights[:d] * (present.T @ (1.0 / mass))[:d] / np.maximum(holding, 1)
    together = aim.activation == "softmax" and len(aim.labels) > 2
    return GlobalSlalom(
        types=corpus.names(kept),
        pieces=tuple(corpus.tokens.pieces[i] for i in kept),
        documents=holding,
        occurrences=np.asarray(counts.sum(axis=0))[:d],
        surrogate=surrogate,
        importance_stderr=fitted.importance_stderr[:d],
        value_stderr=fitted.value_stderr[:d],
        covariance=fitted.covariance[:d],
        share=share,
        outputs=aim.labels if together else (aim.label,),
        labels=aim.labels,
        fidelity=fidelity,
        cost=cost,
        settings=settings,
    )
