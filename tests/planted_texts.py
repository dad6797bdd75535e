"""A problem that a single layer solves: one word of a text says its label."""

from __future__ import annotations

import random

from slalom.data import Document

GOOD: tuple[str, ...] = ("great", "lovely", "tasty", "perfect")
BAD: tuple[str, ...] = ("awful", "slow", "bland", "rude")
FILLER: tuple[str, ...] = (
    "the",
    "a",
    "food",
    "staff",
    "was",
    "and",
    "we",
    "had",
    "with",
    "our",
    "place",
    "room",
    "table",
)


def planted(number: int, seed: int = 0, first: int = 0) -> list[Document]:
    source = random.Random(seed)
    documents = []
    for place in range(first, first + number):
        label = place % 2
        words: list[str] = source.choices(FILLER, k=source.randrange(3, 12))
        words.insert(source.randrange(len(words)), source.choice(GOOD if label else BAD))
        documents.append(Document(" ".join(words), label, f"text {place}"))
    return documents
