"""One text to be classified, with what people said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
