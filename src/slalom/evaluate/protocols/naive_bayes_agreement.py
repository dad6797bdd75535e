"""Explanations beside the counts of tokens in labelled texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slalom.errors import InputError
from slalom.evaluate.protocol import Case, Good, NotApplicable, protocol
from slalom.evaluate.statistics import correlation
from slalom.explanation import Explanation
from slalom.label_counts import LabelCounts
from slalom.tokens import FloatArray, Tokens

GOOD: Mapping[str, Good] = {
    "spearman": "high",
    "spearman_size": "high",
    "spearman_value": "high",
    "spearman_importance": "high",
}


@protocol("naive_bayes_agreement", good=GOOD, needs="label counts")
def measure(case: Case) -> dict[str, float]:
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
