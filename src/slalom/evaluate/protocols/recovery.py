"""Explanations beside the truth, where a model was planted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slalom.errors import InputError
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import correlation
from slalom.explanation import Explanation
from slalom.scores import rms
from slalom.surrogate import Slalom


@protocol(
    "recovery",
    good={"value_rmse": "low", "importance_rmse": "low", "output_rmse": "low", "spearman": "high"},
    needs="planted",
)
def measure(case: Case, *, parts: int = 200) -> dict[str, float]:
    """Recovery: how far from the planted surrogate is what the method found?

    For a model that is a known SLALOM (`slalom.theory.planted`): root mean squared error of the values, of
    the importances after centring both (they are known up to a constant) and of the surrogate's answers to
    random parts of the text; for all methods, Spearman's correlation of the score with the planted α·v.

    Errors of what the method has of a SLALOM, and the rank correlation that every method has.
    """
    if case.planted is None:
        raise NotApplicable("the truth about this model is not known: it was not planted")
    return recovery(case.explanation, case.planted, parts=parts, seed=case.seed)


def recovery(
    explanation: Explanation, planted: Slalom, *, parts: int = 200, seed: int = 0
) -> dict[str, float]:
    """Errors against a SLALOM over the positions of the text, for the explained target."""
    n = len(explanation)
    if len(planted.importances) != n:
        raise InputError(f"the planted SLALOM has {len(planted.importances)} positions, the text {n}")
    truth = planted.linear(np.arange(n))[:, 0]
    result = {"spearman": correlation(explanation.score(), truth, "spearman")}
    if "value" in explanation.scores:
        result["value_rmse"] = rms(explanation.values - planted.values[:, 0])
    if "importance" in explanation.scores:
        gap = explanation.importances - planted.importances
        result["importance_rmse"] = rms(gap - gap.mean())
    if explanation.surrogate is not None:
        keep = np.random.default_rng(seed).random((parts, n)) < 0.5
        counts = keep[keep.any(axis=1)].astype(float)
        result["output_rmse"] = rms((explanation.surrogate.predict(counts) - planted.predict(counts))[:, 0])
    return result


def over_positions(planted: Slalom, words: Sequence[str], explanation: Explanation) -> Slalom:
    """The planted SLALOM over `words` as one over the positions of the explained text, for its target."""
    places = {word: i for i, word in enumerate(words)}
    missing = [token for token in explanation.tokens.strings if token not in places]
    if missing:
        raise InputError(f"the token {missing[0]!r} is none of the {len(places)} planted words")
    units = [places[token] for token in explanation.tokens.strings]
    values, target = planted.values[units], explanation.labels.index(explanation.target)
    # one column is the log-odds of the second of two labels; more are logits, one for each label
    if values.shape[1] == 1:
        own = values if target == 1 else -values
    elif values.shape[1] == 2:
        own = values[:, [target]] - values[:, [1 - target]]
    else:
        own = values[:, [target]] - values.mean(axis=1, keepdims=True)
    return Slalom(own, planted.importances[units])
