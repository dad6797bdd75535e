"""The models of Figs. 3, 4 a, b and 6: transformers and a fully connected network on the linear data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from slalom.api import Explainer
from slalom.data import Document
from slalom.tokens import FloatArray
from slalom_lab.experiments._shared.outcome import NotRun, RunSettings
from slalom_lab.experiments._shared.synthetic import (
    WEIGHTS,
    WORDS,
    Sequences,
    count_matrix,
    labelled,
    linear_sequences,
    trained,
)

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

MLP = "fully connected"
HIDDEN = 400
"""Two layers with 400 hidden units, ReLU (App. A)."""

BATCH = 64


def training_set(texts: int, seed: int) -> tuple[Sequences, list[Document]]:
    """Sequences of the linear data set, and as documents with drawn labels."""
    rng = np.random.default_rng((seed, 3))
    sequences = linear_sequences(texts, rng)
    return sequences, labelled(sequences, truth(sequences), WORDS, rng)


def truth(sequences: Sequences) -> FloatArray:
    """The log-odds behind the labels (Eq. 74)."""
    return count_matrix(sequences, len(WORDS)) @ WEIGHTS


@dataclass(frozen=True)
class Training:
    """Which transformers are trained, and on how much: the first part of an experiment's size."""

    texts: int
    epochs: float
    width: int
    architectures: tuple[str, ...]
    layers: tuple[int, ...]


def transformers(settings: RunSettings, size: Training, seed: int) -> Iterator[tuple[str, int, Explainer]]:
    """Architecture, layers and model, trained or from the cache; the same settings are the same model."""
    from slalom_lab.training import Network

    _, documents = training_set(size.texts, seed)
    for architecture in size.architectures:
        for depth in size.layers:
            settings.say(f"{architecture} with {depth} layers, seed {seed}")
            network = Network(architecture, layers=depth, width=size.width)  # type: ignore[arg-type]
            yield (
                architecture,
                depth,
                trained(settings, network, documents, WORDS, epochs=size.epochs, batch=BATCH, seed=seed),
            )


def fully_connected(texts: int, epochs: int, seed: int) -> Callable[[list[str]], FloatArray]:
    """The log-odds of texts under a fully connected network on word counts, trained on the same labels."""
    try:
        from sklearn.neural_network import MLPClassifier
    except ImportError as error:
        raise NotRun("needs scikit-learn; install it with: pip install 'slalom-xai[methods]'") from error
    sequences, documents = training_set(texts, seed)
    counts = count_matrix(sequences, len(WORDS)).toarray()
    options: Any = {"batch_size": BATCH, "max_iter": epochs, "n_iter_no_change": epochs + 1}
    network = MLPClassifier((HIDDEN,), alpha=0.0, random_state=seed, **options)
    fit_quietly(network, counts, [int(document.label or 0) for document in documents])
    ids = {word: i for i, word in enumerate(WORDS)}

    def log_odds(asked: list[str]) -> FloatArray:
        rows = np.zeros((len(asked), len(WORDS)))
        for row, text in zip(rows, asked, strict=True):
            np.add.at(row, [ids[word] for word in text.split()], 1.0)
        # predict_proba saturates; the network's last layer before the logistic function does not.
        hidden = np.maximum(rows @ network.coefs_[0] + network.intercepts_[0], 0.0)
        return (hidden @ network.coefs_[1] + network.intercepts_[1])[:, 0]

    return log_odds


def fit_quietly(network: MLPClassifier, features: FloatArray | sparse.csr_matrix, labels: list[int]) -> None:
    """Fit a network of scikit-learn for the epochs it was given, which it need not be told about."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(features, labels)
