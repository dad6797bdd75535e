"""Table 10 (F.6): insertion and deletion on a TF-IDF network, which is no transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from slalom.api import Explainer
from slalom.experiments import figures, real
from slalom.experiments.outcome import Judgement, Outcome, Row, Settings, conclude, select
from slalom.tokens import FloatArray

TITLE = "SLALOM paper, Table 10 (F.6)"
CLAIM = (
    "also for a network that is no transformer, SLALOM outperforms LIME and SHAP in insertion and deletion"
)
NEEDS = {"data": ("imdb",), "packages": ("lime", "pyarrow", "shap", "sklearn")}

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
    "full": Size(5000, 10_000, (128, 64), 10, 100, 5000, 256),
}


def run(settings: Settings, size: Size | None = None) -> Outcome:
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
    rows = [
        Row({"protocol": protocol}, *_rest(row))
        for protocol, paper in PAPER.items()
        for row in real.rows(results, classifier, protocol, numbers, paper)
    ]
    drawn = [Row({"model": str(row.where["protocol"])}, *_rest(row)) for row in rows]
    figure = figures.save(figures.columns(drawn, "AOPC: insertion low, deletion high is good"), settings)
    return conclude(rows, judge, asdict(size), (settings.seed,), figure)


def judge(rows: Sequence[Row]) -> Judgement:
    """Lower in insertion and higher in deletion than LIME and SHAP, by the means."""
    found = {
        (protocol, name): select(rows, name, protocol=protocol)[0] for protocol in PAPER for name in METHODS
    }
    own = {protocol: found[protocol, "lin. SLALOM"] for protocol in PAPER}
    others = {protocol: [found[protocol, name] for name in ("LIME", "SHAP")] for protocol in PAPER}
    inserts, deletes = own["insertion"] < min(others["insertion"]), own["deletion"] > max(others["deletion"])
    told = "; ".join(
        f"{protocol} " + ", ".join(f"{name} {found[protocol, name]:.4f}" for name in METHODS)
        for protocol in PAPER
    )
    sentence = (
        f"linearised SLALOM is {'better' if inserts else 'not better'} than LIME and SHAP in insertion and "
        f"{'better' if deletes else 'not better'} in deletion ({told})"
    )
    return inserts and deletes, sentence


def _rest(row: Row) -> tuple[str, float | None, float | None, int | None, float | None, float | None]:
    return row.measure, row.ours, row.error, row.n, row.paper, row.paper_error


def _network(settings: Settings, size: Size) -> Callable[[list[str]], FloatArray]:
    """The network's log-odds of texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neural_network import MLPClassifier

    from slalom.experiments.linear_models import fit_quietly

    texts = real.corpus(settings, "imdb", size.texts)
    vectorizer = TfidfVectorizer(max_features=size.words)
    features = vectorizer.fit_transform([str(document.text) for document in texts])
    network = MLPClassifier(size.hidden, max_iter=size.epochs, random_state=settings.seed)
    fit_quietly(network, features, [document.label for document in texts])

    def tfidf_network(asked: list[str]) -> FloatArray:
        # predict_proba saturates; the last layer before the logistic function does not.
        state = vectorizer.transform(asked)
        for weights, shift in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
            state = np.maximum(state @ weights + shift, 0.0)
        return (state @ network.coefs_[-1] + network.intercepts_[-1])[:, 0]

    return tfidf_network
