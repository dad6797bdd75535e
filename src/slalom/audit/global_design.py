"""A corpus as sequences of token types, and the excerpts of it that a model is asked about.

One `Tokens` holds every type of the corpus once. A position of it may stand in a query many times and in any
order, so queries over it are excerpts of any document, or of several.

How far one SLALOM describes a model over a corpus, on queries that were not fitted.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsmr

from slalom.errors import InputError
from slalom.models.ask import Ask
from slalom.models.protocol import Model
from slalom.models.target import Target
from slalom.models.text import WordFrame, is_unspaced
from slalom.perturb import Perturbations
from slalom.scores import r_squared, rms
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, IntArray, Tokens
from slalom.view.tables import least_count

SINGLE, SHORT, SPAN = 0, 1, 2
_SHORT = (2, 3)
_SPAN = (2, 8)
"""Least and most tokens of a query."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents over a vocabulary of token types."""

    tokens: Tokens
    """Every type once."""
    sequence: IntArray
    """The types of all documents, one document after the other."""
    offsets: IntArray
    units: IntArray
    """The unit of every type: its own number among those that are frequent enough, else the last unit."""
    n_types: int
    """Types that are frequent enough."""
    rare: int
    """Types that are not; together they are one unit."""
    inner: np.ndarray
    """Which types mostly go on with a word rather than begin one."""
    skipped: int
    """Texts that hold no token, or are none."""
    min_count: int = 1
    """Copies from which a type is frequent enough."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_units(self) -> int:
        return self.n_types + (self.rare > 0)

    def names(self, types: IntArray) -> tuple[str, ...]:
        """Types as they are shown: a part of a word that is not its beginning starts with …"""
        return tuple(f"{'…' * int(self.inner[i])}{self.tokens.strings[i]}" for i in types)

    @property
    def kept(self) -> IntArray:
        """(n_types,) the type of every unit but that of the rare ones."""
        kept = np.flatnonzero(self.units < self.n_types)
        return kept[np.argsort(self.units[kept], kind="stable")]

    def counts(self) -> sparse.csr_array:
        """(documents × units) how often every unit stands in every document."""
        rows = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        columns = self.units[self.sequence]
        entries = (np.ones(len(rows)), (rows, columns))
        result = sparse.csr_array(entries, shape=(len(self), self.n_units))
        result.sum_duplicates()
        return result

    def documents(self, chosen: IntArray) -> Perturbations:
        """Whole documents as queries."""
        spans = [self.sequence[self.offsets[i] : self.offsets[i + 1]] for i in chosen]
        lengths = np.array([len(span) for span in spans], np.int64)
        return Perturbations(np.concatenate(spans), np.r_[0, np.cumsum(lengths)], len(self.tokens))


def read_corpus(model: Model, texts: Iterable[str], given: int | Literal["auto"]) -> Corpus:
    """The token types of some texts; those with fewer than so many copies share one unit."""
    numbers: dict[str | tuple[int, ...], int] = {}
    strings: list[str] = []
    parts: list[IntArray] = []
    inside: list[np.ndarray] = []
    frame, skipped = None, 0
    for text in texts:
        try:
            found = model.tokenize(text)
        except InputError:
            skipped += 1
            continue
        frame = found.frame if frame is None else frame
        keys = found.strings if isinstance(found.frame, WordFrame) else found.pieces
        for key, string in zip(keys, found.strings, strict=True):
            if key not in numbers:
                numbers[key] = len(strings)
                strings.append(string)
        parts.append(np.array([numbers[key] for key in keys], np.int64))
        inside.append(np.append(False, np.diff(found.words) == 0))
    if len(strings) == 0:
        raise InputError(f"there is nothing to fit: none of the {skipped} texts holds a token")
    sequence = np.concatenate(parts)
    copies = np.bincount(sequence, minlength=len(strings))
    min_count = least_count(len(parts)) if given == "auto" else given
    frequent = copies >= min_count
    n_types = int(frequent.sum())
    if n_types == 0:
        raise InputError(f"no token occurs {min_count} times in the corpus; lower min_count")
    units = np.where(frequent, np.cumsum(frequent) - 1, n_types)
    offsets = np.r_[0, np.cumsum([len(part) for part in parts])]
    inner = np.bincount(sequence, weights=np.concatenate(inside), minlength=len(strings)) > 0.5 * copies
    pieces = [key for key in numbers if isinstance(key, tuple)]
    tokens = _types(pieces, strings, frame)
    return Corpus(
        tokens, sequence, offsets, units, n_types, len(strings) - n_types, inner, skipped, min_count
    )


def _types(keys: Sequence[tuple[int, ...]], strings: list[str], frame: object) -> Tokens:
    """Tokens that hold every type once, in the frame of the first document."""
    n = len(strings)
    text, spans = "", np.zeros((n, 2), np.int64)
    if isinstance(frame, WordFrame):
        gaps = ["", *(_gap(left, right) for left, right in pairwise(strings))]
        text = "".join(part for pair in zip(gaps, strings, strict=True) for part in pair)
        spans[:, 1] = np.cumsum([len(gap) + len(string) for gap, string in zip(gaps, strings, strict=True)])
        spans[:, 0] = spans[:, 1] - [len(string) for string in strings]
        frame = replace(frame, texts=(text,))
        keys = [(i,) for i in range(n)]
    return Tokens(text, tuple(strings), spans, tuple(keys), np.arange(n), np.zeros(n, np.int64), frame)


def _gap(left: str, right: str) -> str:
    return "" if is_unspaced(left[-1]) and is_unspaced(right[0]) else " "


def draw(corpus: Corpus, n: int, rng: np.random.Generator) -> tuple[Perturbations, IntArray]:
    """n queries and their kinds: every type alone, spans of documents, short sequences across documents.

    At most a quarter are single tokens. Half of all other tokens are drawn by how often they occur, half are
    drawn with the same chance for every type, so that rare types are asked about often enough.
    """
    kept = corpus.kept
    singles = rng.permutation(kept)[: max(1, n // 4)]
    longest = int(np.diff(corpus.offsets).max())
    n_spans = (n - len(singles)) // 2 if longest > 1 else 0
    n_short = n - len(singles) - n_spans
    alone = Perturbations(singles, np.arange(len(singles) + 1), len(corpus.tokens))
    parts = [alone, _short(corpus, n_short, rng), _spans(corpus, n_spans, rng)]
    kinds = np.repeat([SINGLE, SHORT, SPAN], [len(part) for part in parts])
    positions = np.concatenate([part.positions for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    return Perturbations(positions, np.r_[0, np.cumsum(lengths)], len(corpus.tokens)), kinds


def _places(corpus: Corpus, n: int, rng: np.random.Generator) -> IntArray:
    """n places in the corpus: half anywhere, half at a random copy of a random type."""
    order = np.argsort(corpus.sequence, kind="stable")
    copies = np.bincount(corpus.sequence, minlength=len(corpus.tokens))
    ends = np.cumsum(copies)
    kind = rng.choice(corpus.kept, n)
    at_type = order[ends[kind] - 1 - (rng.random(n) * copies[kind]).astype(np.int64)]
    return np.where(rng.random(n) < 0.5, rng.integers(len(corpus.sequence), size=n), at_type)


def _short(corpus: Corpus, n: int, rng: np.random.Generator) -> Perturbations:
    lengths = rng.integers(_SHORT[0], _SHORT[1] + 1, n)
    offsets = np.r_[0, np.cumsum(lengths)]
    places = _places(corpus, int(offsets[-1]), rng)
    return Perturbations(corpus.sequence[places], offsets, len(corpus.tokens))


def _spans(corpus: Corpus, n: int, rng: np.random.Generator) -> Perturbations:
    """Runs of tokens around a place, within its document."""
    place = _places(corpus, n, rng)
    document = np.searchsorted(corpus.offsets, place, side="right") - 1
    wanted = rng.integers(_SPAN[0], _SPAN[1] + 1, n)
    start = np.maximum(place - (rng.random(n) * wanted).astype(np.int64), corpus.offsets[document])
    end = np.minimum(start + wanted, corpus.offsets[document + 1])
    offsets = np.r_[0, np.cumsum(end - start)]
    index = np.repeat(start - offsets[:-1], end - start) + np.arange(offsets[-1])
    return Perturbations(corpus.sequence[index], offsets, len(corpus.tokens))


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
    result = {"r2": r_squared(truth, told), "rmse": rms(truth - told), "constant_rmse": rms(truth - mean)}
    for name, kind in (("short_r2", SHORT), ("span_r2", SPAN)):
        own = kinds[rows] == kind
        if own.any():
            result[name] = r_squared(truth[own], told[own])
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

    return max(r_squared(truth, told(damp)) for damp in (0.3, 1.0, 3.0))


def documents(
    ask: Ask, aim: Target, corpus: Corpus, surrogate: Slalom, rng: np.random.Generator
) -> dict[str, float]:
    """How well whole documents are predicted, of which only excerpts were asked about."""
    chosen = np.sort(rng.permutation(len(corpus))[:_DOCUMENTS])
    queries = corpus.documents(chosen)
    truth = aim.signal(answers(ask, queries))
    told = surrogate.predict(queries.counts(corpus.units, corpus.n_units))
    return {"document_r2": r_squared(truth, told), "documents": float(len(chosen))}
