"""Integrated gradients: the gradient along the way from a text that says nothing, times the way.

The way starts where every token is the tokenizer's mask token (else its pad, unknown or end token) with
special tokens in place, or with baseline="zero" at embeddings of zero. What the tokens get adds up to the
difference of the two scores; where it does not, to one per cent, the steps are doubled. Through captum, at
the embedding layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import numpy as np

from slalom.checks import Range, check
from slalom.explainers._common import Budget, extra, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.tokens import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

    from slalom.models.torch.whitebox import Inside

NEEDS = "gradients"

Baseline = Literal["token", "zero"]

_MOST_STEPS = 100_000

_GAP = 0.01
"""The largest relative completeness gap that is accepted without more steps."""
_AROUND = 5
"""Queries besides the steps: the text, finding the embedding layer, both ends of the way, one spare."""


class _Captum(Protocol):
    """Its IntegratedGradients."""

    def attribute(
        self, inputs: Tensor, *, baselines: Tensor, n_steps: int, internal_batch_size: int
    ) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class _Way:
    places: FloatArray
    steps: int
    gap: float


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    steps: Annotated[int, Range(1, _MOST_STEPS)] = 50,
    most_steps: Annotated[int, Range(1, _MOST_STEPS)] = 1600,
    baseline: Baseline = "token",
) -> Explanation:
    """A forward and a backward pass for each of the steps; `fidelity` holds the relative completeness gap."""
    from slalom.models.torch.whitebox import inside

    check("most_steps", most_steps, Annotated[int, Range(steps, _MOST_STEPS)])
    passes = (queries("integrated_gradients", budget, 4 * most_steps, least=2 + _AROUND) - _AROUND) // 2
    captum = extra("captum.attr", "integrated_gradients")
    with inside(ask, target, "integrated_gradients") as opened:
        start = opened.baseline() if baseline == "token" else _zero(opened)
        difference = _difference(opened, start)
        integrate = captum.IntegratedGradients(opened.score)
        way = _integrate(integrate, opened, start, difference, min(steps, passes))
        passes -= way.steps
        while way.gap > _GAP and 2 * way.steps <= min(most_steps, passes):
            way = _integrate(integrate, opened, start, difference, 2 * way.steps)
            passes -= way.steps
    scores = {"attribution": opened.per_token(way.places, len(ask.tokens))}
    return finish(
        ask,
        target,
        "integrated_gradients",
        scores,
        fidelity={"completeness_gap": way.gap},
        settings={"steps": way.steps, "baseline": baseline, "stopped": _stopped(way, steps)},
        notes=_notes(way),
    )


def _integrate(captum: _Captum, opened: Inside, start: Tensor, difference: float, steps: int) -> _Way:
    found = captum.attribute(
        opened.embeddings.clone().requires_grad_(),
        baselines=start,
        n_steps=steps,
        internal_batch_size=opened.batch,
    )
    places = found.detach()[0].double().sum(dim=1).cpu().numpy()
    missing = abs(float(places.sum()) - difference)
    return _Way(places, steps, missing / max(abs(difference), 1e-6))


def _difference(opened: Inside, start: Tensor) -> float:
    import torch

    with torch.no_grad():
        return float(opened.score(opened.embeddings)[0].double() - opened.score(start)[0].double())


def _zero(opened: Inside) -> Tensor:
    """Embeddings of zero for the tokens; special tokens stay."""
    start = opened.embeddings.clone()
    start[0, np.flatnonzero(opened.owner >= 0)] = 0.0
    return start


def _stopped(way: _Way, steps: int) -> str:
    raised = f", raised from {steps}" if way.steps > steps else ""
    return f"{way.steps} steps{raised}, completeness gap {100 * way.gap:.2g} %"


def _notes(way: _Way) -> tuple[str, ...]:
    if way.gap <= _GAP:
        return ()
    return (
        f"The scores do not add up to the difference they should explain: {100 * way.gap:.2g} % of it is "
        f"missing or too much after {way.steps} steps.",
    )
