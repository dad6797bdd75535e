"""Fig. 11: all words of the review of Fig. 5, explained for every model trained on film reviews."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slalom.experiments import figures, real, reviews
from slalom.experiments.fig5_scatter import SIZES, Size, explanations, two_sided
from slalom.experiments.outcome import Judgement, Outcome, Row, Settings, conclude, distinct
from slalom.explanation import Explanation

TITLE = "SLALOM paper, Fig. 11 (F.4)"
CLAIM = (
    "with all words of the review of Fig. 5 shown, and for BERT as for GPT-2, important words have values of "
    "both signs and function words low importances"
)
NEEDS = {"data": ("imdb",), "packages": ("matplotlib",)}

__all__ = ["CLAIM", "NEEDS", "SIZES", "TITLE", "judge", "run"]

_KINDS = ("BERT", "GPT-2")


def run(settings: Settings, size: Size | None = None) -> Outcome:
    """Choose the review as Fig. 5 does; explain it for BERT and for GPT-2."""
    size = size or SIZES[settings.mode]
    models = list(real.classifiers(settings, "imdb"))
    text, first = max(explanations(settings, models[0], size), key=lambda one: two_sided(one[1]))
    explained = {models[0].title: first}
    for model in models[1:]:
        if model.like in _KINDS:
            explained[model.title] = model.explainer(text.text, seed=settings.seed)
    rows = [row for title, one in explained.items() for row in reviews.rows(one, {"model": title})]
    figure = figures.save(_figure(explained), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """Both parts must hold for every model."""
    models = distinct(rows, "model")
    both = [reviews.both_signs(rows, model=model) for model in models]
    lower = [held for model in models if (held := reviews.lower(rows, model=model)) is not None]
    sentence = (
        f"the most important quarter of the tokens speaks for and against the label for {sum(both)} of "
        f"{len(models)} models; function words are less important than the others for {sum(lower)} of "
        f"{len(lower)}"
    )
    return (all(both) and all(lower)) if lower else None, sentence


def _figure(explained: dict[str, Explanation]) -> Any:
    from slalom.view import plot

    picture = figures.figure(5.5 * len(explained), 5.5)
    axes = picture.subplots(1, len(explained), squeeze=False)[0]
    for ax, (title, explanation) in zip(axes, explained.items(), strict=True):
        plot.scatter(explanation, ax=ax)
        ax.set_title(title, fontsize=9)
    return picture
