"""Figs. 5, 10 and 11: reviews as value–importance scatters, beside the words that people marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slalom.data import Document
from slalom.evaluate.human_attention import marked
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.shorten import shorten
from slalom.experiments import figures, real
from slalom.experiments.outcome import Judgement, NotRun, Outcome, Row, Settings, conclude, select
from slalom.explanation import Explanation

TITLE = "SLALOM paper, Figs. 5, 10 and 11"
CLAIM = (
    "words for and against the label get high importances with values of different sign; function words have "
    "low importances; importances find words that people marked"
)
NEEDS = {"data": ("yelp_hat", "yelp"), "packages": ("matplotlib", "sklearn")}

FUNCTION_WORDS = (
    "a an the and or of to in on at for with by from as is are was were be been it its this that i we you "
    "they he she my our your their there here so"
)
_MARKED, _FUNCTION = "importance of marked words", "importance of function words"
_FOR, _AGAINST = "important tokens for", "important tokens against"


@dataclass(frozen=True)
class Size:
    documents: int
    cut: int


SIZES = {"quick": Size(6, 100), "full": Size(50, 200)}


def run(settings: Settings, size: Size | None = None) -> Outcome:
    """Explain reviews with human maps; the one with the most marked words is drawn."""
    size = size or SIZES[settings.mode]
    classifier = next(iter(real.classifiers(settings, "yelp")))
    found: list[tuple[Document, Explanation, Any]] = []
    for document in real.documents(settings, "yelp_hat", 10 * size.documents):
        text = shorten(classifier.explainer.model, document, size.cut)
        if len(found) == size.documents or sum(text.maps.get("consensus", ())) < 2:
            continue
        settings.say(f"review {len(found) + 1} of {size.documents}")
        explanation = classifier.explainer(text.text, seed=settings.seed)
        try:
            found.append((text, explanation, marked(explanation, text)[0]["consensus"]))
        except (NotApplicable, KeyError):
            continue
    if not found:
        raise NotRun("none of the reviews drawn has two words that all annotators marked")
    rows = [row for place, (_, *told) in enumerate(found) for row in _rows(place, *told)]
    drawn = max(found, key=lambda one: int(one[2][1].sum()))
    figure = figures.save(_figure(drawn[1], drawn[2]), settings)
    told = {**asdict(size), "model": classifier.title}
    return conclude(rows, judge, told, (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """Each part must hold for more than half of the reviews in which it can be seen."""
    reviews = list(dict.fromkeys(row.where["review"] for row in rows))
    pairs = [
        (select(rows, _MARKED, review=r)[0], select(rows, _FUNCTION, review=r)[0])
        for r in reviews
        if select(rows, _FUNCTION, review=r)
    ]
    higher = sum(one > other for one, other in pairs)
    both = sum(min(select(rows, _FOR, review=r) + select(rows, _AGAINST, review=r)) > 0 for r in reviews)
    sentence = (
        f"words that people marked are more important than function words in {higher} of {len(pairs)} "
        "reviews; the most important quarter of the tokens speaks for and against the label in "
        f"{both} of {len(reviews)}"
    )
    if not pairs:
        return None, sentence
    return higher > len(pairs) / 2 and both > len(reviews) / 2, sentence


def _rows(place: int, explanation: Explanation, marks: Any) -> list[Row]:
    positions, human = marks
    importances, values = explanation.importances, explanation.values
    strong = importances >= np.quantile(importances, 0.75)
    words = np.array(
        [token.strip().lower() in FUNCTION_WORDS.split() for token in explanation.tokens.strings]
    )
    where: dict[str, str | int] = {"review": place + 1, "tokens": len(explanation)}
    function = float(importances[words].mean()) if words.any() else None
    return [
        Row(where, _MARKED, float(importances[positions[human]].mean()), n=int(human.sum())),
        Row(where, _FUNCTION, function, n=int(words.sum())),
        Row(where, _FOR, int((strong & (values > 0)).sum())),
        Row(where, _AGAINST, int((strong & (values < 0)).sum())),
    ]


def _figure(explanation: Explanation, marks: Any) -> Any:
    from slalom.view import plot

    picture = figures.figure(8.0, 8.0)
    plane, text = picture.subplots(2, 1, height_ratios=(2, 1))
    plot.scatter(explanation, ax=plane)
    positions, human = marks
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
    plot.highlight(explanation, ax=text)
    return picture
