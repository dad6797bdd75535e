"""How many queries of which kind SLALOM asks, portion by portion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from slalom import designs
from slalom.perturb import Perturbations
from slalom.tokens import Tokens

Effort = Literal["fast", "balanced", "faithful"]
Kind = Literal["single", "short", "span", "scattered", "deletion"]
Portion = list[tuple[Kind, Perturbations]]
Rng = np.random.Generator

LENGTH = 5
"""Tokens of the sequences that `fast` asks about: better than the paper's three and than a mixture of
lengths (docs/design-study.md); of one length, they cannot tell a background from the tokens."""
_SHORT_LENGTHS: tuple[int, ...] = (2, 3)
_LEAST_SHORT = 16
_LONGEST_SPAN = 8
_LONGEST_SCATTERED = 48
_MOST_EXCERPTS = 200
"""Of each kind in a portion of size one: long texts have more tokens, but not more kinds of context."""
_BLOCK = 5
_LEAST_COPIES = 25
"""Copies with a block left out in a portion of size one; fewer say too little about short texts."""


@dataclass(frozen=True)
class Pace:
    """When an effort with an automatic budget looks at what it has, and when it stops."""

    first: int
    """Size of the first portion; size one asks each kind about as often as the text has tokens."""
    last: int
    """Total size at which it stops in any case."""
    certainty: float
    """It stops when the order of two tokens is right with this probability, on average over pairs."""


PACES: Mapping[Effort, Pace] = {
    "fast": Pace(first=4, last=9, certainty=0.85),
    "balanced": Pace(first=2, last=4, certainty=0.8),
    "faithful": Pace(first=4, last=8, certainty=0.92),
}


def portions(
    tokens: Tokens, effort: Effort, budget: int | Literal["auto"], seed: int, length: int = LENGTH
) -> Iterator[Portion]:
    """The queries to ask, one portion after the other; a fixed budget is one portion of that many.

    `fast` asks about sequences of `length` tokens, where the text is long enough for that.
    """
    rng = np.random.default_rng(seed)
    pace = PACES[effort]
    if effort == "fast" and len(tokens) >= 2 * length:
        sizes = [pace.first] + [1] * (pace.last - pace.first) if budget == "auto" else []
        counts = [size * _short_rate(tokens) for size in sizes] or [max(int(budget) - 1, 1)]
        for count in counts:
            yield [("short", designs.picked(len(tokens), count, length, rng))]
    elif budget != "auto":
        yield _within(tokens, effort, budget, rng)
    else:
        yield _opening(tokens, effort) + _portion(tokens, effort, pace.first, rng)
        for _ in range(pace.last - pace.first):
            yield _portion(tokens, effort, 1, rng)


def _within(tokens: Tokens, effort: Effort, budget: int, rng: Rng) -> Portion:
    """At most `budget` queries, one of which (the whole text) is asked anyway.

    A budget too small for the opening goes to short queries of three, so that every token is seen.
    """
    room = max(budget - 1, 1)
    opening = _opening(tokens, effort)
    asked = sum(len(queries) for _, queries in opening)
    if room < 2 * asked:
        return [("short", designs.short(tokens.first, len(tokens), room, (_SHORT_LENGTHS[-1],), rng))]
    room -= asked
    rates = _rates(tokens, effort)
    counts: dict[Kind, int] = {kind: int(room * rate / sum(rates.values())) for kind, rate in rates.items()}
    counts["short"] += room - sum(counts.values())
    drawn: Portion = [
        (kind, _draw(kind, tokens, effort, count, rng)) for kind, count in counts.items() if count
    ]
    return opening + drawn


def _opening(tokens: Tokens, effort: Effort) -> Portion:
    """What is asked once: types on their own; with effort "faithful" also the text without each token."""
    opening: Portion = [("single", designs.singles(tokens.first, len(tokens)))]
    if effort == "faithful" and len(tokens) > 1:
        opening.append(("deletion", designs.leave_one_out(len(tokens))))
    return opening


def _portion(tokens: Tokens, effort: Effort, size: int, rng: Rng) -> Portion:
    rates = _rates(tokens, effort)
    return [(kind, _draw(kind, tokens, effort, size * rate, rng)) for kind, rate in rates.items()]


def _rates(tokens: Tokens, effort: Effort) -> dict[Kind, int]:
    """Queries of each kind in a portion of size one."""
    n, short = len(tokens), _short_rate(tokens)
    if effort == "fast" or n < 3:
        return {"short": short}
    excerpts = min(n, _MOST_EXCERPTS)
    copies = ceil((2 if effort == "faithful" else 1.5) * n / _block(n))
    least = min(_LEAST_COPIES, 4 * n)  # a short text has few different copies
    return {"short": short, "span": excerpts, "scattered": excerpts, "deletion": max(copies, least)}


def _short_rate(tokens: Tokens) -> int:
    return max(tokens.n_types, _LEAST_SHORT)


def _block(n: int) -> int:
    return min(_BLOCK, max(n // 2, 1))


def _draw(kind: Kind, tokens: Tokens, effort: Effort, count: int, rng: Rng) -> Perturbations:
    n = len(tokens)
    if kind == "short":
        return designs.short(tokens.first, n, count, _SHORT_LENGTHS, rng)
    if kind == "span":
        return designs.spans(n, count, _LONGEST_SPAN, rng)
    if kind == "scattered":
        return designs.scattered(n, count, min(max(n // 2, 8), _LONGEST_SCATTERED), rng)
    covers = ceil(count / ceil(n / _block(n)))
    return designs.blocks(n, _block(n), covers, rng)[:count]
