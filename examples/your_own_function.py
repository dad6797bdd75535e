"""A black box: any function from texts to probabilities can be explained, here a rule by hand."""

import numpy as np

import slalom

GOOD, BAD = {"great", "friendly", "fresh"}, {"cold", "rude", "awful"}


def classify(texts: list[str]) -> np.ndarray:
    counts = [[len(BAD & set(text.split())), len(GOOD & set(text.split()))] for text in texts]
    odds = np.exp(2.0 * np.array(counts, dtype=float))
    return odds / odds.sum(axis=1, keepdims=True)


explainer = slalom.Explainer(classify, labels=["negative", "positive"])
for method in ("slalom", "occlusion"):
    explanation = explainer("cold soup but friendly people", method=method)
    print(f"{method:10}", explanation.prediction, explanation.top(2))
