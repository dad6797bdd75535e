"""What the model answered so far, by kind of query, with a part held out to judge the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slalom.explainers._plan import Kind, Portion
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.perturb import Perturbations, join
from slalom.tokens import FloatArray

_HOLD_OUT_EVERY = 8
"""One excerpt of this many is never fitted. Types on their own always are; so are copies of the text with
tokens left out, where leaving a query out of the fit has a closed form."""


@dataclass(frozen=True, eq=False)
class Answered:
    """Queries and the signal (N, C) the model gave for them."""

    queries: Perturbations
    outputs: FloatArray

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True, eq=False)
class Answers:
    """Answered queries by kind, those to fit and those held out."""

    fitted: Mapping[Kind, Answered] = field(default_factory=dict)
    held_out: Mapping[Kind, Answered] = field(default_factory=dict)

    def with_portion(self, ask: Ask, target: Target, portion: Portion) -> Answers:
        """Asks a portion in one go, so that its queries share batches, and adds the answers."""
        outputs = target.signal(ask(join([queries for _, queries in portion])))
        fitted, held_out = dict(self.fitted), dict(self.held_out)
        start = 0
        for kind, queries in portion:
            answered = Answered(queries, outputs[start : start + len(queries)])
            start += len(queries)
            out = np.arange(len(queries)) % _HOLD_OUT_EVERY == _HOLD_OUT_EVERY - 1
            if kind in ("single", "deletion"):
                out[:] = False
            _add(fitted, kind, _rows(answered, ~out))
            if out.any():
                _add(held_out, kind, _rows(answered, out))
        return Answers(fitted, held_out)

    @property
    def design(self) -> dict[str, int]:
        """How many queries of each kind were asked."""
        kinds = dict.fromkeys((*self.fitted, *self.held_out))
        return {k: sum(len(part[k]) for part in (self.fitted, self.held_out) if k in part) for k in kinds}


def _rows(answered: Answered, which: np.ndarray) -> Answered:
    rows = np.flatnonzero(which)
    return Answered(answered.queries[rows], answered.outputs[rows])


def _add(parts: dict[Kind, Answered], kind: Kind, more: Answered) -> None:
    if kind in parts:
        old = parts[kind]
        more = Answered(join([old.queries, more.queries]), np.concatenate([old.outputs, more.outputs]))
    parts[kind] = more


def together(parts: Mapping[Kind, Answered], kinds: tuple[Kind, ...]) -> Answered | None:
    """The answered queries of several kinds as one; None where there are none."""
    chosen = [parts[kind] for kind in kinds if kind in parts]
    if not chosen:
        return None
    return Answered(join([a.queries for a in chosen]), np.concatenate([a.outputs for a in chosen]))
