"""Deletion three ways: the strongest tokens dropped, masked, or replaced by random words, side by side.

Dropping gives broken text, a mask is a sign that a classifier may never have seen, random words say things of
their own: what a method gains in one of them only, it owes to that. AOPC as in `deletion`; replacements are
drawn three times.
"""

from __future__ import annotations

from slalom.evaluate.blanks import kept_lowest, masks, random_words
from slalom.evaluate.protocol import Case, NotApplicable, strongest_first
from slalom.evaluate.protocols.deletion import STEP, deletion, long_enough
from slalom.models.target import choose_target

NEEDS = "many queries"
GOOD = {"drop": "high", "mask": "high", "replace": "high"}


def measure(case: Case, *, score: str | None = None, step: int = STEP, draws: int = 3) -> dict[str, float]:
    """AOPC for each of the ways that the model allows."""
    long_enough(case, step)
    found = {"drop": deletion(case.ask, case.explanation, score=score, step=step, seed=case.seed)}
    keep = kept_lowest(strongest_first(case.explanation.score(score), case.seed), step)
    target = choose_target(case.ask.model, case.explanation.target, case.ask.whole())
    for name, make in (("mask", masks), ("replace", lambda ask: random_words(ask, draws, case.seed))):
        try:
            logits = make(case.ask)(keep)
        except NotApplicable:
            if name == "replace":  # a function over texts: dropping is all there is
                raise
            continue
        found[name] = 1.0 - float(target.probability(logits.reshape(-1, logits.shape[-1])).mean())
    return found
