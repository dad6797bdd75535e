"""Table 10 (F.6): insertion and deletion on a TF-IDF network, which is no transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from slalom.api import Explainer
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared import columns, figures, real
from slalom_lab.experiments._shared.outcome import Findings, Judgement, Row, RunSettings, all_of, conclude
from slalom_lab.experiments._shared.verdicts import outperforms

TITLE = "SLALOM paper, Table 10 (F.6)"
CLAIM = (
    "also for a network that is no transformer, SLALOM outperforms LIME and SHAP in insertion and deletion"
)
NEEDS = {"data": ("imdb",), "packages": ("lime", "pyarrow", "shap", "sklearn")}

MARGIN = 0.0007
"""AOPC: half of the smallest difference in the paper's table (SLALOM and LIME, insertion: 0.0014)."""
METHODS = {"SHAP": "kernel_shap", "LIME": "lime", "lin. SLALOM": "slalom_sgd", "this library": "slalom"}
PAPER = {
    "insertion": {"SHAP": (0.0120, 0.005), "LIME": (0.0053, 0.003), "lin. SLALOM": (0.0039, 0.001)},
    "deletion": {"SHAP": (0.8022, 0.026), "LIME": (0.9481, 0.005), "lin. SLALOM": (0.9601, 0.004)},
}


@dataclass(frozen=True)
class Size:
    texts: int
    words: int
    hidden: tuple[int, ...]
    epochs: int
    documents: int
    budget: int
    cut: int


SIZES = {
    "quick": Size(2000, 3000, (64, 32), 8, 10, 500, 96),
    "full": Size(5000, 10_000, (128, 64), 10, 400, 1000, 96),
}


def run(settings: RunSettings, size: Size | None = None) -> Findings:
    """A three-layer network on TF-IDF features, explained over words through its function alone."""
    size = size or SIZES[settings.mode]
    settings.say("training the network")
    explainer = Explainer(_network(settings, size), output="log_odds", labels=("negative", "positive"))
    classifier = real.Classifier("three-layer TF-IDF network", "TF-IDF network", explainer)
    results = real.study(
        settings,
        classifier,
        real.documents(settings, "imdb", size.documents),
        tuple(METHODS.values()),
        ("insertion", "deletion"),
        budget=size.budget,
        cut=size.cut,
    )
    numbers = {name: (method, "aopc") for name, method in METHODS.items()}
    rows: list[Row] = []
    for protocol, paper in PAPER.items():
        part = replace(classifier, title=protocol)
        rows += columns.rows(results, part, protocol, numbers, paper)
        sign = 1.0 if protocol == "deletion" else -1.0
        rows += columns.differences(results, part, protocol, numbers, "lin. SLALOM", ("LIME", "SHAP"), sign)
    rows = [replace(row, where={"protocol": row.where["model"]}) for row in rows]
    drawn = [replace(row, where={"model": row.where["protocol"]}) for row in columns.shown(rows)]
    figure = figures.save(figures.columns(drawn, "AOPC: insertion low, deletion high is good"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def analyse(rows: Sequence[Row]) -> str:
    """Which of the differences are clear, and how large they are beside what is measured."""
    largest = max(abs(row.ours or 0.0) for found in columns.gaps(rows, "protocol").values() for row in found)
    return (
        f"{columns.weigh(rows, 'protocol')}. The largest difference is {largest:.3f}: the network adds up "
        "the words' TF-IDF features, so additive explanations describe it about as well as SLALOM does"
    )


def judge(rows: Sequence[Row]) -> Judgement:
    """Better than LIME and SHAP in insertion and in deletion, each with the margin."""
    verdicts, told = [], []
    for protocol, gaps in columns.gaps(rows, "protocol").items():
        verdict, sentence = outperforms(gaps, [gap.measure for gap in gaps], MARGIN)
        verdicts.append(verdict)
        told.append(f"{protocol}: {sentence}")
    return all_of(verdicts), "; ".join(told)


def _network(settings: RunSettings, size: Size) -> Callable[[list[str]], FloatArray]:
    """The network's log-odds of texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neural_network import MLPClassifier

    from slalom_lab.experiments._shared.linear_models import fit_quietly

    texts = real.corpus(settings, "imdb", size.texts)
    vectorizer = TfidfVectorizer(max_features=size.words)
    features = vectorizer.fit_transform([str(document.text) for document in texts])
    network = MLPClassifier(size.hidden, max_iter=size.epochs, random_state=settings.seed)
    fit_quietly(network, features, [int(document.label or 0) for document in texts])

    def tfidf_network(asked: list[str]) -> FloatArray:
        # predict_proba saturates; the last layer before the logistic function does not.
        state = vectorizer.transform(asked)
        for weights, shift in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
            state = np.maximum(state @ weights + shift, 0.0)
        return (state @ network.coefs_[-1] + network.intercepts_[-1])[:, 0]

    return tfidf_network
