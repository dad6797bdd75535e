"""Table 2a: rank correlation of SLALOM's scores with Naive Bayes weights on IMDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from slalom_lab.experiments._shared import figures, real
from slalom_lab.experiments._shared.outcome import (
    Findings,
    Judgement,
    Row,
    RunSettings,
    all_of,
    conclude,
    decide,
    distinct,
    select,
)
from slalom_lab.experiments._shared.verdicts import pooled

TITLE = "SLALOM paper, Table 2a"
CLAIM = "values and linearised SLALOM scores agree well with Naive Bayes weights, importances less"
NEEDS = {"data": ("imdb",), "packages": ("pyarrow",)}

PAPER = {
    "DistilBERT": {"values": (0.69, 0.01), "importances": (0.32, 0.02), "lin. SLALOM": (0.70, 0.01)},
    "BERT": {"values": (0.75, 0.01), "importances": (0.43, 0.02), "lin. SLALOM": (0.77, 0.01)},
    "GPT-2": {"values": (0.70, 0.02), "importances": (0.40, 0.02), "lin. SLALOM": (0.70, 0.02)},
}
_GOOD = 0.5
"""Spearman's correlation. In the paper values and linearised scores have 0.69 to 0.77, importances less."""
_PROTOCOL = "naive_bayes_agreement"
FEWER = "values, words counted in a quarter of the texts"
NUMBERS = {
    "values": ("slalom_sgd", "spearman_value"),
    "importances": ("slalom_sgd", "spearman_importance"),
    "lin. SLALOM": ("slalom_sgd", "spearman"),
    "values (this library)": ("slalom", "spearman_value"),
    "importances (this library)": ("slalom", "spearman_importance"),
    "lin. (this library)": ("slalom", "spearman"),
}


@dataclass(frozen=True)
class Size:
    documents: int
    budget: int
    cut: int
    corpus: int


SIZES = {"quick": Size(20, 1000, 128, 5000), "full": Size(100, 5000, 128, 12_000)}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """Correlations over the distinct tokens of each document; the explained label is the predicted one."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    counted, part = (real.corpus(settings, "imdb", n) for n in (size.corpus, size.corpus // 4))
    rows: list[Row] = []
    for classifier in real.classifiers(settings, "imdb"):
        rows += real.accuracy(classifier, "imdb")
        study = partial(
            real.study,
            settings,
            classifier,
            texts,
            protocols=(_PROTOCOL,),
            budget=size.budget,
            cut=size.cut,
        )
        results = study(methods=("slalom_sgd", "slalom"), labelled=counted)
        rows += real.rows(results, classifier, _PROTOCOL, NUMBERS, PAPER[classifier.like])
        fewer = study(methods=("slalom_sgd",), labelled=part)
        rows += real.rows(fewer, classifier, _PROTOCOL, {FEWER: NUMBERS["values"]})
    figure = figures.save(
        figures.columns(real.shown(rows), "Spearman's correlation with Naive Bayes"), settings
    )
    return conclude(rows, judge, real.told(settings, size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    """How far the correlations are from the paper's, and what goes along with it."""
    told = []
    for model in distinct(rows, "model"):
        own = {row.measure: row for row in rows if row.where["model"] == model}
        values, library = own["values"], own["values (this library)"]
        right = own.get(real.ACCURACY)
        accuracy = "" if right is None or right.ours is None else f", accuracy {right.ours:.2f}"
        told.append(
            f"{model}: values {values.ours:.2f} (the paper {values.paper}), {library.ours:.2f} with this "
            f"library's fit, {own[FEWER].ours:.2f} against Naive Bayes of a quarter of the texts{accuracy}"
        )
    return (
        f"{'; '.join(told)}. Where another fit of the same model gives the same correlation, the fit is not "
        "what limits it; where fewer texts to count words in lower it, the Naive Bayes weights are noisy, "
        "those of rare tokens first"
    )


def judge(rows: Sequence[Row]) -> Judgement:
    """Pooled over the models: both correlations above `_GOOD`, and above that of the importances."""
    names = ("values", "importances", "lin. SLALOM")
    means = {name: pooled(rows, name) for name in names}
    good = [decide(means[name], _GOOD) for name in ("values", "lin. SLALOM")]
    more = [decide(_less(means[name], means["importances"])) for name in ("values", "lin. SLALOM")]
    models = [
        f"{model}: " + ", ".join(f"{name} {select(rows, name, model=model)[0]:.2f}" for name in names)
        for model in distinct(rows, "model")
    ]
    sentence = (
        f"pooled over {len(models)} models: "
        + ", ".join(f"{name} {row.ours or 0.0:.3f} ± {row.error or 0.0:.3f}" for name, row in means.items())
        + f" (good is above {_GOOD}; {'; '.join(models)})"
    )
    return all_of([*good, *more]), sentence


def _less(one: Row, other: Row) -> Row:
    """A difference of two means over the same documents, as if they were independent: too wide, never narrow
    where both rise together."""
    if one.ours is None or other.ours is None or one.error is None or other.error is None:
        return Row({}, "difference", None)
    return Row({}, "difference", one.ours - other.ours, float(np.hypot(one.error, other.error)))
