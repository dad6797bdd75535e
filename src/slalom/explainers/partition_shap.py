"""PartitionSHAP: Owen values, Shapley values over a tree that groups neighbouring tokens.

The shap package's Partition explainer with its own tree for text (pieces of a word first, then phrases,
then sentences). A token that is absent is dropped; the base value is the model's score of the empty text.
"""

from __future__ import annotations

import numpy as np

from slalom.explainers._common import Budget, SeededNumpy, Subsets, extra, finish, queries, rebound
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive
from slalom.tokens import BoolArray, FloatArray, Tokens

NEEDS = "logits"

_BATCH = 64
"""Subsets that are asked together before the next ones are chosen."""


def explain(ask: Ask, target: Target, *, budget: Budget = "auto", seed: int = 0) -> Explanation:
    """Owen values from at most `budget` queries (1000 by default); groups it does not reach share alike."""
    n = len(ask.tokens)
    most = queries("partition_shap", budget, least=4)
    value = Subsets(ask, target)
    base, whole = value(np.stack([np.zeros(n, bool), np.ones(n, bool)])).tolist()
    values = _owen(value, base, whole, tree(ask.tokens), most, seed)
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

    Pieces of one word are marked as the package expects them ("##"). It would never split such a group, which
    a negative distance tells it; here every token has a score of its own.
    """
    inside = np.r_[False, (np.diff(tokens.words) == 0) & (np.diff(tokens.segments) == 0)]
    marked = [f"##{s}" if part else s for s, part in zip(tokens.strings, inside, strict=True)]
    links = extra("shap.maskers._text", "partition_shap").partition_tree(marked, [])
    links[:, 2] = np.abs(links[:, 2]) + 1.0
    return links


class _Masker:
    """What shap asks of a masker before it starts."""

    def __init__(self, links: FloatArray):
        self.links = links

    def clustering(self, *_: object) -> FloatArray:
        return self.links

    def __call__(self, mask: BoolArray, *_: object) -> tuple[BoolArray]:
        return (np.asarray(mask, dtype=bool)[None],)


class _Game:
    """The value of subsets, with the number of players."""

    def __init__(self, value: Subsets, n: int):
        self._value, self._n = value, n

    def __len__(self) -> int:
        return self._n

    def __call__(self, masks: BoolArray) -> FloatArray:
        return self._value(masks)


def _owen(value: Subsets, base: float, whole: float, links: FloatArray, most: int, seed: int) -> FloatArray:
    """The package's recursion, called directly: what it wraps around it takes seconds to compile."""
    n = len(links) + 1
    explainer = extra("shap", "partition_shap").explainers.Partition(value, _Masker(links))
    rebound(explainer, "owen", np=SeededNumpy(seed))
    explainer._clustering, explainer._mask_matrix = links, _members(links)
    explainer.values, explainer.dvalues = np.zeros(2 * n - 1), np.zeros(2 * n - 1)
    evaluations = (most - 2) // 2 * 2  # it asks in pairs and would go over an odd number
    explainer.owen(
        _Game(value, n), np.float64(base), np.float64(whole), evaluations, None, None, _BATCH, True
    )
    return _handed_down(np.array(explainer.dvalues), links)


def _members(links: FloatArray) -> BoolArray:
    """(2 n − 1, n) which tokens every node of the tree holds."""
    n = len(links) + 1
    members = np.zeros((2 * n - 1, n), dtype=bool)
    members[:n] = np.eye(n, dtype=bool)
    for node, (left, right) in enumerate(links[:, :2].astype(int), start=n):
        members[node] = members[left] | members[right]
    return members


def _handed_down(values: FloatArray, links: FloatArray) -> FloatArray:
    """What the budget left on a group goes to its tokens, in equal parts."""
    n = len(links) + 1
    sizes = _members(links).sum(axis=1)
    for node in range(2 * n - 2, n - 1, -1):
        for child in links[node - n, :2].astype(int):
            values[child] += values[node] * sizes[child] / sizes[node]
    return values[:n]
