"""PartitionSHAP: Owen values, Shapley values over a tree that groups neighbouring tokens.

The shap package's Partition explainer with its own tree for text (pieces of a word first, then phrases, then sentences).
A token that is absent is dropped; the base value is the model's score of the empty text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slalom.explainers._common import Budget, Subsets, extra, finish, numpy_seed, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive
from slalom.tokens import FloatArray, Tokens

NEEDS = "logits"

_BATCH = 64
"""Subsets that are asked together before the next ones are chosen."""


def explain(ask: Ask, target: Target, *, budget: Budget = "auto", seed: int = 0) -> Explanation:
    """Owen values from at most `budget` queries (1000 by default); groups it does not reach share alike."""
    n = len(ask.tokens)
    most = queries("partition_shap", budget, least=4)
    value = Subsets(ask, target)
    if n == 1:  # a tree of one leaf: nothing to divide
        base, whole = value(np.array([[False], [True]])).tolist()
        values = np.array([whole - base])
    else:
        shap = extra("shap", "partition_shap")
        with numpy_seed(seed):
            explainer = shap.explainers.Partition(value, _Masker(tree(ask.tokens)))
            found: Any = explainer(np.ones((1, n)), max_evals=most, batch_size=_BATCH, silent=True)
        values, base = np.asarray(found.values[0], dtype=float), float(np.ravel(found.base_values)[0])
    return finish(
        ask,
        target,
        "partition_shap",
        {"attribution": values},
        surrogate=Additive(values, np.array([base])),
        settings={"base": base, "max_evals": most},
        notes=value.notes,
    )


def tree(tokens: Tokens) -> FloatArray:
    """shap's grouping of a text, (n − 1, 4) as scipy's linkages are.

    Pieces of one word are marked as the package expects them ("##"); it would never split such a group, which a negative
    distance tells it, but here every token has a score of its own.
    """
    module = extra("shap.maskers._text", "partition_shap")
    inside = np.r_[False, (np.diff(tokens.words) == 0) & (np.diff(tokens.segments) == 0)]
    marked = [f"##{s}" if part else s for s, part in zip(tokens.strings, inside, strict=True)]
    links = module.partition_tree(marked, [])
    links[:, 2] = np.abs(links[:, 2]) + 1.0
    return links


class _Masker:
    """Which tokens are kept is all the model is told; shap wants an object for it."""

    def __init__(self, clustering: FloatArray):
        self.clustering = clustering
        self.shape = (1, len(clustering) + 1)

    def __call__(self, mask: np.ndarray, _: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(mask, dtype=bool)[None],)
