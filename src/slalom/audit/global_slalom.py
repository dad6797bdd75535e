"""One SLALOM for a model over a whole corpus: the result, its file, and how it is fitted."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from scipy import sparse

from slalom.api import Explainer
from slalom.audit import wide
from slalom.audit.global_design import SHORT, SPAN, Corpus, answers, documents, draw, excerpts, read_corpus
from slalom.checks import at_least_one
from slalom.errors import InputError
from slalom.explanation import Cost
from slalom.files import Record, from_json, number, plain, read_text, to_json, write_text
from slalom.models import open_model
from slalom.models.ask import Ask
from slalom.models.protocol import Model
from slalom.models.target import Target, choose_target
from slalom.serialise import cost_from, matrix, numbers, strings, surrogate_from, surrogate_record
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray, frozen

FORMAT = "slalom-global"
VERSION = 1


@dataclass(frozen=True, eq=False)
class GlobalSlalom:
    """A SLALOM over the token types of a corpus; arrays have one row for each type.

    Two exclusive labels have one output, the log-odds of the second; more have one each, centred over the
    labels; independent labels have one output, that of `target`.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.audit.global_slalom import fit_global
        >>> fitted = fit_global(Explainer(), ["a great film", "a dull film"], queries=100, min_count=1)
        >>> fitted.outputs
        ('positive',)
        >>> sorted(fitted.types)
        ['a', 'dull', 'film', 'great']
    """

    types: tuple[str, ...]
    pieces: tuple[tuple[int, ...], ...]
    """The model's ids of every type."""
    documents: IntArray
    """Documents of the corpus that hold the type …"""
    occurrences: IntArray
    """… and its copies there."""
    surrogate: Slalom
    """Over the types and, last, one unit for all types that are too rare."""
    importance_stderr: FloatArray
    value_stderr: FloatArray
    """(d, C)"""
    covariance: FloatArray
    """(d, C) of a type's importance with its values. Covariances between types are not kept."""
    share: FloatArray
    """(d,) mean softmax share of one copy in the documents that hold the type."""
    outputs: tuple[str, ...]
    """The label that each output speaks for."""
    labels: tuple[str, ...]
    fidelity: Mapping[str, float] = field(default_factory=dict[str, float])
    """On queries that were not fitted."""
    cost: Cost = field(default_factory=Cost)
    settings: Record = field(default_factory=Record)

    def __post_init__(self) -> None:
        for name in ("importance_stderr", "value_stderr", "covariance", "share"):
            object.__setattr__(self, name, frozen(getattr(self, name), float))
        for name in ("documents", "occurrences"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))
        for name in ("fidelity", "settings"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        d, c = len(self.types), len(self.outputs)
        shapes = [self.value_stderr.shape, self.covariance.shape, (*self.importance_stderr.shape, c)]
        if any(shape != (d, c) for shape in shapes) or len(self.surrogate.importances) not in (d, d + 1):
            raise ValueError(f"{d} types and {c} outputs, but standard errors of shape {shapes}")

    @property
    def values(self) -> FloatArray:
        """(d, C) what each type says on its own."""
        return self.surrogate.values[: len(self.types)]

    @property
    def importances(self) -> FloatArray:
        """(d,) how much each type counts among others."""
        return self.surrogate.importances[: len(self.types)]

    def linear(self) -> tuple[FloatArray, FloatArray]:
        """(d, C) share · value in an average document that holds the type, and its standard error.

        By the delta method with the shares of all other tokens as they are: ∂(α v) = α ∂v + α (1 − α) v ∂s.
        """
        alpha, by_s = self.share[:, None], (1.0 - self.share[:, None]) * self.values
        variance = self.value_stderr**2 + (by_s * self.importance_stderr[:, None]) ** 2
        variance = np.maximum(variance + 2.0 * by_s * self.covariance, 0.0)
        return alpha * self.values, alpha * np.sqrt(variance)

    def to_dict(self) -> Record:
        """The document that `save` writes, in JSON's own types."""
        arrays = ("documents", "occurrences", "importance_stderr", "value_stderr", "covariance", "share")
        rest = ("types", "pieces", "outputs", "labels", "fidelity", "settings")
        return {
            "format": FORMAT,
            "version": VERSION,
            **{name: plain(getattr(self, name)) for name in (*rest, *arrays)},
            "cost": plain(vars(self.cost)),
            "surrogate": surrogate_record(self.surrogate),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; the file is replaced as a whole or not touched."""
        write_text(path, to_json(self.to_dict(), indent=None) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GlobalSlalom:
        """Read what `save` wrote. Nothing in the file is executed."""
        source = repr(os.fspath(path))
        document = from_json(read_text(path), source)
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            found = f"{document.get('format')!r}, version {document.get('version')!r}"
            raise InputError(f"{source} is no saved global SLALOM of version {VERSION}: it is {found}")
        try:
            return _from_record(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{source} is damaged: {type(error).__name__}: {error}") from error


def _from_record(record: Record) -> GlobalSlalom:
    surrogate = surrogate_from(record["surrogate"])
    if not isinstance(surrogate, Slalom):
        raise ValueError("its surrogate is no SLALOM")
    return GlobalSlalom(
        types=strings(record["types"]),
        pieces=tuple(tuple(int(i) for i in piece) for piece in record["pieces"]),
        documents=np.array(record["documents"], np.int64),
        occurrences=np.array(record["occurrences"], np.int64),
        surrogate=surrogate,
        importance_stderr=numbers(record["importance_stderr"]),
        value_stderr=matrix(record["value_stderr"]),
        covariance=matrix(record["covariance"]),
        share=numbers(record["share"]),
        outputs=strings(record["outputs"]),
        labels=strings(record["labels"]),
        fidelity={name: number(value) for name, value in record["fidelity"].items()},
        cost=cost_from(record["cost"]),
        settings=record["settings"],
    )


__all__ = ["GlobalSlalom", "fit_global"]

PER_TYPE, FEWEST, MOST = 25, 2_000, 300_000
"""Queries that are asked by default: so many for each type, within bounds."""
_HELD_OUT = 0.1
_MOST_HELD_OUT = 5_000


def fit_global(
    model: object,
    texts: Iterable[str],
    *,
    queries: int | Literal["auto"] = "auto",
    seed: int = 0,
    min_count: int | Literal["auto"] = 2,
    target: str | int | None = None,
    background: bool = True,
    progress: Callable[[int], None] | None = None,
) -> GlobalSlalom:
    """Fit one SLALOM to a model's answers about excerpts of many texts.

    Args:
        model: an `Explainer`, or whatever one takes.
        texts: a corpus, or a vocabulary of single words.
        queries: how many excerpts to ask about; by default 25 for each type, 2 000 to 300 000.
        seed: the same seed asks about the same excerpts.
        min_count: types with fewer copies share one pair of scores; "auto" chooses 1 to 20, by the size of
            the corpus.
        target: the label, for models of independent labels.
        background: whether special tokens get a value and an importance.
        progress: called with the number of queries that were answered.

    Returns:
        The fitted surrogate, with its fidelity on excerpts and documents that were held out.

    Raises:
        InputError: the texts are none, or an option is out of its range.

    Example:
        >>> from slalom import Explainer
        >>> from slalom.audit.global_slalom import fit_global
        >>> fitted = fit_global(Explainer(), ["a great film", "a dull film"], queries=100, min_count=1)
        >>> bool(fitted.values[fitted.types.index("great"), 0] > fitted.values[fitted.types.index("dull"), 0])
        True
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"texts must be many texts, not a {type(texts).__name__}; give a list")
    if queries != "auto" and (not isinstance(queries, int) or queries < 20):
        raise InputError(f"queries must be 'auto' or a whole number of at least 20; got {queries!r}")
    at_least_one(min_count=None if min_count == "auto" else min_count)
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
        "min_count": corpus.min_count,
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
    settings: Record,
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
        pieces=tuple(corpus.tokens.pieces[int(i)] for i in kept),
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
