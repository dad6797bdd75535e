"""Fig. 5: a film review as a value–importance scatter, with a choice of its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from slalom.data import Document
from slalom.evaluate.document import shorten
from slalom.explanation import Explanation
from slalom.tokens import IntArray
from slalom_lab.experiments._shared import figures, real, reviews
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    conclude,
    decide,
    distinct,
    mean_row,
    select,
)

TITLE = "SLALOM paper, Fig. 5"
CLAIM = (
    "in a film review both negative and positive words get high importances, with values of different sign, "
    "while function words have low importances"
)
NEEDS = {"data": ("imdb",), "packages": ("matplotlib",)}

_SHOWN = 8
"""Words drawn of each kind: for the label, against it, function words."""


@dataclass(frozen=True)
class Size:
    documents: int
    cut: int


SIZES = {"quick": Size(6, 100), "full": Size(24, real.CUT)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Count over several reviews what the paper shows for one; draw the one that speaks most both ways."""
    size = size or SIZES[settings.mode]
    classifier = next(iter(real.classifiers(settings, "imdb")))
    explained = list(explanations(settings, classifier, size))
    rows = [row for i, (_, one) in enumerate(explained) for row in reviews.rows(one, {"review": i + 1})]
    drawn = max((one for _, one in explained), key=two_sided)
    figure = figures.save(_figure(drawn), settings)
    return conclude(rows, judge, {**asdict(size), "model": classifier.title}, (settings.seed,), figure)


def explanations(
    settings: RunSettings, classifier: real.Classifier, size: Size
) -> Iterator[tuple[Document, Explanation]]:
    """Reviews, cut, and what this library says about them."""
    for place, document in enumerate(real.documents(settings, "imdb", size.documents)):
        settings.say(f"review {place + 1} of {size.documents}")
        text = shorten(classifier.explainer.model, document, size.cut)
        yield text, classifier.explainer(text.text, seed=settings.seed)


def two_sided(explanation: Explanation) -> int:
    """How many important tokens the weaker of the two sides has."""
    signs = np.sign(explanation.values[reviews.strongest(explanation)])
    return int(min((signs > 0).sum(), (signs < 0).sum()))


def judge(rows: Sequence[Row]) -> Judgement:
    """Words for and words against are both more important than function words, by two errors over reviews."""
    places = distinct(rows, "review")
    each = [[row for row in rows if row.where["review"] == place] for place in places]
    verdict, told = reviews.judged(reviews.gaps(each, {}))
    both = sum(min(select(own, reviews.FOR) + select(own, reviews.AGAINST)) > 0 for own in each)
    lower = [held for own in each if (held := reviews.lower(own)) is not None]
    sentence = (
        f"over {len(places)} reviews {told}; the most important quarter of the tokens speaks for and against "
        f"the label in {both} of them; function words are less important than the others in {sum(lower)} of "
        f"{len(lower)}"
    )
    return verdict, sentence


def parts(rows: Sequence[Row]) -> dict[str, Judgement]:
    """What E.2 says of real data, over the tokens of each review."""
    row = mean_row({}, reviews.ALONG, select(rows, reviews.ALONG))
    signed = mean_row({}, reviews.SIGNED, select(rows, reviews.SIGNED))
    return {
        "values go with importances (E.2)": (
            decide(row),
            f"rank correlation of importances with the sizes of values {row.ours or 0.0:+.2f} ± "
            f"{row.error or 0.0:.2f} over {row.n} reviews, with the values themselves "
            f"{signed.ours or 0.0:+.2f} ± {signed.error or 0.0:.2f}",
        )
    }


def _figure(explanation: Explanation) -> figures.Figure:
    picture = figures.figure(7.0, 5.0)
    ax = picture.subplots()
    values, importances = explanation.values, explanation.importances
    function = reviews.function_words(explanation)
    ax.axvline(0, color="0.8", linewidth=0.8)
    ax.scatter(values, importances, s=8, color="0.85")
    kinds = {
        f"for {explanation.target}": ~function & (values > 0),
        f"against {explanation.target}": ~function & (values < 0),
        "function words": function,
    }
    for colour, (name, part) in zip(figures.COLOURS, kinds.items(), strict=False):
        chosen = _first_copies(explanation, np.flatnonzero(part))
        ax.scatter(values[chosen], importances[chosen], s=26, color=colour, label=name)
        for i in chosen:
            word = figures.plain(explanation.tokens.strings[i])
            ax.annotate(word, (values[i], importances[i]), (3, 3), textcoords="offset points", fontsize=8)
    ax.set_xlabel("value")
    ax.set_ylabel("importance")
    ax.legend(frameon=False, fontsize=8)
    return picture


def _first_copies(explanation: Explanation, places: IntArray) -> list[int]:
    """The most important of some places, one of each token with a letter."""
    found: dict[str, int] = {}
    for i in sorted(places, key=lambda i: -explanation.importances[i]):
        token = explanation.tokens.strings[i].strip().lower()
        if token.isalpha() and len(found) < _SHOWN:
            found.setdefault(token, int(i))
    return list(found.values())
