"""Explanations beside human annotations: the words that annotators saw, the tokens that a model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from slalom.data.dataset import Document
from slalom.errors import MissingExtraError
from slalom.evaluate.protocol import Case, Good, NotApplicable, protocol
from slalom.explanation import Explanation
from slalom.tokens import FloatArray, IntArray, Tokens


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which tokens are judged, and the annotators' word that each of them belongs to."""

    positions: IntArray
    words: IntArray
    aligned: float
    """Share of the words with a letter or digit that have such a token: the model may have cut the text."""


def align(tokens: Tokens, words: Sequence[str]) -> Alignment:
    """Each token with a letter or digit belongs to the word that it shares most characters with.

    Tokens without one (punctuation) and tokens outside all words are dropped.
    """
    spans = _find(tokens.text, words)
    starts, ends = spans[:, 0], spans[:, 1]
    positions: list[int] = []
    owners: list[int] = []
    for position, (low, high) in enumerate(tokens.spans.tolist()):
        if not _says(tokens.text[low:high]):
            continue
        shared = np.minimum(ends, high) - np.maximum(starts, low)
        if shared.size and shared.max() > 0:
            positions.append(position)
            owners.append(int(shared.argmax()))
    saying = {number for number, word in enumerate(words) if _says(word)}
    if not positions or not saying:
        raise NotApplicable("no token of the text belongs to an annotated word")
    share = len(saying & set(owners)) / len(saying)
    return Alignment(np.array(positions, np.int64), np.array(owners, np.int64), share)


def runs(marks: np.ndarray) -> list[tuple[int, int]]:
    """The [start, end) of every run of marked places."""
    edges = np.flatnonzero(np.diff(np.r_[0, np.asarray(marks, dtype=np.int8), 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _find(text: str, words: Sequence[str]) -> IntArray:
    """(W, 2) where the words stand in the text, one after the other; (0, 0) for one that does not."""
    spans, place = np.zeros((len(words), 2), np.int64), 0
    for number, word in enumerate(words):
        at = text.find(word, place) if word else -1
        if at >= 0:
            place = at + len(word)
            spans[number] = at, place
    return spans


def _says(text: str) -> bool:
    return any(character.isalnum() for character in text)


MAPS = ("consensus", "majority", "superset", "rationale", "union")
GOOD: Mapping[str, Good] = {
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


@protocol("human_attention", good=GOOD, needs="rationale")
def measure(case: Case) -> dict[str, float]:
    """Human attention: do the scores stand out on the words that people marked?

    AU-ROC, AUPRC, token F1 and IOU F1 of |score| against the maps of the document: "consensus", "majority"
    and "superset" of Yelp-HAT, "rationale" of ERASER, "union" of HateXplain; importance, which has no sign,
    as it is (maths 6). Sub-tokens inherit their word's mark, tokens without a letter or digit are dropped. A
    map with one class only says nothing: it is left out. "aligned" is the share of the words that the model
    read.

    The metrics for every map with two classes, of the score to rank by, of importance and of value.
    """
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


def _metrics() -> ModuleType:
    try:
        from sklearn import metrics  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "methods", "the protocol 'human_attention'") from error
    return metrics
