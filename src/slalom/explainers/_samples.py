"""Queries that surrogates are fitted to, with a part held out to judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from slalom import designs
from slalom.explainers._common import finish, held_out
from slalom.explanation import Explanation
from slalom.fit import readings
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import Perturbations
from slalom.surrogate import Counts, Slalom
from slalom.tokens import FloatArray, IntArray

Design = Literal["short", "deletions", "subsets"]

_HOLD_OUT_EVERY = 8
_LEAST = 16
"""Fewer queries than this are all fitted."""


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
    out = np.arange(count) % _HOLD_OUT_EVERY == _HOLD_OUT_EVERY - 1
    if count < _LEAST:
        out[:] = False
    return Sample(queries, target.signal(ask(queries)), np.flatnonzero(~out), np.flatnonzero(out))


def finish_types(
    ask: Ask,
    target: Target,
    method: str,
    fitted: Slalom,
    sample: Sample,
    counts: Counts,
    settings: Mapping[str, Any],
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
        readings.scores(surrogate),
        ranking="share",
        surrogate=surrogate,
        fidelity=held_out(types, counts[sample.held_out], truth[sample.held_out], mean),
        settings=settings,
    )


def for_target(surrogate: Slalom, target: Target, units: IntArray) -> Slalom:
    """The one-output SLALOM of the target over the positions of the text, which `units` maps to its units."""
    return Slalom(
        target.read(surrogate.values[units]),
        surrogate.importances[units],
        target.read(surrogate.background_value[None]),
        surrogate.background_importance,
    )
