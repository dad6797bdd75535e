from __future__ import annotations

from itertools import product
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.errors import InputError
from slalom.shapley import shapley_values
from slalom.surrogate import Slalom

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def game(s: np.ndarray, v: np.ndarray, s0: float, v0: np.ndarray, present: np.ndarray) -> np.ndarray:
    """F of a coalition straight from the definition; 0 for nothing at all."""
    logs = np.r_[s[present], s0]
    if logs.max() == -np.inf:
        return np.zeros(v.shape[1])
    alpha = np.exp(logs - logs.max())
    return alpha @ np.vstack([v[present], v0]) / alpha.sum()


def brute_force(s: np.ndarray, v: np.ndarray, s0: float, v0: np.ndarray) -> np.ndarray:
    """The defining sum over all 2^n coalitions."""
    n = len(s)
    masks = np.array(list(product([False, True], repeat=n)))
    worth = np.array([game(s, v, s0, v0, mask) for mask in masks])
    weight = np.array([factorial(k) * factorial(n - 1 - k) / factorial(n) for k in range(n)])
    phi = np.zeros_like(v)
    for i in range(n):
        without = np.flatnonzero(~masks[:, i])
        with_i = without + 2 ** (n - 1 - i)
        phi[i] = weight[masks[without].sum(axis=1)] @ (worth[with_i] - worth[without])
    return phi


@st.composite
def problems(draw: st.DrawFn, max_n: int = 7, spread: float = 15.0):
    n_types = draw(st.integers(1, max_n))
    types = draw(st.lists(st.integers(0, n_types - 1), min_size=1, max_size=max_n))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    scale = draw(st.sampled_from([0.0, 1.0, spread]))
    s = rng.uniform(-scale, scale, n_types)[types]
    v = rng.normal(scale=5, size=(n_types, 2))[types]
    if draw(st.booleans()):
        return s, v, draw(st.floats(-spread, spread)), rng.normal(size=2)
    return s, v, -np.inf, np.zeros(2)


@EXAMPLES
@given(problems())
def test_equals_the_sum_over_all_coalitions(problem):
    np.testing.assert_allclose(shapley_values(*problem), brute_force(*problem), atol=1e-10, rtol=0)


@pytest.mark.parametrize("s0", [-np.inf, 0.3])
@pytest.mark.parametrize("spread", [0.0, 2.0, 15.0, 300.0, 700.0])
def test_twelve_tokens_with_copies_equal_brute_force(spread: float, s0: float):
    rng = np.random.default_rng(3)
    types = np.array([0, 1, 2, 0, 3, 4, 0, 1, 5, 6, 7, 6])
    s, v = rng.uniform(-spread, spread, 8)[types], rng.normal(size=(8, 3))[types]
    v0 = np.array([0.5, -1.0, 0.5]) if np.isfinite(s0) else np.zeros(3)
    np.testing.assert_allclose(shapley_values(s, v, s0, v0), brute_force(s, v, s0, v0), atol=1e-10, rtol=0)


@EXAMPLES
@given(problems(max_n=60))
def test_efficiency(problem):
    s, v, s0, v0 = problem
    everything = np.ones(len(s), dtype=bool)
    nothing = ~everything
    expected = game(s, v, s0, v0, everything) - game(s, v, s0, v0, nothing)
    np.testing.assert_allclose(shapley_values(*problem).sum(axis=0), expected, atol=1e-10, rtol=0)


@EXAMPLES
@given(problems(max_n=20))
def test_copies_of_a_token_get_equal_values(problem):
    s, v, s0, v0 = problem
    phi = shapley_values(np.r_[s, s[:1]], np.vstack([v, v[:1]]), s0, v0)
    np.testing.assert_array_equal(phi[0], phi[-1])


@EXAMPLES
@given(problems(max_n=10), st.floats(-3, 3))
def test_linear_in_the_values(problem, factor):
    s, v, s0, v0 = problem
    other, other0 = np.random.default_rng(1).normal(size=v.shape), v0[::-1]
    both = shapley_values(s, v + factor * other, s0, v0 + factor * other0)
    apart = shapley_values(s, v, s0, v0) + factor * shapley_values(s, other, s0, other0)
    np.testing.assert_allclose(both, apart, atol=1e-10, rtol=0)


def test_a_token_without_weight_is_a_null_player():
    rng = np.random.default_rng(0)
    s, v = np.r_[rng.normal(size=6), -60.0], rng.normal(size=(7, 1))
    with_background = shapley_values(s, v, 0.0, np.array([0.4]))
    assert abs(with_background[-1, 0]) < 1e-12
    np.testing.assert_allclose(with_background[:-1], shapley_values(s[:-1], v[:-1], 0.0, np.array([0.4])))
    # Without background it still turns f(∅) = 0 into its own value where it comes first: once in n orders.
    alone = shapley_values(s, v, -np.inf, np.zeros(1))
    np.testing.assert_allclose(alone[-1], v[-1] / 7, atol=1e-12)


def test_equal_weights_have_a_closed_form():
    """The mean of the members: φ_i = v_i H_n / n + (mean of the others) (1 − H_n) / n, H_n harmonic."""
    n = 200
    v = np.random.default_rng(5).normal(size=(n, 1))
    harmonic = np.sum(1 / np.arange(1, n + 1))
    others = (v.sum() - v) / (n - 1)
    expected = (v * harmonic + others * (1 - harmonic)) / n
    np.testing.assert_allclose(
        shapley_values(np.full(n, -4.0), v, -np.inf, np.zeros(1)), expected, atol=1e-12
    )


def test_one_token_and_none():
    assert shapley_values(np.array([8.0]), np.array([[2.0]]), -np.inf, np.zeros(1))[0, 0] == pytest.approx(2)
    phi = shapley_values(np.array([np.log(3)]), np.array([[2.0]]), 0.0, np.array([1.0]))
    assert phi[0, 0] == pytest.approx((3 * 2 + 1) / 4 - 1)
    assert shapley_values(np.zeros(0), np.zeros((0, 2)), -np.inf, np.zeros(2)).shape == (0, 2)


@pytest.mark.parametrize("spread", [0.1, 3.0, 15.0])
def test_long_texts_are_exact(spread: float):
    rng = np.random.default_rng(7)
    types = rng.integers(0, 300, 500)
    surrogate = Slalom(rng.normal(size=(300, 2)), rng.uniform(-spread, spread, 300))
    phi = surrogate.shapley(types)
    np.testing.assert_allclose(phi.sum(axis=0), surrogate.output(types), atol=1e-10)
    # Permutation sampling on one class, as an independent witness.
    sample = _by_sampling(surrogate, types, 4000, rng)
    assert np.sqrt(np.mean((sample - phi[:, 0]) ** 2)) < 0.2 * np.sqrt(np.mean(phi[:, 0] ** 2))


def _by_sampling(surrogate: Slalom, types: np.ndarray, n_orders: int, rng: np.random.Generator) -> np.ndarray:
    w = np.exp(surrogate.importances[types] - surrogate.importances.max())
    wv = w * surrogate.values[types, 0]
    total = np.zeros(len(types))
    for _ in range(n_orders):
        order = rng.permutation(len(types))
        total[order] += np.diff(np.r_[0.0, np.cumsum(wv[order]) / np.cumsum(w[order])])
    return total / n_orders


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_importances_that_are_not_finite(bad: float):
    with pytest.raises(InputError, match="finite"):
        shapley_values(np.array([0.0, bad]), np.zeros((2, 1)), -np.inf, np.zeros(1))
