"""Occlusion: what the score loses when a token is left out of the text.

Asks for the text and for the text without each of its tokens; the only token of a text is compared with the
empty text. A token is dropped, not masked.
"""

from __future__ import annotations

import numpy as np

from slalom.explainers._common import Budget, Subsets, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target

NEEDS = "logits"
TOGETHER = True


def explain(ask: Ask, target: Target, *, budget: Budget = "auto", seed: int = 0) -> Explanation:
    """Leave each token out once: n + 1 queries."""
    n = len(ask.tokens)
    queries("occlusion", budget, n + 1, n + 1)
    whole = float(target.score(ask.whole()[None])[0])
    value = Subsets(ask, target)
    lost = whole - value(~np.eye(n, dtype=bool))
    return finish(ask, target, "occlusion", {"attribution": lost}, notes=value.notes)
