"""How often every token stands in texts of every label: the Naive Bayes weights of a corpus (maths 6)."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from slalom.data.document import Document
from slalom.errors import InputError, SlalomWarning
from slalom.evaluate.protocol import NotApplicable
from slalom.models.protocol import Model
from slalom.tokens import FloatArray, Tokens

SMOOTHING = 20.0


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Counts with multiplicity, one `Counter` for each label of the model."""

    counts: tuple[Counter[Hashable], ...] = field(repr=False)
    texts: tuple[int, ...]
    """How many texts of each label were read."""
    by_id: bool
    """Whether tokens are told apart by the model's ids; by their strings where it has none."""

    def weights(self, tokens: Tokens, label: int, smoothing: float = SMOOTHING) -> FloatArray:
        """(d,) log((c⁺ + smoothing) / (c⁻ + smoothing)) of every token type, c⁻ from all other labels.

        c⁻ is scaled to as many texts as c⁺ is from: in an unbalanced corpus all tokens would lean one way.
        """
        keys = _keys(tokens, self.by_id)
        own = np.array([self.counts[label][keys[i]] for i in tokens.first], dtype=float)
        every = np.array([sum(c[keys[i]] for c in self.counts) for i in tokens.first], dtype=float)
        texts, others = self.texts[label], sum(self.texts) - self.texts[label]
        if not texts or not others:
            raise NotApplicable("the corpus lacks texts of the explained label or of the others")
        return np.log((own + smoothing) / ((every - own) * texts / others + smoothing))


def label_counts(
    model: Model, documents: Iterable[Document], granularity: Literal["positions", "words"] = "positions"
) -> LabelCounts:
    """Count the model's tokens (or whole words) in labelled documents; those without a label are left out."""
    by_id = getattr(model, "tokenizer", None) is not None
    counts: dict[int, Counter[Hashable]] = defaultdict(Counter)
    texts: Counter[int] = Counter()
    for document in documents:
        if document.label is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlalomWarning)  # texts beyond the model's limit are cut here too
            tokens = model.tokenize(document.text)
        # some models know their labels from their first text on
        if not 0 <= document.label < len(model.labels):
            raise InputError(
                f"document {document.id!r} has the label {document.label}; "
                f"the model's labels are 0 to {len(model.labels) - 1}: {', '.join(model.labels)}"
            )
        counts[document.label].update(_keys(tokens.joined() if granularity == "words" else tokens, by_id))
        texts[document.label] += 1
    if len(texts) < 2:
        raise InputError(f"label counts need texts of two labels at least; there are {dict(texts)} by label")
    labels = range(len(model.labels))
    return LabelCounts(tuple(counts[i] for i in labels), tuple(texts[i] for i in labels), by_id)


def _keys(tokens: Tokens, by_id: bool) -> list[Hashable]:
    return list(tokens.pieces if by_id else tokens.strings)
