"""Documents with what people said about them, those that belong together, and how some are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import numpy as np

from slalom.errors import InputError


@dataclass(frozen=True)
class Document:
    """A text (or a pair of texts), its label and its human annotations, where there are any.

    words: the words that the annotators saw. maps: by name, one 0 or 1 for each of them: "consensus",
    "majority" and "superset" (Yelp-HAT), "rationale" (ERASER movies), "majority" and "union" (HateXplain).
    """

    text: str | tuple[str, str]
    label: int | None = None
    id: str = ""
    words: tuple[str, ...] | None = None
    maps: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.maps and self.words is None:
            raise InputError(f"document {self.id!r} has human maps but not the words they belong to")
        for name, marks in self.maps.items():
            if len(marks) != len(self.words or ()):
                raise InputError(
                    f"document {self.id!r}: the map {name!r} has {len(marks)} marks for "
                    f"{len(self.words or ())} words"
                )


@dataclass(frozen=True)
class Dataset:
    """Documents, the names of their labels, and what had to be left out.

    labels: the name of every label; None where the source has numbers only. skipped: how many rows were
    left out, by reason (`on_bad="skip"`).
    """

    name: str
    documents: Sequence[Document]
    labels: tuple[str, ...] | None = None
    split: str | None = None
    skipped: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, place: int) -> Document:
        return self.documents[place]

    def pairs(self) -> list[tuple[str | tuple[str, str], str | int]]:
        """(text, label) of every labelled document, the label by its name where it has one."""
        names = self.labels
        return [
            (document.text, document.label if names is None else names[document.label])
            for document in self.documents
            if document.label is not None
        ]


def draw(
    documents: Sequence[Document],
    *,
    limit: int | None = None,
    seed: int | None = None,
    balanced: bool = False,
) -> tuple[Document, ...]:
    """Up to `limit` documents: the first ones, or with a `seed` random ones in random order.

    With the same seed, a smaller sample is the beginning of a larger one. `balanced` takes equally many
    of every label, in turn, and leaves out documents without one.
    """
    if limit is not None and not (type(limit) is int and limit > 0):
        raise InputError(f"limit must be a positive whole number; got {limit!r}")
    if seed is not None and not (type(seed) is int and seed >= 0):
        raise InputError(f"seed must be a whole number of at least 0; got {seed!r}")
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(documents))
        documents = [documents[place] for place in order]
    if balanced:
        documents = _in_turn(documents)
    return tuple(documents[:limit])


def _in_turn(documents: Sequence[Document]) -> list[Document]:
    """One document of each label after the other, as many as the rarest label has."""
    groups: dict[int, list[Document]] = {}
    for document in documents:
        if document.label is not None:
            groups.setdefault(document.label, []).append(document)
    if len(groups) < 2:
        raise InputError(f"a balanced sample needs documents of two labels or more; there are {len(groups)}")
    rarest = min(map(len, groups.values()))
    rounds = zip_longest(*(groups[label][:rarest] for label in sorted(groups)))
    return [document for document in chain.from_iterable(rounds) if document is not None]
