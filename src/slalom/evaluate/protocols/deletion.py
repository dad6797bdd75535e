"""Deletion and its relatives: tokens go in the order of their scores, the label's probability is watched.

They may be dropped, masked or written over with other words; `curve` is the curve behind the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Literal

import numpy as np

from slalom.checks import Drawn, Positive
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import strongest_first
from slalom.explanation import Explanation
from slalom.models.ask import Ask, WrittenOver
from slalom.models.target import choose_target
from slalom.models.text.template import Frame
from slalom.perturb import from_rows
from slalom.tokens import BoolArray, FloatArray, IntArray

STEP = 5
MARK = "trained_on_masked_text"
"""The entry of a model's config that `slalom train --masked` makes."""
NO_TOKENIZER = "the model is asked about texts, not about token ids: nothing can be written over a token"


@protocol("deletion", good={"aopc": "high"})
def measure(case: Case, *, score: str | None = None, step: Positive = STEP) -> dict[str, float]:
    """Deletion: drop the strongest tokens, watch the probability of the label.

    Tokens are ranked by their signed score for the explained label (or by the score named), ties at random.
    With 5, 10, … of the lowest kept, in their order, dropped rather than masked, AOPC = 1 − the mean
    probability of the label (maths 6).
    """
    _long_enough(case, step)
    return {"aopc": deletion(case.ask, case.explanation, score=score, step=step, seed=case.seed)}


@protocol("insertion", good={"aopc": "low"})
def measure_insertion(case: Case, *, score: str | None = None, step: Positive = STEP) -> dict[str, float]:
    """Insertion: keep only the strongest tokens, watch the probability of the label come back.

    Tokens are ranked as for deletion; with 5, 10, … of the highest kept, in their order, 1 − the mean
    probability of the label (maths 6): low is good.
    """
    _long_enough(case, step)
    return {"aopc": insertion(case.ask, case.explanation, score=score, step=step, seed=case.seed)}


@protocol("deletion_modes", good={"drop": "high", "mask": "high", "replace": "high"}, needs="many queries")
def measure_modes(
    case: Case, *, score: str | None = None, step: Positive = STEP, draws: Drawn = 3
) -> dict[str, float]:
    """Deletion three ways: the strongest tokens dropped, masked, or replaced by random words, side by side.

    Dropping gives broken text, a mask is a sign that a classifier may never have seen, random words say
    things of their own. What a method gains in one of them only, it owes to that. AOPC as in deletion;
    replacements are drawn three times. A way that the model does not allow is left out.
    """
    _long_enough(case, step)
    found = {"drop": deletion(case.ask, case.explanation, score=score, step=step, seed=case.seed)}
    ways: dict[str, Callable[[Ask], WrittenOver]] = {
        "mask": masks,
        "replace": lambda ask: random_words(ask, draws, case.seed),
    }
    for name, written_over in ways.items():
        try:
            found[name] = _aopc(case, written_over(case.ask), score, step)
        except NotApplicable:
            if name == "replace":  # a function over texts: dropping is all there is
                raise
    return found


@protocol("masked_deletion", good={"aopc": "high"})
def measure_masked(case: Case, *, score: str | None = None, step: Positive = STEP) -> dict[str, float]:
    """Masked deletion: deletion by masks, on a classifier that was trained on masked text.

    For a model of `slalom train --masked` a text with masks in it is as usual as any other. So a fall of
    the probability is owed to what is gone and not to broken text (faithfulness measurable models, Madsen et
    al. 2023). AOPC as in deletion, tokens masked one `step` after the other. Other models are left out.
    """
    access = case.ask.model.torch
    if access is None or not getattr(getattr(access.module, "config", None), MARK, False):
        raise NotApplicable("the model was not trained on masked text (slalom train --masked)")
    _long_enough(case, step)
    return {"aopc": _aopc(case, masks(case.ask), score, step)}


def _long_enough(case: Case, step: int) -> None:
    """Refuses a text that has no proper step of the curve."""
    if len(case.explanation) <= step:
        raise NotApplicable(f"the text has at most {step} tokens, the first step of the curve")


def curve(
    ask: Ask,
    explanation: Explanation,
    keep: Literal["lowest", "highest"],
    *,
    score: str | None = None,
    step: int = STEP,
    seed: int = 0,
) -> FloatArray:
    """Probability of the explained label with step, 2·step, … tokens kept by signed score, in their order."""
    n = len(explanation)
    order = strongest_first(explanation.score(score), seed)
    order = order[::-1] if keep == "lowest" else order
    kept = from_rows([np.sort(order[:i]) for i in range(step, n, step)] or [np.arange(n)], n)
    logits = ask(kept)
    return choose_target(ask.model, explanation.target, logits[0]).probability(logits)


def deletion(
    ask: Ask, explanation: Explanation, *, score: str | None = None, step: int = STEP, seed: int = 0
) -> float:
    """Deletion AOPC: 1 − mean probability with the lowest i tokens kept. High is good."""
    return 1.0 - float(curve(ask, explanation, "lowest", score=score, step=step, seed=seed).mean())


def insertion(
    ask: Ask, explanation: Explanation, *, score: str | None = None, step: int = STEP, seed: int = 0
) -> float:
    """Insertion: 1 − mean probability with the highest i tokens kept. Low is good."""
    return 1.0 - float(curve(ask, explanation, "highest", score=score, step=step, seed=seed).mean())


def masks(ask: Ask) -> WrittenOver:
    """Every token as the tokenizer's mask."""
    mask = getattr(_tokenizer(ask), "mask_token_id", None)
    if mask is None:
        raise NotApplicable("the tokenizer has no mask token")
    return WrittenOver(ask, [[(int(mask),) * len(piece) for piece in ask.tokens.pieces]])


def random_words(ask: Ask, draws: int, seed: int) -> WrittenOver:
    """Every token as random ones of the vocabulary, several times."""
    tokenizer = _tokenizer(ask)
    special: set[int] = set(getattr(tokenizer, "all_special_ids", ()))
    known = np.array([i for i in range(len(tokenizer)) if i not in special])
    rng = np.random.default_rng([seed, 0x3E7])

    def drawn(piece: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.choice(known, len(piece)))

    return WrittenOver(ask, [[drawn(piece) for piece in ask.tokens.pieces] for _ in range(draws)])


def kept_lowest(order: IntArray, step: int) -> BoolArray:
    """(steps, n) what deletion leaves of a text: step, 2·step, … of the last tokens of an order."""
    n = len(order)
    return np.argsort(order) >= n - np.arange(step, n, step)[:, None]


def _aopc(case: Case, written_over: WrittenOver, score: str | None, step: int) -> float:
    """AOPC where what deletion would drop is written over."""
    keep = kept_lowest(strongest_first(case.explanation.score(score), case.seed), step)
    target = choose_target(case.ask.model, case.explanation.target, case.ask.whole())
    logits = written_over(keep)
    return 1.0 - float(target.probability(logits.reshape(-1, logits.shape[-1])).mean())


def _tokenizer(ask: Ask) -> Sized:
    tokenizer = ask.model.tokenizer
    if tokenizer is None or not isinstance(ask.tokens.frame, Frame):
        raise NotApplicable(NO_TOKENIZER)
    return tokenizer
