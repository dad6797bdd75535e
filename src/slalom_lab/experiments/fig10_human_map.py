"""Fig. 10: importances of reviews of Yelp-HAT beside the words that people marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom.data import Document
from slalom.evaluate.document import shorten
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.human_attention import marked, plausibility
from slalom.explanation import Explanation
from slalom.tokens import IntArray
from slalom_lab.experiments._shared import figures, real
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    NotRun,
    Row,
    RunSettings,
    conclude,
    decide,
    mean_row,
    select,
)

TITLE = "SLALOM paper, Fig. 10 (F.4)"
CLAIM = "SLALOM's importances identify many of the tokens of a review that people also marked"
NEEDS = {"data": ("yelp_hat", "yelp"), "packages": ("matplotlib", "sklearn")}

_AUROC, _SHARE = "AU-ROC of importances", "share of marked tokens among the most important quarter"
ALL = "all reviews"

Marks = tuple[IntArray, NDArray[np.bool_]]
"""Positions of tokens, and which of them people marked."""


@dataclass(frozen=True)
class Size:
    documents: int
    cut: int


SIZES = {"quick": Size(8, 100), "full": Size(25, real.CUT)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Explain reviews with human maps; the one with the most marked words is drawn."""
    size = size or SIZES[settings.mode]
    classifier = next(iter(real.classifiers(settings, "yelp")))
    found = list(_explained(settings, classifier, size))
    if not found:
        raise NotRun("none of the reviews drawn has two words that all annotators marked")
    rows = [row for i, (one, marks) in enumerate(found) for row in _rows(i + 1, one, marks)]
    for measure in (_AUROC, _SHARE):
        rows.append(mean_row({"review": ALL, "tokens": ""}, measure, select(rows, measure)))
    drawn = max(found, key=lambda one: int(one[1][1].sum()))
    figure = figures.save(_figure(*drawn), settings)
    return conclude(rows, judge, {**asdict(size), "model": classifier.title}, (settings.seed,), figure)


def _explained(
    settings: RunSettings, classifier: real.Classifier, size: Size
) -> Iterator[tuple[Explanation, Any]]:
    """Explanations with the judged positions and whether all annotators marked them."""
    count = 0
    for document in real.documents(settings, "yelp_hat", 10 * size.documents):
        text = shorten(classifier.explainer.model, document, size.cut)
        if count == size.documents or sum(text.maps.get("consensus", ())) < 2:
            continue
        settings.say(f"review {count + 1} of {size.documents}")
        explanation = classifier.explainer(text.text, seed=settings.seed)
        marks = _marks(explanation, text)
        if marks is not None:
            count += 1
            yield explanation, marks


def _marks(explanation: Explanation, text: Document) -> Marks | None:
    try:
        return marked(explanation, text)[0].get("consensus")
    except NotApplicable:
        return None


def judge(rows: Sequence[Row]) -> Judgement:
    """Identified: the mean AU-ROC is above chance by two standard errors."""
    own = {row.measure: row for row in rows if row.where["review"] == ALL}
    singles = [row.ours or 0.0 for row in rows if row.measure == _AUROC and row.where["review"] != ALL]
    error = "" if own[_AUROC].error is None else f" ± {own[_AUROC].error:.2f}"
    sentence = (
        f"the importances' AU-ROC for the marked tokens is {own[_AUROC].ours:.2f}{error} on average over "
        f"{len(singles)} reviews, above chance in {sum(one > 0.5 for one in singles)}; the most important "
        f"quarter of the tokens holds {own[_SHARE].ours:.0%} of the marked ones"
    )
    return decide(own[_AUROC], 0.5), sentence


def _rows(place: int, explanation: Explanation, marks: Marks) -> list[Row]:
    positions, human = marks
    importances = explanation.importances[positions]
    strong = importances >= np.quantile(importances, 0.75)
    where: dict[str, str | int] = {"review": place, "tokens": len(explanation)}
    return [
        Row(where, _AUROC, plausibility(importances, human)["auroc"], n=int(human.sum())),
        Row(where, _SHARE, float((strong & human).sum() / human.sum()), n=int(human.sum())),
    ]


def _figure(explanation: Explanation, marks: Marks) -> figures.Figure:
    from slalom.view import plot

    positions, human = marks
    # drawn over tokens, as the marks are judged: what is shown over words has scores of its own
    explanation = replace(explanation, settings={**explanation.settings, "units": "tokens"})
    picture = figures.figure(8.0, 10.0)
    plane, ours, theirs = picture.subplots(3, 1, height_ratios=(2, 1, 1))
    plot.scatter(explanation, ax=plane)
    chosen = positions[human]
    plane.scatter(
        explanation.values[chosen],
        explanation.importances[chosen],
        s=90,
        facecolors="none",
        edgecolors="black",
        label="marked by all annotators",
    )
    plane.legend(frameon=False)
    plot.highlight(explanation, score="importance", ax=ours)
    ours.set_title("importances", fontsize=9)
    marks_alone = np.zeros(len(explanation))
    marks_alone[chosen] = 1.0
    people = replace(explanation, scores={**explanation.scores, "marked": marks_alone})
    plot.highlight(people, score="marked", ax=theirs)
    theirs.set_title("marked by all annotators", fontsize=9)
    return picture
