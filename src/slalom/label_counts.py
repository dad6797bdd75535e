"""How often every token stands in texts of every label: the Naive Bayes weights of a corpus (maths 6)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from slalom.checks import shown
from slalom.data import Document, read, splits
from slalom.errors import InputError, SlalomWarning
from slalom.models.protocol import Model, Text
from slalom.tokens import FloatArray, Tokens

SMOOTHING = 20.0

Counts = tuple[Counter[Hashable], ...]
"""With multiplicity, one for each label of the model."""


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """How often every token, and every whole word, stands in the texts of each label."""

    labels: tuple[str, ...]
    tokens: Counts = field(repr=False)
    words: Counts = field(repr=False)
    texts: tuple[int, ...]
    """How many texts of each label were read."""
    by_id: bool
    """Whether tokens are told apart by the model's ids; by their strings where it has none."""

    def fits(self, model: Model) -> bool:
        """Whether these counts can be about the tokens and labels of this model."""
        return self.labels == model.labels and self.by_id == model.by_id

    def weights(self, tokens: Tokens, label: int, smoothing: float = SMOOTHING) -> FloatArray:
        """(d,) log((c⁺ + smoothing) / (c⁻ + smoothing)) of every token type, c⁻ from all other labels.

        c⁻ is scaled to as many texts as c⁺ is from: in an unbalanced corpus all tokens would lean one way.
        Tokens that are whole words, some of several pieces, are looked up among the words.
        """
        texts, others = self.texts[label], sum(self.texts) - self.texts[label]
        if not texts or not others:
            raise InputError(
                f"Naive Bayes needs texts of {self.labels[label]!r} and of other labels; "
                f"{texts} and {others} were counted: count in texts of both"
            )
        counts = self.words if _are_words(tokens) else self.tokens
        every = _keys(tokens, self.by_id)
        keys = [every[int(i)] for i in tokens.first]
        own = np.array([counts[label][key] for key in keys], dtype=float)
        total = np.array([sum(count[key] for count in counts) for key in keys], dtype=float)
        return np.log((own + smoothing) / ((total - own) * texts / others + smoothing))


def label_counts(model: Model, documents: Iterable[Document]) -> LabelCounts:
    """Count the model's tokens and whole words in labelled documents; those without a label are left out."""
    tokens: dict[int, Counter[Hashable]] = {}
    words: dict[int, Counter[Hashable]] = {}
    texts: Counter[int] = Counter()
    for document in documents:
        if document.label is None:
            continue
        found = _tokenized(model, document)
        tokens.setdefault(document.label, Counter()).update(_keys(found, model.by_id))
        words.setdefault(document.label, Counter()).update(_keys(found.joined(), model.by_id))
        texts[document.label] += 1
    if len(texts) < 2:
        told = "".join(f"{number} of {model.labels[label]!r} alone" for label, number in texts.items())
        raise InputError(
            f"Naive Bayes needs labelled texts of two labels at least; there are {told or 'none'}: "
            "give texts of other labels too"
        )
    every = range(len(model.labels))
    return LabelCounts(
        model.labels,
        tuple(tokens.get(i, Counter()) for i in every),
        tuple(words.get(i, Counter()) for i in every),
        tuple(texts[i] for i in every),
        model.by_id,
    )


def _tokenized(model: Model, document: Document) -> Tokens:
    """The tokens of a document whose label the model has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)  # texts beyond the model's limit are cut here too
        try:
            tokens = model.tokenize(document.text)
        except InputError as error:
            raise InputError(f"words cannot be counted in document {document.id!r}: {error}") from error
    # some models know their labels from their first text on
    if document.label is None or not 0 <= document.label < len(model.labels):
        raise InputError(
            f"document {document.id!r} has the label {document.label}; "
            f"the model's labels are 0 to {len(model.labels) - 1}: {', '.join(model.labels)}"
        )
    return tokens


def _are_words(tokens: Tokens) -> bool:
    """Whether pieces were joined into words. Where every word is a single piece it cannot be told: no."""
    return any(len(piece) > 1 for piece in tokens.pieces)


def _keys(tokens: Tokens, by_id: bool) -> list[Hashable]:
    """What makes two tokens of different texts the same."""
    return list(tokens.pieces if by_id else tokens.strings)


class _Counted(NamedTuple):
    data: object
    pairs: tuple[tuple[Text, object], ...]
    counts: LabelCounts


_LAST: WeakKeyDictionary[Model, _Counted] = WeakKeyDictionary()
"""For every model what was counted last: a list of texts is explained with the same data again and again."""


def counted(model: Model, data: Iterable[object] | str | Path) -> LabelCounts:
    """The counts in (text, label) pairs, or in a file or data set; not counted anew for the next text."""
    last = _LAST.get(model)
    if last is not None and last.data is data and isinstance(data, Iterator):
        return last.counts  # it has nothing more to give
    given = _read(data) if isinstance(data, str | Path) else data
    pairs = tuple(_pair(pair, place) for place, pair in enumerate(given))
    if last is None or last.pairs != pairs:
        counts = label_counts(model, (_document(model, *pair, place) for place, pair in enumerate(pairs)))
        last = _LAST[model] = _Counted(data, pairs, counts)
    return last.counts


def _pair(pair: object, place: int) -> tuple[Text, object]:
    parts = list(cast("Sequence[object]", pair)) if isinstance(pair, tuple | list) else []
    if len(parts) != 2:
        raise InputError(
            f"entry {place} of the data must be a pair (text, label); got {shown(cast(object, pair))}"
        )
    return cast(Text, parts[0]), parts[1]


def _document(model: Model, text: Text, label: object, place: int) -> Document:
    return Document(text, _index(label, model.labels, place), str(place))


def _index(label: object, labels: Sequence[str], place: int) -> int:
    names = [name.lower() for name in labels]
    if str(label).lower() in names:
        return names.index(str(label).lower())
    if str(label).isdecimal() and int(str(label)) < len(names):
        return int(str(label))
    raise InputError(
        f"entry {place} of the data has the label {label!r}; the model's labels are {', '.join(labels)}"
    )


def _read(source: str | Path) -> Sequence[tuple[Text, str | int]]:
    """The labelled texts of a file or of a data set known by name: its split for training, if it has one."""
    split = "train" if "train" in splits(source) else None
    pairs = read(source, split=split).pairs()
    if not pairs:
        raise InputError(f"{source} has texts but no labels; 'naive_bayes' needs a column with labels")
    return pairs
