from __future__ import annotations

import numpy as np
import pytest

from planted_heads import differences, from_vector, planted, vector
from slalom import scores as readings
from slalom.fit import Covariance
from slalom.surrogate import Heads, Slalom

N = 6
FAMILY = pytest.mark.parametrize(("parts", "ceiling"), [(1, None), (1, 1.5), (3, None), (3, 2.0)])


def covariance(size: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    root = spread * np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T


def test_scores_are_the_surrogates_own():
    surrogate = planted(N).parts[0]
    scores = readings.slalom_readings(surrogate)
    assert list(scores) == ["value", "importance", "share", "removal", "shapley"]
    whole = surrogate.output(np.arange(N))[0]
    for i in range(N):
        rest = np.delete(np.arange(N), i)
        assert scores["removal"][i] == pytest.approx(whole - surrogate.output(rest)[0], abs=1e-12)
    share = surrogate.shares(np.arange(N))[1]
    assert scores["share"].sum() + share * surrogate.background_value[0] == pytest.approx(whole)
    empty = surrogate.background_value[0]
    assert scores["shapley"].sum() == pytest.approx(whole - empty, abs=1e-9)


@FAMILY
def test_output_slopes_are_derivatives(parts: int, ceiling: float | None):
    surrogate = planted(N, parts, ceiling)
    counts = np.random.default_rng(1).integers(0, 3, size=(8, N)).astype(float)
    slopes = differences(lambda theta: from_vector(theta, parts).predict(counts)[:, 0], vector(surrogate))
    np.testing.assert_allclose(readings.output_slopes(surrogate, counts), slopes, atol=1e-8)
    alone = differences(lambda theta: from_vector(theta, parts).alone()[:, 0], vector(surrogate))
    np.testing.assert_allclose(readings.output_slopes(surrogate, np.eye(N)), alone, atol=1e-8)


@FAMILY
def test_importance_slopes_are_derivatives(parts: int, ceiling: float | None):
    surrogate = planted(N, parts, ceiling, seed=1)
    centre = np.array([0.3, 0.1, 0.1, 0.2, 0.2, 0.1])

    def importances(theta: np.ndarray) -> np.ndarray:
        weights = from_vector(theta, parts).log_weights()
        return weights - centre @ weights

    slopes = differences(importances, vector(surrogate))
    np.testing.assert_allclose(
        readings.importance_slopes(surrogate, np.eye(len(surrogate)), centre), slopes, atol=1e-8
    )


@FAMILY
def test_share_slopes_are_derivatives(parts: int, ceiling: float | None):
    surrogate = planted(N, parts, ceiling, seed=2)
    slopes = differences(lambda theta: from_vector(theta, parts).shares()[:, 0], vector(surrogate))
    np.testing.assert_allclose(readings.share_slopes(surrogate), slopes, atol=1e-8)


@FAMILY
@pytest.mark.parametrize("numbers", [np.arange(N), np.array([0, 0, 1, 2, 2, 2])])
def test_shapley_slopes_are_derivatives(parts: int, ceiling: float | None, numbers: np.ndarray):
    surrogate = planted(N, parts, ceiling, seed=3)
    member = (numbers == np.arange(numbers[-1] + 1)[:, None]).astype(float)

    def values(theta: np.ndarray) -> np.ndarray:
        return from_vector(theta, parts).grouped(numbers).shapley()[:, 0]

    slopes = differences(values, vector(surrogate))
    np.testing.assert_allclose(readings.shapley_slopes(surrogate, member), slopes, atol=5e-4)


def test_importance_slopes_of_words_are_those_of_their_weights():
    numbers, surrogate = np.array([0, 0, 1, 2, 2, 2]), planted(N, 2, 1.5, seed=4)
    member = (numbers == np.arange(3)[:, None]).astype(float)
    centre = np.full(3, 1 / 3)

    def importances(theta: np.ndarray) -> np.ndarray:
        weights = from_vector(theta, 2).grouped(numbers).log_weights()
        return weights - centre @ weights

    slopes = differences(importances, vector(surrogate))
    np.testing.assert_allclose(readings.importance_slopes(surrogate, member, centre), slopes, atol=1e-7)


def test_share_slopes_of_a_text_without_a_level():
    """Σ_h F_h = 0: nothing is saturated, and nothing is divided by it."""
    level = Slalom(np.zeros(3), np.array([0.0, 0.3, -0.2]))
    slopes = readings.share_slopes(Heads((level,), np.zeros(1), np.ones(1)))
    np.testing.assert_allclose(slopes[:, :-1], readings.share_slopes(Heads((level,), np.zeros(1))))
    np.testing.assert_array_equal(slopes[:, -1], 0.0)


def test_without_background_its_slopes_are_zero():
    part = Slalom(np.array([1.0, -1.0, 0.5]), np.array([0.0, 0.3, -0.2]))
    surrogate = Heads((part,), np.zeros(1))
    every = readings.share_slopes, lambda told: readings.shapley_slopes(told, np.eye(3))
    for slopes in (*(each(surrogate) for each in every), readings.output_slopes(surrogate, np.ones((1, 3)))):
        np.testing.assert_allclose(slopes[:, [3, 7]], 0.0, atol=1e-300)


@pytest.mark.parametrize("background", [0.4, -np.inf])
def test_one_part_without_ceiling_reads_as_the_papers(background: float):
    rng = np.random.default_rng(3)
    part = Slalom(rng.normal(size=N), rng.normal(size=N), rng.normal(size=1), background)
    surrogate, text = Heads((part,), np.zeros(1)), np.arange(N)
    np.testing.assert_allclose(surrogate.shares(), part.linear(text))
    np.testing.assert_allclose(surrogate.removal(), part.removal(text), atol=1e-12)
    np.testing.assert_allclose(surrogate.shapley(), part.shapley(text))
    np.testing.assert_array_equal(surrogate.log_weights(), part.importances)
    if background == -np.inf:
        np.testing.assert_allclose(surrogate.alone(), part.values)


@FAMILY
def test_readings_of_several_parts_add_up(parts: int, ceiling: float | None):
    """Shares and the backgrounds' make the output, Shapley values what it gains over them alone."""
    surrogate, text = planted(N, parts, ceiling, seed=4), np.arange(N)
    output = surrogate.predict(np.ones((1, N)))[0] - surrogate.offset
    rest = sum(part.shares(text)[1] * part.background_value for part in surrogate.parts)
    empty = sum(part.background_value for part in surrogate.parts)
    np.testing.assert_allclose(surrogate.shares().sum(axis=0) + surrogate.scale() * rest, output)
    np.testing.assert_allclose(surrogate.shapley().sum(axis=0) + surrogate.scale() * empty, output)
    for i, lost in enumerate(surrogate.removal()):
        without = surrogate.predict(np.delete(np.eye(N), i, axis=0).sum(axis=0)[None])[0]
        np.testing.assert_allclose(lost, output + surrogate.offset - without)


def test_the_covariance_of_named_blocks_is_that_of_the_whole_matrix():
    whole = covariance(14)
    named = Covariance(whole[:7, :7], whole[:7, 7:], whole[7:, 7:], 0.1)
    slopes = np.random.default_rng(0).normal(size=(5, 14))
    np.testing.assert_allclose(named.covariance(slopes), slopes @ whole @ slopes.T)


def test_rounding_below_zero_is_no_error():
    np.testing.assert_array_equal(readings.root(np.array([4.0, -1e-18])), [2.0, 0.0])


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
