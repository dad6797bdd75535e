"""Explanations made again: with other seeds, of slightly shorter texts, with other budgets; and the cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slalom.checks import Positive, Share
from slalom.errors import InputError
from slalom.evaluate import load
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import likeness
from slalom.explanation import Explanation
from slalom.models.protocol import Text
from slalom.outside import NO_COST
from slalom.tokens import IntArray, Tokens

PARTS = ("queries", "tokens", "backwards", "seconds", "model_seconds")
BUDGETS = (125, 250, 500, 1000)

_LEAST_WORDS = 4


@protocol("stability", good={"seeds": "high", "words": "high"}, needs="repeats")
def measure(
    case: Case, *, score: str | None = None, repeats: Positive = 2, share: Share = 0.1
) -> dict[str, float]:
    """Stability: does the method say the same again?

    "seeds" is the mean Spearman correlation of the scores with those of other seeds. "words" is that with the
    scores of the same text with a tenth of its words left out, order kept and no word changed, over the
    tokens in both.

    Means over `repeats` other seeds, and over as many texts with `share` of the words left out.
    """
    again = [case.seed + 1 + i for i in range(repeats)]
    seeds = [seed_likeness(case.explanation, case.explain, seed, score=score) for seed in again]
    words = [
        words_likeness(case.explanation, case.explain, case.document.text, seed, share=share, score=score)
        for seed in again
    ]
    return {"seeds": float(np.mean(seeds)), "words": float(np.mean(words))}


def seed_likeness(
    explanation: Explanation, explain: Callable[..., Explanation], seed: int, *, score: str | None = None
) -> float:
    """Spearman's correlation with an explanation from another seed."""
    return likeness(explanation.score(score), explain(seed=seed).score(score))


def words_likeness(
    explanation: Explanation,
    explain: Callable[..., Explanation],
    text: Text,
    seed: int,
    *,
    share: float = 0.1,
    score: str | None = None,
) -> float:
    """Spearman's correlation with the explanation of the text without a random share of its words."""
    shorter, origin = without_words(text, np.random.default_rng(seed), share)
    other = explain(text=shorter)
    mine, theirs = _in_both(explanation.tokens, other.tokens, origin)
    return likeness(explanation.score(score)[mine], other.score(score)[theirs])


def without_words(text: Text, rng: np.random.Generator, share: float) -> tuple[Text, IntArray]:
    """The text without a random share of its words (at least one), and where each character of it stood.

    Words are what stands between blanks; of a pair, characters are counted over both texts with a line break
    between them, as in `Tokens.text`.
    """
    parts = [text] if isinstance(text, str) else list(text)
    words = [
        (side, m.start(), m.end()) for side, part in enumerate(parts) for m in re.finditer(r"\S+\s*", part)
    ]
    if len(words) < _LEAST_WORDS:
        raise NotApplicable(f"the text has fewer than {_LEAST_WORDS} words")
    kept = [np.ones(len(part), dtype=bool) for part in parts]
    chosen = rng.choice(len(words), size=max(1, round(share * len(words))), replace=False)
    for side, low, high in (words[int(i)] for i in chosen):
        kept[side][low:high] = False
    shorter = [
        "".join(c for c, stays in zip(part, mask, strict=True) if stays)
        for part, mask in zip(parts, kept, strict=True)
    ]
    if not all(part.strip() for part in shorter):
        raise NotApplicable("leaving words out would leave a text empty")
    mask = kept[0] if len(kept) == 1 else np.r_[kept[0], True, kept[1]]
    return (shorter[0] if isinstance(text, str) else (shorter[0], shorter[1])), np.flatnonzero(mask)


def _in_both(tokens: Tokens, others: Tokens, origin: IntArray) -> tuple[list[int], list[int]]:
    """Positions in both texts of the tokens that read the same and stood in the same place."""
    places = {
        (low, string): i
        for i, (low, string) in enumerate(zip(tokens.spans[:, 0].tolist(), tokens.strings, strict=True))
    }
    same = [
        (places[origin[low], string], j)
        for j, (low, string) in enumerate(zip(others.spans[:, 0].tolist(), others.strings, strict=True))
        if low < len(origin) and (origin[low], string) in places
    ]
    return [i for i, _ in same], [j for _, j in same]


@protocol("cost", good=dict.fromkeys(PARTS, "low"))
def measure_cost(case: Case) -> dict[str, float]:
    """Cost: what the explanation asked of the model and how long it took.

    Queries, the tokens read, backward passes, seconds, and the part of them spent in the model. Scores from a
    file that does not say its costs have none.
    """
    if NO_COST in case.explanation.notes:
        raise NotApplicable(NO_COST)
    return {name: float(getattr(case.explanation.cost, name)) for name in PARTS}


@protocol("budget", good={f"deletion_{budget}": "high" for budget in BUDGETS}, needs="repeats")
def measure_budget(case: Case) -> dict[str, float]:
    """Budget: the quality of a method as a function of the queries it may ask.

    The text is explained again with budgets of 125, 250, 500 and 1000 queries and judged by deletion AOPC; a
    budget that the method refuses as too small is left out.
    """
    numbers = by_budget(case, BUDGETS, "deletion")
    if not numbers:
        raise NotApplicable(f"the method refuses all budgets up to {max(BUDGETS)} queries for this text")
    return {f"deletion_{budget}": own["aopc"] for budget, own in numbers.items()}


def by_budget(case: Case, budgets: Sequence[int], judge: str = "deletion") -> dict[int, dict[str, float]]:
    """The numbers of a protocol for every budget that the method accepts."""
    measured = load(judge)
    result: dict[int, dict[str, float]] = {}
    for budget in budgets:
        try:
            explanation = case.explain(budget=budget)
        except InputError:  # too small for the method and this text
            continue
        result[budget] = measured(replace(case, explanation=explanation))
    return result
