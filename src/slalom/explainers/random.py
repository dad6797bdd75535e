"""Random scores: the floor that every method has to beat.

Independent standard normal numbers, which depend on the seed and the length of the text alone.
"""

from __future__ import annotations

import numpy as np

from slalom.explainers._common import Budget, finish
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target

NEEDS = "logits"
TOGETHER = True


def explain(ask: Ask, target: Target, *, budget: Budget = "auto", seed: int = 0) -> Explanation:
    """A random score for every token; the text itself is asked once, to name its label."""
    drawn = np.random.default_rng(seed).standard_normal(len(ask.tokens))
    return finish(ask, target, "random", {"attribution": drawn})
