"""Fig. 11: all words of the review of Fig. 5, explained for every model trained on film reviews."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from slalom.explanation import Explanation
from slalom_lab.experiments._shared import figures, real, reviews
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    all_of,
    conclude,
    distinct,
    select,
)
from slalom_lab.experiments.fig5_scatter import SIZES, Size, explanations, two_sided

TITLE = "SLALOM paper, Fig. 11 (F.4)"
CLAIM = (
    "with all words of the review of Fig. 5 shown, and for BERT as for GPT-2, important words have values of "
    "both signs and function words low importances"
)
NEEDS = {"data": ("imdb",), "packages": ("matplotlib",)}

__all__ = ["CLAIM", "NEEDS", "SIZES", "TITLE", "analyse", "judge", "run"]

_KINDS = ("BERT", "GPT-2")


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Choose the review as Fig. 5 does; explain it, and the others beside it, for BERT and for GPT-2."""
    size = size or SIZES[settings.mode]
    explained: dict[str, list[Explanation]] = {}
    for model in real.classifiers(settings, "imdb"):
        if model.like in _KINDS:
            explained[model.title] = [one for _, one in explanations(settings, model, size)]
    first = next(iter(explained.values()))
    chosen = max(range(len(first)), key=lambda place: two_sided(first[place]))
    rows: list[Row] = []
    for title, every in explained.items():
        mine = reviews.rows(every[chosen], {"model": title})
        rows += [*mine, *reviews.gaps([reviews.rows(one, {}) for one in every], mine[0].where)]
    figure = figures.save(_figure({title: every[chosen] for title, every in explained.items()}), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    """What the one review shows beside all of them."""
    told = []
    for model in distinct(rows, "model"):
        one = "less" if reviews.lower(rows, model=model) else "not less"
        told.append(f"{model}: function words are {one} important in the review shown, {_told(rows, model)}")
    return "; ".join(told)


def judge(rows: Sequence[Row]) -> Judgement:
    """For every model: words for and against are more important than function words, over all reviews."""
    verdicts, told = [], []
    for model in distinct(rows, "model"):
        own = [row for row in rows if row.where["model"] == model]
        verdict, sentence = reviews.judged(own)
        verdicts.append(verdict)
        signs = select(own, reviews.FOR) + select(own, reviews.AGAINST)
        told.append(
            f"{model}: over all reviews {sentence}; of the most important quarter of the review shown "
            f"{signs[0]:.0f} tokens speak for the label and {signs[1]:.0f} against it"
        )
    return all_of(verdicts), "; ".join(told)


def _gap(rows: Sequence[Row], model: str) -> Row:
    return next(row for row in rows if row.measure == reviews.GAP and row.where["model"] == model)


def _told(rows: Sequence[Row], model: str) -> str:
    row = _gap(rows, model)
    if row.ours is None:
        return "and no review has both kinds of words"
    error = "" if row.error is None else f" ± {row.error:.2f}"
    return f"over all {row.n} reviews less by {row.ours:.2f}{error}"


def _figure(explained: dict[str, Explanation]) -> figures.Figure:
    from slalom.view import plot

    picture = figures.figure(5.5 * len(explained), 5.5)
    axes = picture.subplots(1, len(explained), squeeze=False)[0]
    for ax, (title, explanation) in zip(axes, explained.items(), strict=True):
        plot.scatter(explanation, ax=ax)
        ax.set_title(title, fontsize=9)
    return picture
