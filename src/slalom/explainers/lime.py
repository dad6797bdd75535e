"""LIME for text: a linear model, weighted towards the whole text, of what is left when tokens are dropped.

The lime package's own LimeTextExplainer, run over this model's tokens: it sees a text made of the tokens'
numbers, and what it leaves standing is asked from the model as tokens, special tokens in place. Sampling,
kernel (cosine, width 25) and ridge regression are the package's; every token gets a weight, and the model
is fitted to the target's score (log-odds). By default copies of a token are told apart; granularity "types"
drops all copies at once, the package's bag of words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, cast

import numpy as np

from slalom.checks import Range
from slalom.explainers._common import Budget, Granularity, Subsets, extra, finish, queries, units
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive
from slalom.tokens import FloatArray

NEEDS = "logits"


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    granularity: Granularity = "positions",
    kernel_width: Annotated[float, Range(0.01, 1e6)] = 25.0,
) -> Explanation:
    """LIME's weights from `budget` samples (1000 by default), the first of which is the text itself."""
    samples = queries("lime", budget, least=2)
    unit = units(ask, granularity)
    value = Subsets(ask, target, unit)
    count = int(unit.max()) + 1
    lime_text = extra("lime.lime_text", "lime")
    explainer = lime_text.LimeTextExplainer(
        kernel_width=kernel_width,
        feature_selection="none",
        split_expression=r"\s+",
        bow=True,
        random_state=_Generator(seed % 2**32, ask.check),
    )
    numbers = " ".join(map(str, range(count)))
    found = explainer.explain_instance(
        numbers, partial(_answers, value, count), labels=(0,), num_features=count, num_samples=samples
    )
    weights = np.zeros(count)
    for number, weight in found.local_exp[0]:
        weights[number] = weight
    return finish(
        ask,
        target,
        "lime",
        {"attribution": weights[unit]},
        surrogate=Additive((weights / np.bincount(unit))[unit], np.array([found.intercept[0]])),
        fidelity={"weighted_r2": float(found.score)},
        settings={"kernel_width": kernel_width, "samples": samples},
        notes=value.notes,
    )


class _Generator(np.random.RandomState):
    """What the package draws its samples from, one by one: the place to look whether to go on."""

    def __init__(self, seed: int, check: Callable[[], None]):
        super().__init__(seed)
        self._check = check

    def choice(self, *given: object, **more: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._check()
        return cast("Callable[..., object]", super().choice)(*given, **more)


def _answers(value: Subsets, count: int, texts: list[str]) -> FloatArray:
    """(N, 1) the scores of texts that name the units to keep."""
    kept = np.zeros((len(texts), count), dtype=bool)
    for row, text in enumerate(texts):
        kept[row, [int(number) for number in text.split()]] = True
    return value(kept)[:, None]
