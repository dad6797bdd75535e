"""Deletion, normalised by the best and the worst order that can be found."""

from __future__ import annotations

from typing import Annotated
from weakref import WeakKeyDictionary

import numpy as np

from slalom.checks import Positive, Range
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import strongest_first
from slalom.models.ask import Ask
from slalom.models.target import Target, choose_target
from slalom.perturb import from_keep
from slalom.tokens import BoolArray, FloatArray, IntArray

EXACT = 10
"""Tokens up to which all subsets are asked about."""
_BOUNDS: WeakKeyDictionary[Ask, dict[tuple[str, int, int], tuple[float, float]]] = WeakKeyDictionary()
"""What was found for a text; all methods are judged by the same."""


@protocol("naopc", good={"naopc": "high", "reverse": "low"}, needs="many queries")
def measure(
    case: Case,
    *,
    score: str | None = None,
    beam: Positive = 3,
    exact: Annotated[int, Range(0, 20)] = EXACT,
    longest: Positive = 100,
) -> dict[str, float]:
    """NAOPC: deletion AOPC between the worst and the best order that there are for this text and model.

    Tokens go one by one, strongest first; AOPC is the mean loss of the label's probability. A model bounds
    what any order can reach, so that raw AOPC does not compare between models and texts: NAOPC is 0 for the
    worst order found and 1 for the best. Texts of up to 10 tokens are searched exactly, over all subsets;
    longer ones by a beam of 3 orders (Edin et al. 2024). `reverse` is the same with the weakest first: low is
    good.

    Both numbers for the score to rank by, or for the one named; texts beyond `longest` are left out.
    """
    n = len(case.explanation)
    if n < 2:
        raise NotApplicable("a text of one token has one order only")
    if n > longest:
        raise NotApplicable(f"a text of more than {longest} tokens has too many orders (option longest)")
    target = choose_target(case.ask.model, case.explanation.target, case.ask.whole())
    low, high = bounds(case.ask, target, beam=beam, exact=exact)
    if high - low < 1e-12:
        raise NotApplicable("all orders of deletion are alike for this text")
    order = strongest_first(case.explanation.score(score), case.seed)
    forward, backward = (aopc(case.ask, target, each) for each in (order, order[::-1]))
    # an order better than the best of the beam is the best there is
    low, high = min(low, forward, backward), max(high, forward, backward)
    return {"naopc": (forward - low) / (high - low), "reverse": (backward - low) / (high - low)}


def aopc(ask: Ask, target: Target, order: IntArray) -> float:
    """The mean loss of the label's probability over 1 … n − 1 removals in an order."""
    n = len(order)
    ranks = np.argsort(order)
    return float(_lost(ask, target, ranks >= np.arange(1, n)[:, None]).mean())


def bounds(ask: Ask, target: Target, *, beam: int = 3, exact: int = EXACT) -> tuple[float, float]:
    """The lowest and the highest AOPC of an order: of all of them, or of those that the beam search saw."""
    known = _BOUNDS.setdefault(ask, {})
    key = (target.label, beam, exact)
    if key not in known:
        n = len(ask.tokens)
        if n <= exact:
            known[key] = _enumerated(ask, target, n)
        else:
            searched = [_searched(ask, target, n, beam, sign) for sign in (1.0, -1.0)]
            known[key] = -searched[1], searched[0]
    return known[key]


def _enumerated(ask: Ask, target: Target, n: int) -> tuple[float, float]:
    """Over all chains of subsets, by dynamic programming from the whole text down to single tokens."""
    masks: IntArray = np.arange(1, 1 << n)
    keep: BoolArray = (masks[:, None] >> np.arange(n)) & 1 == 1
    worth = np.zeros(2**n)
    worth[1:] = _lost(ask, target, keep)
    found: list[float] = []
    for pick, start in ((np.maximum, -np.inf), (np.minimum, np.inf)):
        best = np.full(2**n, start)
        best[-1] = 0.0
        for size in range(n - 1, 0, -1):
            here = masks[keep.sum(axis=1) == size]
            for token in range(n):
                gone = here[(here >> token) & 1 == 0]
                best[gone] = pick(best[gone], best[gone | (1 << token)] + worth[gone])
        found.append(float(pick.reduce(best[1 << np.arange(n)])) / (n - 1))
    return found[1], found[0]


def _searched(ask: Ask, target: Target, n: int, beam: int, sign: float) -> float:
    """The best mean of sign · loss that a beam of partial orders comes to."""
    keep, total = np.ones((1, n), dtype=bool), np.zeros(1)
    for _ in range(1, n):
        owner, token = np.nonzero(keep)
        grown = keep[owner]
        grown[np.arange(len(token)), token] = False
        grown = np.unique(grown, axis=0)
        # of several ways to one subset the best is kept
        sums = _best_ways(keep, total, grown) + sign * _lost(ask, target, grown)
        chosen = np.argsort(-sums, kind="stable")[:beam]
        keep, total = grown[chosen], sums[chosen]
    return float(total.max()) / (n - 1)


def _best_ways(keep: BoolArray, total: FloatArray, grown: BoolArray) -> FloatArray:
    """(N,) the largest total among the beams that each grown subset comes from."""
    inside = (grown[:, None, :] <= keep[None]).all(axis=2)
    return np.where(inside, total, -np.inf).max(axis=1)


def _lost(ask: Ask, target: Target, keep: BoolArray) -> FloatArray:
    before = target.probability(ask.whole()[None])[0]
    return before - target.probability(ask(from_keep(keep)))
