"""Which copies of the text SLALOM asks about, portion by portion (maths 3f); what those over types share."""

# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal

import numpy as np

from slalom import designs
from slalom.explainers._common import Design, finish, for_target, held_out
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import Perturbations, join, whole
from slalom.scores import slalom_readings
from slalom.surrogate import Counts, Slalom
from slalom.tokens import FloatArray, IntArray, Tokens

Effort = Literal["fast", "balanced", "faithful"]
Kind = Literal["single", "short", "long", "prefix", "gradient", "near", "removal"]
Portion = list[tuple[Kind, Perturbations]]
Rng = np.random.Generator

_HOLD_OUT_EVERY = 8
_LEAST = 16
"""Fewer queries than this are all fitted."""
_LONGEST_SHORT = 16
"""Copies up to this size are cheap, and most of them."""
_SHORT, _LONG, _GRADIENTS = 8, 0.36, 2
_MOST_SHORT = 84
"""Of a portion of size one: short and long copies by the root of the length, gradients; most short ones."""
_NEAR = {"fast": 0, "balanced": 8, "faithful": 40}
_MOST_GONE = 10
_BACKWARD = 3
"""A forward and a backward pass cost about this many forward passes."""


@dataclass(frozen=True)
class EffortPlan:
    """When an effort with an automatic budget looks at what it has, and when it stops."""

    first: int
    """Size of the first portion."""
    last: int
    """Size of both portions together."""
    certainty: float
    """It stops when the order of two tokens is right with this probability, on average over pairs …"""
    r2: float
    """… and as much of the model's answers to copies of all sizes is predicted."""
    measured: int
    """Texts up to this many tokens are asked about without each of their tokens, and of their words."""


PACES: Mapping[Effort, EffortPlan] = {
    "fast": EffortPlan(first=2, last=2, certainty=0.0, r2=0.0, measured=0),
    "balanced": EffortPlan(first=4, last=8, certainty=0.0, r2=0.6, measured=50),
    "faithful": EffortPlan(first=8, last=16, certainty=0.92, r2=0.95, measured=128),
}


def portions(
    tokens: Tokens,
    effort: Effort,
    budget: int | Literal["auto"],
    seed: int,
    *,
    gradients: bool,
    length: int | None = None,
) -> Iterator[Portion]:
    """The queries to ask, one portion after the other; a fixed budget is one portion of that many.

    With a `length`, all copies have that many tokens: the paper's efficient design.
    """
    rng = np.random.default_rng(seed)
    pace, n = PACES[effort], len(tokens)
    if budget != "auto":
        yield _within(tokens, effort, budget - 1, rng, gradients, length)
        return
    first: Portion = [] if length else _opening(tokens, effort, rng)
    yield first + _portion(tokens, pace.first, rng, gradients, length)
    if n > 2 and pace.last > pace.first:
        yield _portion(tokens, pace.last - pace.first, rng, gradients, length)


def with_prefixes(portion: Portion) -> Portion:
    """With beginnings of its copies, which a decoder answers on its way through them (maths 3g)."""
    copies = [queries for kind, queries in portion if kind in ("short", "long")]
    return [*portion, ("prefix", designs.prefixes(join(copies)))]


def _opening(tokens: Tokens, effort: Effort, rng: Rng) -> Portion:
    """What is asked once: types on their own, and the text with little left out."""
    n = len(tokens)
    opening: Portion = [("single", designs.singles(tokens.first, n))]
    if 2 < n <= PACES[effort].measured:
        opening.append(("removal", join([designs.leave_one_out(n), designs.leave_words_out(tokens.words)])))
    elif n > 2 and _NEAR[effort]:
        opening.append(("near", _near(n, _NEAR[effort], rng)))
    return opening


def _portion(tokens: Tokens, size: int, rng: Rng, gradients: bool, length: int | None) -> Portion:
    n = len(tokens)
    short = min(ceil(size * min(_SHORT * sqrt(n), _MOST_SHORT)), 2**n)
    if length:
        return [("short", designs.picked(n, 2 * short, min(length, n), rng))]
    long, bent = (ceil(size * _LONG * sqrt(n)), size * _GRADIENTS) if n > _LONGEST_SHORT else (0, 0)
    return _copies(n, short, long, bent, rng, gradients)


def _copies(n: int, short: int, long: int, bent: int, rng: Rng, gradients: bool) -> Portion:
    """Short and long copies, and long ones with gradients, the whole text among them; or more without."""
    top = max(n - 1, 1)
    drawn: Portion = [
        ("short", designs.all_scales(n, short, min(2, top), min(_LONGEST_SHORT, top) if long else top, rng))
    ]
    if long and gradients:
        copies = designs.all_scales(n, bent - 1, min(_LONGEST_SHORT, top), top, rng)
        drawn.append(("gradient", join([copies, whole(n)])))
    elif long:
        long += _BACKWARD * bent
    if long:
        drawn.append(("long", designs.all_scales(n, long, min(_LONGEST_SHORT, top), top, rng)))
    return drawn


def _near(n: int, count: int, rng: Rng) -> Perturbations:
    return designs.near_text(n, count, min(_MOST_GONE, max(n // 4, 1)), rng)


def _within(
    tokens: Tokens, effort: Effort, room: int, rng: Rng, gradients: bool, length: int | None
) -> Portion:
    """At most `room` queries, shared out as an automatic budget does it."""
    n, room = len(tokens), max(room, 1)
    if length:
        return [("short", designs.picked(n, room, min(length, n), rng))]
    opening = _opening(tokens, effort, rng)
    asked = sum(len(queries) for _, queries in opening)
    if room < 2 * asked and n <= _LONGEST_SHORT:
        return [("short", designs.all_scales(n, room, 1, max(n - 1, 1), rng))]
    if room < 2 * asked:  # too few to begin with; small copies see every token soonest
        return [("short", designs.picked(n, room, min(3, max(n - 1, 1)), rng))]
    room -= asked
    near = room // 10 if n > PACES[effort].measured and _NEAR[effort] else 0
    long = (room - near) // 8 if n > _LONGEST_SHORT else 0
    bent = -(-long // 4) if gradients else 0
    extra: Portion = [("near", _near(n, near, rng))] if near else []
    return opening + _copies(n, room - near - long - bent, long, bent, rng, gradients) + extra


@dataclass(frozen=True, eq=False)
class Sample:
    """Queries and the signal (N, C) the model gave for them; `fitted` and `held_out` are rows."""

    queries: Perturbations
    outputs: FloatArray
    fitted: IntArray
    held_out: IntArray


def draw(
    ask: Ask, target: Target, design: Design, count: int, seed: int, longest: int = 3, most: int = 5
) -> Sample:
    """`count` queries of a design (maths 3d), asked. The same arguments give the same queries.

    "short": sequences of 1 … `longest` types; "deletions": the text without 0 … `most` of its tokens;
    "subsets": the text without any number of them.
    """
    tokens, rng = ask.tokens, np.random.default_rng(seed)
    if design == "short":
        queries = designs.short(tokens.first, len(tokens), count, tuple(range(1, longest + 1)), rng)
    elif design == "deletions":
        queries = designs.deletions(len(tokens), count, most, rng)
    else:
        queries = designs.subsets(len(tokens), count, rng)
    out = (np.arange(count) % _HOLD_OUT_EVERY == _HOLD_OUT_EVERY - 1) & (count >= _LEAST)
    return Sample(queries, target.signal(ask(queries)), np.flatnonzero(~out), np.flatnonzero(out))


def finish_types(
    ask: Ask,
    target: Target,
    method: str,
    fitted: Slalom,
    sample: Sample,
    counts: Counts,
    settings: Mapping[str, object],
) -> Explanation:
    """The explanation by a SLALOM over types that was fitted to a sample; the held-out part judges it."""
    tokens, truth = ask.tokens, target.read(sample.outputs)
    surrogate = for_target(fitted, target, tokens.inverse)
    types = for_target(fitted, target, np.arange(tokens.n_types))
    mean = float(truth[sample.fitted].mean())
    return finish(
        ask,
        target,
        method,
        slalom_readings(surrogate),
        ranking="share",
        surrogate=surrogate,
        fidelity=held_out(types, counts[sample.held_out], truth[sample.held_out], mean),
        settings=settings,
    )
