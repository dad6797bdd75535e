"""Running sums over documents for every (group, token type), and what follows from them.

Of a score y, a token type has one number y_d in each document d that holds it (the mean over its copies
there) with a squared standard error σ_d² (the mean over the copies, which are too alike to count as several).
Over its D documents

    mean = Σ y_d / D,   s² = Σ (y_d − mean)² / (D − 1),   σ̄² = Σ σ_d² / D
    τ² = max(0, s² − σ̄²)                     variance between documents (Hedges' variance component)
    standard error of the mean = √((τ² + σ̄²) / D) = √(max(s², σ̄²) / D)

Every document has the same weight, so the mean is the average over the corpus whatever the standard errors.
Weights 1/(σ_d² + τ²) as of DerSimonian and Laird would favour documents whose standard error happens to be
small, and for these scores small standard errors go with small scores: that mean would be biased to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slalom.tokens import FloatArray, IntArray

DECIDED = 2.0
"""Standard errors from zero at which a document's score has a sign; noise alone gives 2 % each way."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens of some documents: which document and type each belongs to, its scores and standard errors."""

    documents: IntArray
    """(n,) numbers from 0."""
    types: IntArray
    """(n,)"""
    scores: FloatArray
    """(n, S); tokens with a score that is not finite are left out."""
    errors: FloatArray
    """(n, S); what is not finite counts as 0."""


@dataclass(frozen=True, eq=False)
class Moments:
    """What the sums of one group say; all arrays are over token types."""

    documents: IntArray
    occurrences: IntArray
    mean: FloatArray
    """(V, S)"""
    stderr: FloatArray
    """(V, S) of the mean; NaN where one document without standard error is all there is."""
    between: FloatArray
    """(V, S) τ: the standard deviation between documents beyond the standard errors."""
    positive: IntArray
    """(V,) documents where the signed score is above zero by more than DECIDED standard errors …"""
    negative: IntArray
    """… and below."""


class Sums:
    """The sums of one group. Memory grows with the number of token types, not with that of documents."""

    def __init__(self, n_scores: int, signed: int):
        self._signed = signed
        self._counts = np.zeros((4, 0), np.int64)
        self._sums = np.zeros((3, n_scores, 0))

    def add(self, batch: Batch) -> None:
        """Documents that were not added before."""
        usable = np.isfinite(batch.scores).all(axis=1)
        documents, types = batch.documents[usable], batch.types[usable]
        if len(types) == 0:
            return
        width = int(types.max()) + 1
        self._grow(width)
        pairs, inverse, copies = np.unique(documents * width + types, return_inverse=True, return_counts=True)
        found, kind = np.unique(pairs % width, return_inverse=True)
        self._counts[0, found] += np.bincount(kind)
        self._counts[1, found] += np.bincount(kind, weights=copies).astype(np.int64)
        errors = np.nan_to_num(batch.errors[usable], nan=0.0, posinf=0.0, neginf=0.0)
        for k, score in enumerate(batch.scores[usable].T):
            y = np.bincount(inverse, weights=score) / copies
            variance = np.bincount(inverse, weights=errors[:, k] ** 2) / copies
            for row, data in enumerate((y, y**2, variance)):
                self._sums[row, k, found] += np.bincount(kind, weights=data)
            if k == self._signed:
                limit = DECIDED * np.sqrt(variance)
                for row, decided in ((2, y > limit), (3, y < -limit)):
                    self._counts[row, found] += np.bincount(kind[decided], minlength=len(found))

    def moments(self, n_types: int) -> Moments:
        """The formulas above, for types 0 … n_types − 1."""
        self._grow(n_types)
        documents, occurrences, positive, negative = self._counts[:, :n_types]
        total, squares, within = (part[:, :n_types].T for part in self._sums)
        count = np.maximum(documents, 1)[:, None]
        mean, inside = total / count, within / count
        scatter = np.maximum(squares - total * mean, 0.0) / np.maximum(count - 1, 1)
        variance = np.maximum(scatter, inside) / count
        unknown = (documents[:, None] < 2) & (inside == 0.0)
        return Moments(
            documents.copy(),
            occurrences.copy(),
            np.where(documents[:, None] > 0, mean, np.nan),
            np.where(unknown, np.nan, np.sqrt(variance)),
            np.sqrt(np.maximum(scatter - inside, 0.0)),
            positive.copy(),
            negative.copy(),
        )

    def _grow(self, width: int) -> None:
        have = self._counts.shape[1]
        if width > have:
            more = max(width - have, have)
            self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, more)))


class Vocabulary:
    """Numbers for strings, in the order they were met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, strings: Sequence[str]) -> IntArray:
        """The numbers of some strings; new ones get the next numbers."""
        known = self._numbers
        return np.fromiter((known.setdefault(s, len(known)) for s in strings), np.int64, len(strings))

    @property
    def strings(self) -> tuple[str, ...]:
        return tuple(self._numbers)
