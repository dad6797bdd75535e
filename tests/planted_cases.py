"""Cases whose answers are known: a transformer that is a given SLALOM, and explanations of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import slalom
from slalom.data.dataset import Document
from slalom.evaluate.protocol import Case, make_case
from slalom.evaluate.protocols.recovery import over_positions
from slalom.explanation import Explanation
from slalom.surrogate import Slalom
from slalom.theory.planted import plant

WORDS = tuple(f"w{i}" for i in range(24))
VALUES = np.random.default_rng(1).permutation(np.linspace(-3.0, 4.0, len(WORDS)))
IMPORTANCES = np.sin(np.arange(len(WORDS)))
PLANTED = Slalom(VALUES, IMPORTANCES)
TEXT = " ".join(WORDS)


@cache
def explainer() -> slalom.Explainer:
    return slalom.Explainer(*plant(IMPORTANCES, VALUES, WORDS))


def planted_output(kept: np.ndarray) -> float:
    """F over some positions of TEXT, from the formula (maths 1)."""
    weights = np.exp(IMPORTANCES[kept])
    return float(weights @ VALUES[kept] / weights.sum())


def planted_case(
    method: str = "occlusion", text: str = TEXT, *, document: Document | None = None, **more: Any
) -> Case:
    """A case of the planted transformer, for the label that its values speak for."""
    document = Document(text, 1, "planted") if document is None else document
    case = make_case(explainer(), document, method=method, target=1, **more)
    return replace(case, planted=over_positions(PLANTED, WORDS, case.explanation))


def with_scores(case: Case, scores: np.ndarray, **more: Any) -> Case:
    """The case with one other score and no surrogate."""
    told: dict[str, Any] = {"scores": {"attribution": scores}, "ranking": "attribution", "surrogate": None}
    return replace(case, explanation=replace(case.explanation, **told, **more))


def truthful(case: Case) -> Explanation:
    """What a perfect SLALOM method would say."""
    planted = case.planted
    assert planted is not None
    units = np.arange(len(case.explanation))
    scores = {
        "value": planted.values[:, 0],
        "importance": planted.importances - planted.importances.mean(),
        "share": planted.linear(units)[:, 0],
        "removal": planted.removal(units)[:, 0],
    }
    return replace(case.explanation, scores=scores, ranking="share", surrogate=planted, method="truth")
