from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slalom.fit import readings
from slalom.surrogate import Slalom


def model(n: int = 6, seed: int = 0, background: float = 0.2) -> Slalom:
    rng = np.random.default_rng(seed)
    return Slalom(rng.normal(size=n), rng.normal(size=n), rng.normal(size=1), background)


def covariance(size: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    root = spread * np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T


def vector(surrogate: Slalom) -> np.ndarray:
    """(importances, background's, values, background's)"""
    s0, v0 = surrogate.background_importance, surrogate.background_value[0]
    return np.r_[surrogate.importances, s0, surrogate.values[:, 0], v0]


def from_vector(theta: np.ndarray) -> Slalom:
    n = len(theta) // 2 - 1
    return Slalom(theta[n + 1 : 2 * n + 1], theta[:n], theta[-1:], float(theta[n]))


def jacobian(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, h: float = 1e-6) -> np.ndarray:
    steps = h * np.eye(len(at))
    return np.stack([(function(at + e) - function(at - e)) / (2 * h) for e in steps], axis=1)


def test_scores_are_the_surrogates_own():
    surrogate = model()
    scores = readings.scores(surrogate)
    assert list(scores) == ["value", "importance", "linear", "removal", "shapley"]
    whole = surrogate.output(np.arange(6))[0]
    for i in range(6):
        rest = np.delete(np.arange(6), i)
        assert scores["removal"][i] == pytest.approx(whole - surrogate.output(rest)[0], abs=1e-12)
    share = surrogate.shares(np.arange(6))[1]
    assert scores["linear"].sum() + share * surrogate.background_value[0] == pytest.approx(whole)
    empty = surrogate.background_value[0]
    assert scores["shapley"].sum() == pytest.approx(whole - empty, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_linear_covariance_is_the_delta_method(seed: int):
    surrogate = model(seed=seed)
    cov = covariance(14, seed)
    slopes = jacobian(lambda theta: from_vector(theta).linear(np.arange(6))[:, 0], vector(surrogate))
    np.testing.assert_allclose(
        readings.linear_covariance(surrogate, cov), slopes @ cov @ slopes.T, rtol=1e-5, atol=1e-7
    )


def test_without_background_its_uncertainty_does_not_matter():
    surrogate = model(background=-np.inf)
    cov = covariance(14)
    without = cov.copy()
    for row in (6, 13):
        without[row], without[:, row] = 0.0, 0.0
    np.testing.assert_allclose(
        readings.linear_covariance(surrogate, cov), readings.linear_covariance(surrogate, without)
    )


def test_standard_errors_are_roots_of_the_diagonal():
    surrogate, cov = model(), covariance(14)
    errors = readings.standard_errors(surrogate, cov)
    np.testing.assert_allclose(errors["importance"], np.sqrt(np.diag(cov)[:6]))
    np.testing.assert_allclose(errors["value"], np.sqrt(np.diag(cov)[7:13]))
    np.testing.assert_allclose(errors["linear"], np.sqrt(np.diag(readings.linear_covariance(surrogate, cov))))


@pytest.mark.parametrize("background", [0.2, -np.inf])
def test_removal_error_is_the_delta_method(background: float):
    """Removals are linear in the values, so the delta method is exact."""
    surrogate = model(background=background)
    cov = covariance(7)

    def removal(values: np.ndarray) -> np.ndarray:
        changed = Slalom(values[:-1], surrogate.importances, values[-1:], background)
        return changed.removal(np.arange(6))[:, 0]

    slopes = jacobian(removal, np.append(surrogate.values[:, 0], surrogate.background_value))
    np.testing.assert_allclose(
        readings.removal_error(surrogate, cov), np.sqrt(np.diag(slopes @ cov @ slopes.T)), rtol=1e-6
    )


def test_removal_error_of_a_token_that_outweighs_all_others():
    surrogate = Slalom(np.array([1.0, -1.0]), np.array([400.0, 0.0]))
    assert np.isfinite(readings.removal_error(surrogate, np.eye(3))).all()


def test_order_certainty_is_what_chance_says():
    """Draw scores around the estimate: how often is the order of a pair the estimated one?"""
    rng = np.random.default_rng(0)
    scores, cov = rng.normal(size=5), covariance(5, 1, 0.5)
    drawn = rng.multivariate_normal(scores, cov, size=200_000)
    i, j = np.triu_indices(5, 1)
    right = np.sign(drawn[:, i] - drawn[:, j]) == np.sign(scores[i] - scores[j])
    assert readings.order_certainty(scores, cov) == pytest.approx(right.mean(), abs=2e-3)


def test_order_certainty_at_its_ends():
    scores = np.array([0.0, 1.0, 3.0])
    assert readings.order_certainty(scores, np.zeros((3, 3))) == 1.0
    assert readings.order_certainty(scores, 1e12 * np.eye(3)) == pytest.approx(0.5, abs=1e-5)
    # tokens that err together keep their order
    assert readings.order_certainty(scores, np.full((3, 3), 1e6)) == 1.0
    # copies that share their score are no pair
    assert readings.order_certainty(np.ones(4), np.eye(4)) == 1.0
    assert readings.order_certainty(np.ones(1), np.eye(1)) == 1.0
    twins = np.array([0.0, 0.0, 1.0])
    alone = readings.order_certainty(twins[1:], np.eye(2))
    assert readings.order_certainty(twins, np.eye(3)) == pytest.approx(alone)
