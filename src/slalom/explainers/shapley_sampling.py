"""Shapley values by sampling: what a token adds when tokens come in random order.

Permutations are drawn in pairs, each with its reverse, which cancels much of the noise; the standard errors
come from the spread over the pairs. A token that is absent is dropped; the base value is the model's score
of the empty text.
"""

from __future__ import annotations

import numpy as np

from slalom.explainers._common import AUTO, Budget, Subsets, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive
from slalom.tokens import FloatArray, IntArray

NEEDS = "logits"
TOGETHER = True


def explain(ask: Ask, target: Target, *, budget: Budget = "auto", seed: int = 0) -> Explanation:
    """Shapley values with standard errors; each pair of permutations takes 2 (n − 1) queries.

    "auto" is 1000 queries, but at least two pairs. The values add up to the score less the base, exactly.
    """
    n = len(ask.tokens)
    pair = 2 * (n - 1)
    asked = queries("shapley_sampling", budget, max(AUTO, 2 * pair + 2), least=pair + 2)
    pairs = max((asked - 2) // pair, 1) if n > 1 else 1
    value = Subsets(ask, target)
    base, whole = value(np.array([[False] * n, [True] * n])).tolist()
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.broadcast_to(np.arange(n), (pairs, n)), axis=1)
    orders = np.stack([orders, orders[:, ::-1]], axis=1).reshape(2 * pairs, n)
    gains = _gains(orders, value, base, whole).reshape(pairs, 2, n).mean(axis=1)
    return finish(
        ask,
        target,
        "shapley_sampling",
        {"attribution": gains.mean(axis=0)},
        stderr={"attribution": gains.std(axis=0, ddof=1) / np.sqrt(pairs)} if pairs > 1 else {},
        surrogate=Additive(gains.mean(axis=0), np.array([base])),
        settings={"base": base, "permutations": 2 * pairs},
        notes=value.notes,
    )


def _gains(orders: IntArray, value: Subsets, base: float, whole: float) -> FloatArray:
    """(P, n) what every token adds in every order; all prefixes are asked at once."""
    count, n = len(orders), int(orders.shape[1])
    place = np.argsort(orders, axis=1)
    sizes = np.arange(1, n)
    prefixes = place[:, None, :] < sizes[None, :, None]
    scores = np.full((count, n + 1), base)
    scores[:, n] = whole
    if n > 1:
        scores[:, 1:n] = value(prefixes.reshape(-1, n)).reshape(count, n - 1)
    return np.take_along_axis(np.diff(scores, axis=1), place, axis=1)
