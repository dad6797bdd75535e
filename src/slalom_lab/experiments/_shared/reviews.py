"""What Figs. 5, 10 and 11 say about single reviews, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from slalom.explanation import Explanation
from slalom_lab.experiments._shared.outcome import Judgement, Row, all_of, decide, mean_row, select

FUNCTION_WORDS = (
    "a an the and or of to in on at for with by from as is are was were be been it its this that i we you "
    "they he she my our your their there here so"
)
FOR, AGAINST = "important tokens for", "important tokens against"
CONTENT, FUNCTION = "importance of other words", "importance of function words"
ALONG, SIGNED = "importance with size of value", "importance with value"
WORDS_FOR, WORDS_AGAINST = "importance of other words for", "importance of other words against"
"""Of all words that are no function words, by the sign of their values."""
GAP = "other words over function words, all reviews"
GAPS = {
    CONTENT: GAP,
    WORDS_FOR: "words for over function words, all reviews",
    WORDS_AGAINST: "words against over function words, all reviews",
}
"""What is compared with function words, review by review, and the measure of the difference."""


def function_words(explanation: Explanation) -> NDArray[np.bool_]:
    """Which tokens are function words."""
    known = set(FUNCTION_WORDS.split())
    return np.array([token.strip().lower() in known for token in explanation.tokens.strings])


def strongest(explanation: Explanation) -> NDArray[np.bool_]:
    """Which tokens are the most important quarter."""
    return explanation.importances >= np.quantile(explanation.importances, 0.75)


def rows(explanation: Explanation, where: Mapping[str, str | int]) -> list[Row]:
    """How the most important quarter of the tokens speaks, and what importance function words have."""
    strong, values, words = strongest(explanation), explanation.values, function_words(explanation)
    place = {**where, "tokens": len(explanation)}
    means = {
        name: Row(place, name, float(explanation.importances[part].mean()), n=int(part.sum()))
        for name, part in (
            (CONTENT, ~words),
            (FUNCTION, words),
            (WORDS_FOR, ~words & (values > 0)),
            (WORDS_AGAINST, ~words & (values < 0)),
        )
        if part.any()
    }
    return [
        Row(place, FOR, int((strong & (values > 0)).sum())),
        Row(place, AGAINST, int((strong & (values < 0)).sum())),
        *means.values(),
        *_along(explanation, place),
    ]


def _along(explanation: Explanation, place: Mapping[str, str | int]) -> list[Row]:
    """Rank correlations of importances with values, without and with their sign (E.2)."""
    found = []
    for measure, values in ((ALONG, np.abs(explanation.values)), (SIGNED, explanation.values)):
        ranks: Any = spearmanr(explanation.importances, values)
        if np.isfinite(ranks.statistic):
            found.append(Row(place, measure, float(ranks.statistic), n=len(explanation)))
    return found


def lower(found: Sequence[Row], **where: str | int) -> bool | None:
    """Whether function words are less important than the others; None where there are none."""
    pair = select(found, FUNCTION, **where) + select(found, CONTENT, **where)
    return pair[0] < pair[1] if len(pair) == 2 else None


def judged(gaps: Sequence[Row]) -> Judgement:
    """Whether words for and words against the label are more important than function words.

    Each by two standard errors over the reviews, from the rows of `gaps`.
    """
    own = {row.measure: row for row in gaps}
    words = [own[GAPS[kind]] for kind in (WORDS_FOR, WORDS_AGAINST)]
    told = (
        f"{row.measure.partition(' over')[0]} by {row.ours or 0.0:.2f} ± {row.error or 0.0:.2f} (n = {row.n})"
        for row in words
    )
    return all_of([decide(row) for row in words]), f"above function words in importance are {', '.join(told)}"


def gaps(each: Sequence[Sequence[Row]], where: Mapping[str, str | int]) -> list[Row]:
    """By how much function words are less important than others, over the reviews that have both.

    `each` are the rows of every review.
    """
    found = []
    for kind, measure in GAPS.items():
        pairs = [select(own, kind) + select(own, FUNCTION) for own in each]
        found.append(mean_row(where, measure, [pair[0] - pair[1] for pair in pairs if len(pair) == 2]))
    return found
