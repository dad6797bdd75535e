"""Multi-removal fidelity (maths 6): does the explanation predict what random removals do to the score?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.tokens import FloatArray


@dataclass(frozen=True, eq=False)
class Removals:
    """Mean squared errors for k = 1, 2, … removed tokens, and those of predicting no change."""

    error: FloatArray
    nothing: FloatArray

    @property
    def relative(self) -> float:
        """Error relative to predicting no change; below 1 the explanation says something."""
        return float(self.error.sum() / self.nothing.sum())


def removals(
    ask: Ask, explanation: Explanation, *, most: int = 10, masks: int = 100, seed: int = 0
) -> Removals:
    """Predicted against true change of the target's score under `masks` random removals of each size.

    A surrogate is asked for its prediction; a method without one predicts minus the sum of what was removed.
    """
    n = len(explanation)
    sizes = np.repeat(np.arange(1, min(most, n - 1) + 1), masks)
    ranks = np.random.default_rng(seed).random((len(sizes), n)).argsort(axis=1).argsort(axis=1)
    keep = ranks >= sizes[:, None]
    target = choose_target(ask.model, explanation.target, ask.whole())
    truth = target.score(ask(from_keep(keep))) - target.score(ask.whole()[None])
    if explanation.surrogate is None:
        told = -(~keep @ explanation.score())
    else:
        whole = np.ones((1, n))
        told = (explanation.surrogate.predict(keep.astype(float)) - explanation.surrogate.predict(whole))[
            :, 0
        ]
    squares, nothing = (truth - told) ** 2, truth**2
    return Removals(squares.reshape(-1, masks).mean(axis=1), nothing.reshape(-1, masks).mean(axis=1))
