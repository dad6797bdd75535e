"""What to leave out of a text that is longer than the model's limit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slalom.errors import ModelError, SlalomWarning
from slalom.models.texts import Span, join_texts
from slalom.tokens import IntArray


@dataclass(frozen=True, eq=False)
class Encoded:
    """The model's whole input for a text: ids, token types, whose they are and where they come from."""

    ids: IntArray
    types: IntArray
    owner: IntArray
    """0 and 1 for tokens of the first and second text, -1 for special tokens."""
    spans: list[Span]
    """Offsets into the text the token belongs to."""


def cut_to(
    limit: int | None, encoded: Encoded, texts: tuple[str, ...], lengths: Sequence[int]
) -> tuple[Encoded, int | None]:
    """The input shortened to the limit, with a warning, and the offset of the first character left out.

    A text is cut at its end; in a pair the longer text is cut, and the shorter one too once both are
    down to half of the room. `lengths` are those of the texts that were given, of which `texts` were read.
    """
    if limit is None or len(encoded.ids) <= limit:
        return encoded, None
    counts = [int(np.sum(encoded.owner == side)) for side in range(len(texts))]
    special = len(encoded.ids) - sum(counts)
    room = limit - special
    if room < len(texts):
        raise ModelError(
            f"the model takes {limit} tokens, of which {special} are special: no room for a text"
        )
    kept = _share(counts, room)
    keep = np.ones(len(encoded.ids), bool)
    ends: dict[int, int] = {}
    for side, count in enumerate(kept):
        dropped = np.flatnonzero(encoded.owner == side)[count:]
        if len(dropped):
            keep[dropped] = False
            ends[side] = _first_visible(texts[side], encoded.spans[dropped[0]])
    parts = []
    for side, end in ends.items():
        name = "the text" if len(texts) == 1 else ("the first text", "the second text")[side]
        count = f"{'more than ' if lengths[side] > len(texts[side]) else ''}{counts[side]}"
        used = f"the first {kept[side]} ({end} of {lengths[side]} characters)"
        parts.append(f"{name} has {count} tokens, only {used} are used")
    message = f"{'; '.join(parts)}: the model takes {limit} tokens, {special} of them special tokens"
    warnings.warn(message, SlalomWarning, stacklevel=5)
    spans = [span for span, stays in zip(encoded.spans, keep, strict=True) if stays]
    start = join_texts(texts)[1]
    shorter = Encoded(encoded.ids[keep], encoded.types[keep], encoded.owner[keep], spans)
    return shorter, min(start[side] + end for side, end in ends.items())


def _share(counts: list[int], room: int) -> list[int]:
    """How many tokens each text keeps."""
    if len(counts) == 1:
        return [room]
    longer = int(counts[1] > counts[0])
    keep = max(room - counts[1 - longer], (room + 1) // 2)
    return [keep, room - keep] if longer == 0 else [room - keep, keep]


def _first_visible(text: str, span: Span) -> int:
    low, high = span
    visible = text[low:high].lstrip()
    return high - len(visible) if visible else low
