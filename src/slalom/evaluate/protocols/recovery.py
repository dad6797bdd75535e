"""Explanations beside what is known of the tokens: a planted model, counts in labelled texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slalom.checks import Drawn
from slalom.errors import InputError
from slalom.evaluate.protocol import Case, Good, NotApplicable, protocol
from slalom.evaluate.statistics import correlation
from slalom.explanation import Explanation
from slalom.label_counts import LabelCounts
from slalom.scores import rms
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray, Tokens

AGREEMENT: Mapping[str, Good] = {
    "spearman": "high",
    "spearman_size": "high",
    "spearman_value": "high",
    "spearman_importance": "high",
}


@protocol(
    "recovery",
    good={"value_rmse": "low", "importance_rmse": "low", "output_rmse": "low", "spearman": "high"},
    needs="planted",
)
def measure(case: Case, *, parts: Drawn = 200) -> dict[str, float]:
    """Recovery: how far from the planted surrogate is what the method found?

    For a model that is a known SLALOM (`slalom.theory.planted`): root mean squared error of the values, of
    the importances after centring both (they are known up to a constant) and of the surrogate's answers to
    random parts of the text. For all methods, Spearman's correlation of the score with the planted α·v.

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


@protocol("naive_bayes_agreement", good=AGREEMENT, needs="label counts")
def measure_naive_bayes(case: Case) -> dict[str, float]:
    """Agreement with Naive Bayes: do the scores order the tokens as their counts in labelled texts do?

    Spearman's correlation over the distinct tokens of the text with w = log((c⁺ + 20) / (c⁻ + 20)): signed
    scores against w, importances, which have no sign, against |w| (maths 6). "spearman_size" sets the sizes
    of the score against |w|, for methods that have no sign at all.

    Correlations of the score to rank by, and of value and importance where the method has them.
    """
    if case.corpus is None:
        raise NotApplicable("no label counts were given")
    return naive_bayes_agreement(case.explanation, case.corpus)


def naive_bayes_agreement(explanation: Explanation, corpus: LabelCounts) -> dict[str, float]:
    """Rank correlations with the Naive Bayes weights of the explained label, over the text's token types."""
    tokens = explanation.tokens
    try:
        weights = corpus.weights(tokens, explanation.labels.index(explanation.target))
    except InputError as error:
        raise NotApplicable(str(error)) from error
    told = {name: of_types(tokens, scores) for name, scores in explanation.scores.items()}
    result = {
        "spearman": correlation(told[explanation.ranking], weights, "spearman"),
        "spearman_size": correlation(np.abs(told[explanation.ranking]), np.abs(weights), "spearman"),
    }
    if "value" in told:
        result["spearman_value"] = correlation(told["value"], weights, "spearman")
    if "importance" in told:
        result["spearman_importance"] = correlation(told["importance"], np.abs(weights), "spearman")
    return result


def of_types(tokens: Tokens, scores: FloatArray) -> FloatArray:
    """(d,) the mean score of every token type over its positions."""
    return np.bincount(tokens.inverse, scores) / np.bincount(tokens.inverse)
