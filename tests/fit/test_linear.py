from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from slalom.errors import InputError
from slalom.fit import linear


def random_problem(n: int, d: int, k: int = 2, noise: float = 0.5, seed: int = 0):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.3, size=(n, d)).astype(float)
    beta, intercept = rng.normal(size=(d, k)), rng.normal(size=k)
    return counts, counts @ beta + intercept + noise * rng.normal(size=(n, k)), beta, intercept


def by_least_squares(counts: np.ndarray, outputs: np.ndarray, pi: np.ndarray, ridge: float) -> np.ndarray:
    """(d + 1, K) weights and intercept from the stacked least-squares problem."""
    n, d = counts.shape
    design = np.sqrt(pi)[:, None] * np.column_stack([counts, np.ones(n)])
    penalty = np.sqrt(ridge) * np.eye(d + 1)[:d]
    target = np.vstack([np.sqrt(pi)[:, None] * outputs, np.zeros((d, outputs.shape[1]))])
    return np.linalg.lstsq(np.vstack([design, penalty]), target, rcond=None)[0]


@pytest.mark.parametrize("ridge", [0, 0.3, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_is_ridge_regression_with_a_free_intercept(ridge: float, weighted: bool):
    counts, outputs, _, _ = random_problem(80, 12)
    given = np.random.default_rng(1).uniform(0, 3, 80) if weighted else None
    pi = np.ones(80) if given is None else given / given.mean()
    expected = by_least_squares(counts, outputs, pi, ridge)
    for form in (counts, sparse.csr_array(counts)):
        fit = linear.fit(form, outputs, given, ridge)
        np.testing.assert_allclose(fit.surrogate.weights, expected[:-1], atol=1e-10)
        np.testing.assert_allclose(fit.surrogate.intercept, expected[-1], atol=1e-10)
        error = (fit.surrogate.predict(form) - outputs) ** 2
        assert fit.loss == pytest.approx(np.average(error.mean(axis=1), weights=pi))
        assert (fit.covariance, fit.status) == (None, "exact")


def test_short_and_long_queries_take_different_paths_to_the_same_answer():
    rng = np.random.default_rng(3)
    counts = np.zeros((200, 40))
    for row in counts:
        row[rng.integers(0, 40, 2)] += 1
    outputs = counts @ rng.normal(size=(40, 1))
    outputs += rng.normal(scale=0.1, size=outputs.shape)
    expected = by_least_squares(counts, outputs, np.ones(200), 1.0)
    np.testing.assert_allclose(
        linear.fit(counts, outputs, ridge=1.0).surrogate.weights, expected[:-1], atol=1e-9
    )


def test_auto_has_the_least_cross_validation_error():
    """Against hat matrices written out, over ridges from far too small to far too large."""
    counts, outputs, _, _ = random_problem(40, 25, noise=2.0)
    chosen = linear.fit(counts, outputs).surrogate

    def gcv(ridge: float) -> float:
        centred, y = counts - counts.mean(axis=0), outputs - outputs.mean(axis=0)
        hat = centred @ np.linalg.solve(centred.T @ centred + ridge * np.eye(25), centred.T)
        return float(((y - hat @ y) ** 2).sum() / (39 - np.trace(hat)) ** 2)

    grid = np.logspace(-6, 6, 400)
    best = grid[np.argmin([gcv(ridge) for ridge in grid])]
    assert 1e-3 < best < 1e3
    reference = linear.fit(counts, outputs, ridge=float(best)).surrogate
    np.testing.assert_allclose(chosen.weights, reference.weights, atol=0.03 * np.abs(reference.weights).max())


def test_auto_generalises_better_than_no_ridge():
    counts, outputs, beta, intercept = random_problem(60, 50, noise=2.0, seed=5)
    fresh = np.random.default_rng(9).poisson(0.3, size=(500, 50)).astype(float)
    truth = fresh @ beta + intercept

    def error(ridge) -> float:
        return float(
            np.mean((linear.fit(counts, outputs, ridge=ridge).surrogate.predict(fresh) - truth) ** 2)
        )

    assert error("auto") < 0.7 * error(0)


def test_an_additive_model_is_given_back():
    counts, outputs, beta, intercept = random_problem(100, 20, k=3, noise=0.0)
    fit = linear.fit(counts, outputs)
    np.testing.assert_allclose(fit.surrogate.weights, beta, atol=1e-6)
    np.testing.assert_allclose(fit.surrogate.intercept, intercept, atol=1e-6)


@pytest.mark.parametrize("ridge", ["auto", 0])
def test_more_tokens_than_queries_and_tokens_that_never_vary(ridge):
    counts, outputs, _, _ = random_problem(10, 30)
    counts[:, 0] = 1.0
    counts[:, 1] = counts[:, 2]
    fit = linear.fit(counts, outputs, ridge=ridge)
    weights = fit.surrogate.weights
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights[0], 0.0, atol=1e-9)
    np.testing.assert_allclose(weights[1], weights[2], atol=1e-9)
    assert fit.loss < outputs.var()


@pytest.mark.parametrize("ridge", ["auto", 0, 1.0])
def test_equal_queries_and_constant_outputs_give_the_mean(ridge):
    equal = linear.fit(np.ones((4, 3)), np.array([1.0, 2.0, 3.0, 6.0]), ridge=ridge).surrogate
    np.testing.assert_allclose(equal.weights, 0.0)
    assert equal.intercept[0] == pytest.approx(3.0)
    counts = random_problem(30, 5)[0]
    constant = linear.fit(counts, np.full(30, 2.5), ridge=ridge).surrogate
    np.testing.assert_allclose(constant.weights, 0.0, atol=1e-12)
    assert constant.intercept[0] == pytest.approx(2.5)


def test_what_cannot_be_fitted():
    for ridge in (-1.0, np.nan, np.inf, "best"):
        with pytest.raises(InputError, match="ridge must be 'auto'"):
            linear.fit(np.eye(2), np.zeros(2), ridge=ridge)  # type: ignore[arg-type]
    for weights in (np.ones(3), np.array([1.0, -1.0]), np.zeros(2), np.array([1.0, np.inf])):
        with pytest.raises(InputError, match="weights must be 2 finite"):
            linear.fit(np.eye(2), np.zeros(2), weights)
    with pytest.raises(InputError, match="nothing to fit"):
        linear.fit(np.zeros((2, 0)), np.zeros(2))


@pytest.mark.parametrize("strength", [0.01, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_errors_are_those_of_refits(
    strength: float, weighted: bool, monkeypatch: pytest.MonkeyPatch
):
    """With one ridge to choose from."""
    monkeypatch.setattr(linear, "_GRID", np.array([strength]))
    rng = np.random.default_rng(0)
    counts, outputs = rng.integers(0, 3, size=(20, 6)).astype(float), rng.normal(size=20)
    pi = rng.uniform(0.2, 2.0, 20) if weighted else np.ones(20)
    pi /= pi.mean()
    centred = counts - pi @ counts / 20
    ridge = strength * np.trace(centred.T @ (pi[:, None] * centred)) / 6
    found = linear.left_out(counts, outputs, pi)
    for i in range(20):
        rest = np.delete(np.arange(20), i)
        # the weights of the rest are scaled to mean one again, and the ridge with them
        other = linear.fit(counts[rest], outputs[rest], pi[rest], ridge / pi[rest].mean()).surrogate
        assert found[i] == pytest.approx(outputs[i] - other.predict(counts[[i]])[0, 0], abs=1e-9)


def test_left_out_errors_are_never_much_worse_than_those_of_the_mean():
    """Where counts tell nothing, the ridge is large enough to say nothing either."""
    rng = np.random.default_rng(1)
    counts, outputs = rng.integers(0, 2, size=(60, 40)).astype(float), rng.normal(size=60)
    assert (linear.left_out(counts, outputs) ** 2).mean() < 1.1 * outputs.var()
