from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from slalom.errors import InputError
from slalom.surrogate import Additive, Slalom

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def by_hand(model: Slalom, units: list[int]) -> np.ndarray:
    """Eq. 4, one token at a time, shifted by the largest importance."""
    s = [float(model.importances[u]) for u in units]
    rows = [model.values[u] for u in units]
    if model.background_importance > -np.inf:
        s.append(model.background_importance)
        rows.append(model.background_value)
    weights = [np.exp(x - max(s)) for x in s]
    return sum(w * row for w, row in zip(weights, rows, strict=True)) / sum(weights)  # type: ignore[return-value]


@st.composite
def texts(draw: st.DrawFn, background: bool | None = None):
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    d, k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    spread = draw(st.sampled_from([1.0, 8.0, 40.0, 700.0]))
    with_background = draw(st.booleans()) if background is None else background
    s0 = float(rng.uniform(-spread, spread)) if with_background else -np.inf
    model = Slalom(rng.normal(size=(d, k)), rng.uniform(-spread, spread, d), rng.normal(size=k), s0)
    units = draw(st.lists(st.integers(0, d - 1), min_size=1, max_size=12))
    return model, units


def counts_of(units: list[int], d: int) -> np.ndarray:
    return np.bincount(units, minlength=d).astype(float)


@EXAMPLES
@given(texts())
def test_output_and_predict_are_the_formula(text):
    model, units = text
    expected = by_hand(model, units)
    np.testing.assert_allclose(model.output(units), expected, atol=1e-12)
    counts = counts_of(units, len(model.importances))[None]
    np.testing.assert_allclose(model.predict(counts)[0], expected, atol=1e-12)
    np.testing.assert_allclose(model.predict(sparse.csr_array(counts))[0], expected, atol=1e-12)


@EXAMPLES
@given(texts())
def test_removal_is_evaluation_without_the_position(text):
    model, units = text
    removal = model.removal(units)
    for i in range(len(units)):
        rest = units[:i] + units[i + 1 :]
        without = by_hand(model, rest) if rest or model.background_importance > -np.inf else 0.0
        np.testing.assert_allclose(removal[i], by_hand(model, units) - without, atol=1e-10)


@EXAMPLES
@given(texts())
def test_linear_is_complete(text):
    model, units = text
    share = model.shares(units)[1]
    total = model.linear(units).sum(axis=0) + share * model.background_value
    np.testing.assert_allclose(total, model.output(units), atol=1e-12)


@EXAMPLES
@given(texts())
def test_gradient_equals_finite_differences(text):
    model, units = text
    d, step = len(model.importances), 1e-6

    def soft(weights: np.ndarray) -> np.ndarray:
        """F with position i present to the degree weights[i] (Eq. 5)."""
        counts = np.bincount(units, weights, d)
        return model.predict(counts[None])[0]

    for i in range(len(units)):
        nudge = step * np.eye(len(units))[i]
        slope = (soft(1 + nudge) - soft(1 - nudge)) / (2 * step)
        np.testing.assert_allclose(model.gradient(units)[i], slope, atol=1e-7)


@EXAMPLES
@given(texts(), st.floats(-50, 50))
def test_normalising_changes_nothing_but_the_sum(text, gamma):
    model, units = text
    same = model.normalised(gamma)
    assert same.importances.sum() == pytest.approx(gamma, abs=1e-9)
    np.testing.assert_allclose(same.output(units), model.output(units), atol=1e-9)
    np.testing.assert_allclose(same.removal(units), model.removal(units), atol=1e-9)
    np.testing.assert_allclose(np.diff(same.importances), np.diff(model.importances), atol=1e-9)


def test_a_background_in_the_limit_is_none():
    rng = np.random.default_rng(2)
    values, s = rng.normal(size=(4, 1)), rng.normal(size=4)
    counts = np.array([[1.0, 0, 2, 0], [0, 1, 1, 1]])
    plain, faint = Slalom(values, s), Slalom(values, s, np.array([9.0]), -60.0)
    np.testing.assert_allclose(faint.predict(counts), plain.predict(counts), atol=1e-12)
    assert faint.predict(np.zeros((1, 4)))[0, 0] == 9.0
    assert Slalom(values, s, np.array([9.0]), 60.0).predict(counts) == pytest.approx(9.0)


def test_repeats_only_count_where_there_is_a_background():
    """Prop. 4.1, and why a background is needed for models with fixed context."""
    counts = np.array([[1.0], [3.0]])
    np.testing.assert_allclose(Slalom(np.array([2.0]), np.zeros(1)).predict(counts), [[2.0], [2.0]])
    grows = Slalom(np.array([2.0]), np.zeros(1), np.zeros(1), 0.0).predict(counts)[:, 0]
    np.testing.assert_allclose(grows, [1.0, 1.5])


def test_classes_that_sum_to_zero_stay_so():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(5, 3))
    values -= values.mean(axis=1, keepdims=True)
    model = Slalom(values, rng.normal(size=5), np.array([1.0, -2.0, 1.0]), 0.2)
    units = [0, 1, 1, 4, 3, 0]
    for scores in (model.linear, model.gradient, model.removal, model.shapley):
        np.testing.assert_allclose(scores(units).sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(model.output(units).sum(), 0.0, atol=1e-12)


def test_weights_far_beyond_the_range_of_floats():
    model = Slalom(np.array([1.0, 2.0, 3.0]), np.array([700.0, -700.0, -699.0]))
    counts = np.array([[1.0, 1, 0], [0, 1, 0], [0, 2, 1]])
    weak = (2 * 2 + 3 * np.e) / (2 + np.e)
    for given_counts in (counts, sparse.csr_array(counts)):
        np.testing.assert_allclose(model.predict(given_counts)[:, 0], [1, 2, weak], atol=1e-12)
    np.testing.assert_allclose(
        model.removal([0, 1, 2])[:, 0], [1 - (2 + 3 * np.e) / (1 + np.e), 0, 0], atol=1e-12
    )


@pytest.mark.parametrize("counts", [np.array([[1.0, 0.0], [0.0, 0.0]]), sparse.csr_array((1, 2))])
def test_the_empty_sequence_has_no_value_without_background(counts):
    model = Slalom(np.ones(2), np.zeros(2))
    with pytest.raises(InputError, match="empty sequence"):
        model.predict(counts)
    with pytest.raises(InputError, match="empty sequence"):
        model.output([])
    with pytest.raises(InputError, match="empty sequence"):
        Slalom(np.zeros((0, 1)), np.zeros(0)).predict(np.zeros((1, 0)))


def test_the_empty_sequence_is_the_background():
    model = Slalom(np.ones((2, 2)), np.zeros(2), np.array([3.0, 4.0]), -5.0)
    np.testing.assert_array_equal(model.output([]), [3.0, 4.0])
    assert model.removal([]).shape == model.shapley([]).shape == (0, 2)


def test_the_only_token_without_background_gets_its_value():
    model = Slalom(np.array([[1.0, -1.0]]), np.array([5.0]))
    np.testing.assert_array_equal(model.removal([0]), [[1.0, -1.0]])


def test_arrays_are_read_only_and_checked():
    values = np.ones(3)
    model = Slalom(values, np.zeros(3))
    values[0] = 7.0
    assert model.values.shape == (3, 1)
    assert model.values[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.values[0, 0] = 2.0
    with pytest.raises(ValueError, match="importances of shape"):
        Slalom(np.ones(3), np.zeros(2))
    assert len(Slalom(np.zeros((0, 1)), np.zeros(0)).normalised().importances) == 0


def test_additive():
    model = Additive(np.array([1.0, -2.0]), np.array(0.5))
    counts = np.array([[0.0, 0.0], [2.0, 1.0]])
    np.testing.assert_array_equal(model.predict(counts), [[0.5], [0.5]])
    np.testing.assert_array_equal(model.predict(sparse.csr_array(counts)), model.predict(counts))
    steps = model.predict(np.arange(4.0)[:, None] * [[1.0, 0.0]])[:, 0]
    assert [b - a for a, b in pairwise(steps)] == [1.0] * 3
