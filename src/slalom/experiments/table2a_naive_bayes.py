"""Table 2a: rank correlation of SLALOM's scores with Naive Bayes weights on IMDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from slalom.experiments import figures, real
from slalom.experiments.outcome import (
    Judgement,
    Outcome,
    Row,
    Settings,
    conclude,
    distinct,
    select,
)

TITLE = "SLALOM paper, Table 2a"
CLAIM = "values and linearised SLALOM scores agree well with Naive Bayes weights, importances less"
NEEDS = {"data": ("imdb",), "packages": ("pyarrow",)}

PAPER = {
    "DistilBERT": {"values": (0.69, 0.01), "importances": (0.32, 0.02), "lin. SLALOM": (0.70, 0.01)},
    "BERT": {"values": (0.75, 0.01), "importances": (0.43, 0.02), "lin. SLALOM": (0.77, 0.01)},
    "GPT-2": {"values": (0.70, 0.02), "importances": (0.40, 0.02), "lin. SLALOM": (0.70, 0.02)},
}
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


SIZES = {"quick": Size(20, 1000, 128, 2000), "full": Size(100, 5000, 256, 12_000)}


def run(settings: Settings, size: Size | None = None) -> Outcome:
    """Correlations over the distinct tokens of each document; the explained label is the predicted one."""
    size = size or SIZES[settings.mode]
    texts = real.documents(settings, "imdb", size.documents)
    counted = real.corpus(settings, "imdb", size.corpus)
    rows: list[Row] = []
    for classifier in real.classifiers(settings, "imdb"):
        results = real.study(
            settings,
            classifier,
            texts,
            ("slalom_sgd", "slalom"),
            ("naive_bayes_agreement",),
            budget=size.budget,
            cut=size.cut,
            labelled=counted,
        )
        paper = PAPER[classifier.like]
        rows += real.rows(results, classifier, "naive_bayes_agreement", NUMBERS, paper)
    figure = figures.save(figures.columns(rows, "Spearman's correlation with Naive Bayes"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """Good agreement: a mean correlation of at least 0.5, and above that of the importances."""
    good, told = 0, []
    models = distinct(rows, "model")
    for model in models:
        values, importances, linear = (
            select(rows, name, model=model)[0] for name in ("values", "importances", "lin. SLALOM")
        )
        good += min(values, linear) >= 0.5 and min(values, linear) > importances
        told.append(f"{model}: values {values:.2f}, linearised {linear:.2f}, importances {importances:.2f}")
    sentence = (
        "values and linearised scores correlate by at least 0.5, and more than importances, for "
        f"{good} of {len(models)} models ({'; '.join(told)})"
    )
    return good == len(models), sentence
