"""LIME at every bandwidth: against enumeration, the large-bandwidth limit, and LIME itself."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from lime.lime_text import LimeTextExplainer

from slalom.errors import InputError
from slalom.theory.attention_layer import UNK
from slalom.theory.layer import Masked
from slalom.theory.lime import by_size, coefficients, constants, least_squares
from theory_layers import random_document


def enumerated(document: Masked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All masks but the full one, LIME's probability of each, and f."""
    d = document.size
    z = np.array([row for row in product((0.0, 1.0), repeat=d) if sum(row) < d])
    probability = np.array([1 / (d * comb(d, int(row.sum()))) for row in z])
    return z, probability, document.outputs(z)


def regression(document: Masked, bandwidth: float, ridge: float = 0.0) -> np.ndarray:
    z, probability, f = enumerated(document)
    distance = 1 - np.sqrt(z.mean(axis=1))
    weight = probability * np.exp(-(distance**2) / (2 * bandwidth**2))
    x = np.c_[np.ones(len(z)), z]
    penalty = ridge * np.diag(np.r_[0.0, np.ones(document.size)])
    return np.linalg.solve(x.T @ (weight[:, None] * x) + penalty, x.T @ (weight * f))[1:]


@pytest.mark.parametrize("d", [2, 3, 9])
@pytest.mark.parametrize("fixed", [1e-6, 1.0, 300.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
def test_coefficients_equal_enumeration(d: int, fixed: float, spread: float) -> None:
    document = random_document(d, fixed=fixed, spread=spread)
    for bandwidth in (0.25, 1.0, np.inf):
        np.testing.assert_allclose(
            coefficients(document, bandwidth), regression(document, bandwidth), atol=1e-10
        )
    np.testing.assert_allclose(
        coefficients(document, 0.25, ridge=0.01), regression(document, 0.25, 0.01), atol=1e-10
    )


def test_means_by_size_equal_enumeration() -> None:
    document = random_document(7)
    found = by_size(document)
    z = np.array(list(product((0.0, 1.0), repeat=7)))
    f, gone = document.outputs(z), (7 - z.sum(axis=1)).astype(int)
    for s in range(8):
        np.testing.assert_allclose(found.mean[s], f[gone == s].mean(), atol=1e-12)
        np.testing.assert_allclose(found.standing[s], (f[:, None] * z)[gone == s].mean(axis=0), atol=1e-12)


def test_a_large_bandwidth_is_the_limit_for_many_words() -> None:
    document = random_document(99, heads=3)
    limit = least_squares(document)
    np.testing.assert_allclose(coefficients(document), limit, atol=1e-12)
    np.testing.assert_allclose(coefficients(document, 1e6), limit, atol=1e-10)
    assert np.abs(coefficients(document, 0.25) - limit).max() > 1e-3


@pytest.mark.parametrize("bandwidth", [0.25, np.inf])
def test_the_published_constants_give_the_same_coefficients(bandwidth: float) -> None:
    document = random_document(8)
    z, probability, f = enumerated(document)
    weight = probability * np.exp(-((1 - np.sqrt(z.mean(axis=1))) ** 2) / (2 * bandwidth**2))
    joint = (weight * f) @ z
    known = constants(8, bandwidth)
    first, second, third = known.sigma
    beta = (first * (weight @ f) + second * joint + third * (joint.sum() - joint)) / known.c
    np.testing.assert_allclose(beta, coefficients(document, bandwidth), atol=1e-10)


def test_a_tiny_bandwidth_asks_about_one_word_at_a_time() -> None:
    """Only s = 1 has weight, and then a word's coefficient is, up to one constant, what masking it takes."""
    document = random_document(12)
    alone = document.outputs(np.ones((1, 12))) - document.outputs(1 - np.eye(12))
    found = coefficients(document, 0.01)
    np.testing.assert_allclose(found - found.mean(), alone - alone.mean(), atol=1e-8)


def test_lime_with_its_own_bandwidth_agrees_within_its_sampling_error() -> None:
    """Six runs of the `lime` package with its default bandwidth, 25 hundredths of the cosine distance."""
    d, samples = 30, 3000
    words = tuple(f"w{i}" for i in range(d))
    place = {word: i for i, word in enumerate(words)}
    document = random_document(d, heads=1)

    def outputs(texts: list[str]) -> np.ndarray:
        keep = np.zeros((len(texts), d))
        for row, text in zip(keep, texts, strict=True):
            row[[place[word] for word in text.split() if word != UNK]] = 1.0
        f = document.outputs(keep)
        return np.c_[-f, f]

    runs = []
    for seed in range(6):
        explainer = LimeTextExplainer(
            mask_string=UNK, bow=False, split_expression=r"\s+", random_state=seed, feature_selection="none"
        )
        found = explainer.explain_instance(
            " ".join(words), outputs, labels=(1,), num_features=d, num_samples=samples
        )
        runs.append([dict(found.local_exp[1])[i] for i in range(d)])
    mean, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))

    def scatter(form: np.ndarray) -> float:
        return float(np.mean(((mean - form) / error) ** 2))

    # Student's t with 5 degrees of freedom: E z² = 5/3
    assert scatter(coefficients(document, 0.25, ridge=1 / samples)) < 4
    assert scatter(least_squares(document)) > 10


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(InputError, match="two words"):
        coefficients(random_document(1))
    with pytest.raises(InputError, match="bandwidth"):
        coefficients(random_document(3), bandwidth=0.0)
    with pytest.raises(InputError, match="too many"):
        by_size(random_document(901, heads=1))
