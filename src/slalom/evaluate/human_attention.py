"""Human attention: do the scores stand out on the words that people marked?

AU-ROC, AUPRC, token F1 and IOU F1 of |score| against the maps of the document: "consensus", "majority" and
"superset" of Yelp-HAT, "rationale" of ERASER, "union" of HateXplain; importance, which has no sign, as it is
(maths 6). Sub-tokens inherit their word's mark, tokens without a letter or digit are dropped. A map with one
class only says nothing: it is left out. "aligned" is the share of the words that the model read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom.data.document import Document
from slalom.errors import MissingExtraError
from slalom.evaluate._align import align, runs
from slalom.evaluate.protocol import Case, NotApplicable
from slalom.explanation import Explanation
from slalom.tokens import FloatArray

NEEDS = "rationale"
MAPS = ("consensus", "majority", "superset", "rationale", "union")
GOOD = {
    **{
        f"{metric}_{name}{score}": "high"
        for score in ("", "_importance", "_value")
        for name in MAPS
        for metric in ("auroc", "auprc", "f1", "iou_f1")
    },
    "aligned": "high",
}

_MATCH = 0.5
"""The overlap from which a predicted span counts as found (DeYoung et al. 2020)."""

Marks = NDArray[np.bool_]


def measure(case: Case) -> dict[str, float]:
    """The metrics for every map with two classes, of the score to rank by, of importance and of value."""
    marks, aligned = marked(case.explanation, case.document)
    result = {"aligned": aligned}
    for suffix, scores in _readings(case.explanation).items():
        for name, (positions, marked_here) in marks.items():
            found = plausibility(scores[positions], marked_here, seed=case.seed)
            result |= {f"{metric}_{name}{suffix}": value for metric, value in found.items()}
    return result


def marked(
    explanation: Explanation, document: Document
) -> tuple[dict[str, tuple[NDArray[np.int64], Marks]], float]:
    """By map: the judged positions and whether people marked them; and the share of words that were read."""
    known = {name: marks for name, marks in document.maps.items() if name in MAPS}
    if not known or document.words is None:
        raise NotApplicable("the document has no human map")
    alignment = align(explanation.tokens, document.words)
    found = {name: np.asarray(marks, dtype=bool)[alignment.words] for name, marks in known.items()}
    two = {
        name: (alignment.positions, marks) for name, marks in found.items() if 0 < marks.sum() < len(marks)
    }
    if not two:
        raise NotApplicable("people marked all or none of the words that the model read")
    return two, alignment.aligned


def plausibility(scores: FloatArray, marks: Marks, *, seed: int = 0) -> dict[str, float]:
    """How well unsigned scores find the marked tokens; `marks` must hold both classes.

    F1 and IOU F1 take as many top tokens as people marked; ties are broken at random, from the seed.
    """
    metrics = _metrics()
    order = np.lexsort((np.random.default_rng(seed).random(len(scores)), -scores))
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[order[: marks.sum()]] = True
    return {
        "auroc": float(metrics.roc_auc_score(marks, scores)),
        "auprc": float(metrics.average_precision_score(marks, scores)),
        "f1": float(metrics.f1_score(marks, chosen)),
        "iou_f1": iou_f1(chosen, marks),
    }


def iou_f1(chosen: Marks, marks: Marks) -> float:
    """F1 over runs of neighbouring tokens; one is found if it shares half of its union with a marked run."""
    told, truth = runs(chosen), runs(marks)
    found = sum(any(_overlap(span, other) >= _MATCH for other in truth) for span in told)
    return 2 * found / (len(told) + len(truth)) if told or truth else 1.0


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    shared = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return shared / (one[1] - one[0] + other[1] - other[0] - shared)


def _readings(explanation: Explanation) -> dict[str, FloatArray]:
    readings = {"": np.abs(explanation.score())}
    if explanation.ranking == "importance":
        readings[""] = explanation.score()
    if "importance" in explanation.scores:
        readings["_importance"] = explanation.importances
    if "value" in explanation.scores:
        readings["_value"] = np.abs(explanation.values)
    return readings


def _metrics() -> Any:
    try:
        from sklearn import metrics
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "methods", "the protocol 'human_attention'") from error
    return metrics
