"""LIME's limit on the one-layer classifier: against enumeration, and against LIME itself."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from lime.lime_text import LimeTextExplainer

from slalom.errors import InputError
from slalom.theory import bounds, lime
from slalom.theory.attention_layer import UNK
from slalom.theory.layer import Masked, layer, look, masked
from theory_layers import ids_of, make, random_document

TEXT = "a good film with a very good cast"


def enumerate_lime(document: Masked) -> tuple[np.ndarray, np.ndarray, float]:
    """LIME's regression over all 2^d − 1 masks with their probabilities; E[f | j ∉ S] and E[f]."""
    d = document.size
    z = np.array([row for row in product((0.0, 1.0), repeat=d) if sum(row) < d])
    probability = np.array([1 / (d * comb(d, int(d - row.sum()))) for row in z])
    f = document.outputs(z)
    x = np.c_[np.ones(len(z)), z]
    beta = np.linalg.solve(x.T @ (probability[:, None] * x), x.T @ (probability * f))
    given = (probability * f) @ z / (probability @ z)
    return beta[1:], given, float(probability @ f)


@pytest.mark.parametrize("kind", [{}, {"positions": False}, {"pad_to_max": True}, {"skip": True}], ids=str)
def test_masking_equals_the_model_with_unknown_words(kind: dict[str, Any]) -> None:
    model, tokenizer = make(**kind)
    ids = np.array(ids_of(tokenizer, TEXT))
    document = masked(layer(model), ids)
    words = TEXT.split()
    names = list(dict.fromkeys(words))
    assert [words[i - 1] for i in document.first] == names
    for keep in np.random.default_rng(0).integers(0, 2, size=(20, len(names))).astype(float):
        gone = {name for name, stays in zip(names, keep, strict=True) if not stays}
        batch = tokenizer(" ".join(UNK if word in gone else word for word in words), return_tensors="pt")
        with torch.no_grad():
            expected = model(**batch).logits[0, 1].item()
        assert document.outputs(keep[None])[0] == pytest.approx(expected, abs=1e-12)


def test_one_head_of_a_masked_document_is_that_head() -> None:
    model, tokenizer = make()
    document = masked(layer(model), ids_of(tokenizer, TEXT))
    keep = np.random.default_rng(0).integers(0, 2, size=(5, document.size)).astype(float)
    heads = [document.head(k).outputs(keep) for k in range(3)]
    np.testing.assert_allclose(np.mean(heads, axis=0), document.outputs(keep), atol=1e-12)


def test_words_can_be_given_and_are_checked() -> None:
    model, tokenizer = make()
    ids = ids_of(tokenizer, "a good a")
    by_position = masked(layer(model), ids, words=[0, 1, 2])
    assert by_position.size == 3
    assert by_position.outputs(np.ones((1, 3)))[0] == pytest.approx(look(layer(model), ids).output)
    with pytest.raises(InputError, match="without gaps"):
        masked(layer(model), ids, words=[0, 2, 2])
    with pytest.raises(InputError, match="one column"):
        by_position.outputs(np.ones((1, 2)))
    with pytest.raises(InputError, match="read-out"):
        masked(layer(make(read_out="mean")[0]), ids)


@pytest.mark.parametrize("d", [2, 3, 7, 10])
@pytest.mark.parametrize("fixed", [1e-6, 1.0, 300.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_expectations_and_coefficients_equal_enumeration(d: int, fixed: float, spread: float) -> None:
    document = random_document(d, fixed=fixed, spread=spread)
    beta, given, mean = enumerate_lime(document)
    exact, average = lime.expectations(document)
    np.testing.assert_allclose(exact, given, atol=1e-11)
    assert average == pytest.approx(mean, abs=1e-11)
    np.testing.assert_allclose(lime.least_squares(document), beta, atol=1e-10)
    np.testing.assert_allclose(lime.mardaoui_garreau(document), 3 * (given - given.mean()), atol=1e-10)


def test_coefficients_of_a_real_layer_equal_enumeration() -> None:
    model, tokenizer = make(num_attention_heads=6, pad_to_max=True)
    document = masked(layer(model), ids_of(tokenizer, TEXT))
    assert document.size == 6
    beta, _, _ = enumerate_lime(document)
    np.testing.assert_allclose(lime.least_squares(document), beta, atol=1e-12)


def test_one_word_is_too_few() -> None:
    with pytest.raises(InputError, match="two words"):
        lime.expectations(random_document(1))


def relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize("fixed", [1.0, 100.0, 10_000.0])
def test_the_published_forms_beside_the_truth(fixed: float) -> None:
    document = random_document(99, heads=6, fixed=fixed)
    truth = lime.least_squares(document)
    errors = {
        name: relative(getattr(lime, name)(document), truth)
        for name in ("mean_field", "mardaoui_garreau", "three_halves")
    }
    assert errors["mean_field"] < 0.005
    assert errors["mean_field"] < errors["mardaoui_garreau"] < errors["three_halves"]
    assert 0.2 < errors["three_halves"] < 1.0


def test_where_the_filling_outweighs_the_text_the_factor_is_one_not_three_halves() -> None:
    """T ≪ T_max is the theorem's own regime: there f is linear in the presence of words, and LIME gives a
    linear function back as it is. With equal weights it is linear for every T."""
    short = random_document(30, fixed=1e6)
    truth = lime.least_squares(short)
    np.testing.assert_allclose(lime.mean_field(short), truth, rtol=1e-3, atol=1e-3 * np.abs(truth).max())
    flat = random_document(30, spread=0.0)
    truth = lime.least_squares(flat)
    np.testing.assert_allclose(lime.three_halves(flat), 1.5 * truth, atol=1e-12)
    np.testing.assert_allclose(lime.mean_field(flat), truth, atol=1e-12)


def test_the_mean_field_error_falls_like_one_over_d() -> None:
    errors = []
    for d in (20, 80, 240):
        cases = [random_document(d, heads=1, seed=seed) for seed in range(5)]
        errors.append(np.mean([relative(lime.mean_field(c), lime.least_squares(c)) for c in cases]))
    assert errors[0] > 2.5 * errors[1] > 2.5 * 2 * errors[2]


def test_lime_itself_agrees_within_its_sampling_error_for_99_words() -> None:
    """Eight runs of the `lime` package (masking by <UNK>; the largest distance is 100, the bandwidth 10⁶)."""
    words = tuple(f"w{i}" for i in range(99))
    model, tokenizer = make(words, max_position_embeddings=100, num_attention_heads=6, seed=3)
    document = masked(layer(model), ids_of(tokenizer, " ".join(words)))
    place = {word: i for i, word in enumerate(words)}

    def outputs(texts: list[str]) -> np.ndarray:
        keep = np.zeros((len(texts), 99))
        for row, text in zip(keep, texts, strict=True):
            row[[place[word] for word in text.split() if word != UNK]] = 1.0
        f = document.outputs(keep)
        return np.c_[-f, f]

    runs = []
    for seed in range(8):
        explainer = LimeTextExplainer(
            kernel_width=10**6, mask_string=UNK, bow=False, split_expression=r"\s+", random_state=seed,
            feature_selection="none",
        )  # fmt: skip
        explanation = explainer.explain_instance(
            " ".join(words), outputs, labels=(1,), num_features=99, num_samples=2000
        )
        found = dict(explanation.local_exp[1])
        runs.append([found[i] for i in range(99)])
    mean, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    z = (mean - lime.least_squares(document)) / error
    # Student's t with 7 degrees of freedom: E z² = 7/5; 99 of them average to within about 0.4 of that.
    assert np.mean(z**2) < 2.6
    assert np.abs(z).max() < 8
    for published in (lime.three_halves, lime.mardaoui_garreau):
        far = (mean - published(document)) / error
        assert np.mean(far**2) > 2 * np.mean(z**2)


@pytest.mark.parametrize(("n", "s", "kept"), [(2, 1, 0), (5, 0, 3), (5, 2, 1), (6, 5, 0), (7, 3, 6)])
def test_the_lemmas_against_enumeration(n: int, s: int, kept: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), rng.normal(size=n)
    others = [i for i in range(n) if i != kept]
    sums = [sum(b[i] if i in gone else a[i] for i in range(n)) for gone in map(set, combinations(others, s))]
    assert bounds.expected_sum(a, b, s, kept) == pytest.approx(np.mean(sums), abs=1e-12)
    assert bounds.variance_sum(a, b, s, kept) == pytest.approx(np.var(sums), abs=1e-12)


def test_the_lemmas_refuse_impossible_sets() -> None:
    with pytest.raises(InputError, match="0 ≤ s < n"):
        bounds.expected_sum(np.ones(3), np.ones(3), 3, 0)
