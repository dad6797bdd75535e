from __future__ import annotations

import numpy as np
import pytest

from slalom.errors import FitError, InputError
from slalom.fit import Fit, ana
from slalom.surrogate import Slalom


def answers(model: Slalom, queries: np.ndarray) -> np.ndarray:
    return np.array([model.output(row) for row in queries]).reshape(len(queries), model.values.shape[1])


def recover(model: Slalom, **options) -> tuple[Fit[Slalom], int]:
    """Both stages against a model that can be asked; also the number of queries."""
    singles = ana.single_queries(len(model.importances))
    first = answers(model, singles)
    plan = ana.pair_queries(first)
    return ana.solve(plan, first, answers(model, plan.pairs), **options), len(singles) + len(plan.pairs)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("d", [2, 3, 10, 100, 300])
def test_gives_a_slalom_back_from_2d_minus_1_queries(d: int, k: int):
    rng = np.random.default_rng(d + k)
    model = Slalom(rng.normal(scale=2, size=(d, k)), rng.normal(scale=2, size=d)).normalised()
    fit, queries = recover(model)
    assert queries == 2 * d - 1
    np.testing.assert_allclose(fit.surrogate.importances, model.importances, atol=1e-9)
    np.testing.assert_array_equal(fit.surrogate.values, model.values)
    assert fit.loss < 1e-24
    assert (fit.status, fit.covariance) == ("exact", None)


def test_equal_values_are_chained_through_the_second_token():
    """Every type but one shares the reference's value or the second's."""
    values = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.5])
    model = Slalom(values, np.array([1.0, -2.0, 0.5, 2.0, -1.0, -0.5])).normalised(3.0)
    fit, _ = recover(model, gamma=3.0)
    np.testing.assert_allclose(fit.surrogate.importances, model.importances, atol=1e-12)
    assert fit.surrogate.importances.sum() == pytest.approx(3.0)


def test_pairs_are_the_far_apart_ones():
    values = np.array([0.0, 0.1, 5.0, -4.0, 4.9])
    plan = ana.pair_queries(values)
    assert {plan.reference, plan.second} == {2, 3}
    assert plan.pairs[0].tolist() == [plan.second, plan.reference]
    assert sorted([*plan.pairs[:, 0].tolist(), plan.reference]) == list(range(5))
    spread = np.abs(values[plan.pairs[:, 0]] - values[plan.pairs[:, 1]])
    assert spread.min() >= 4.5


def test_small_errors_in_the_answers_stay_small():
    """What the choice of reference is for: half the tokens have almost the value of an arbitrary one."""
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(scale=1e-3, size=30), rng.normal(scale=2, size=30)]
    model = Slalom(values, rng.normal(size=60)).normalised()
    singles = answers(model, ana.single_queries(60)) + rng.normal(scale=1e-6, size=(60, 1))
    plan = ana.pair_queries(singles)
    pairs = answers(model, plan.pairs) + rng.normal(scale=1e-6, size=(59, 1))
    fit = ana.solve(plan, singles, pairs)
    assert np.abs(fit.surrogate.importances - model.importances).max() < 1e-4


def test_a_model_that_is_no_slalom_is_named_with_its_tokens():
    singles = np.array([-1.0, 1.0, 0.0, 0.5])
    plan = ana.pair_queries(singles)
    pairs = singles[plan.pairs].mean(axis=1)
    pairs[plan.pairs[:, 0] == 2] = 7.0
    pairs[plan.pairs[:, 0] == 3] = singles[plan.pairs[plan.pairs[:, 0] == 3, 1]]  # on the edge
    with pytest.raises(FitError, match=r"2 of 3 pairs.*'so', 'fine'"):
        ana.solve(plan, singles, pairs, names=("bad", "good", "so", "fine"))
    with pytest.raises(FitError, match="type 2, type 3"):
        ana.solve(plan, singles, pairs)


def test_clipping_is_bounded_and_counted():
    singles = np.array([-1.0, 1.0, 0.0, 0.5])
    plan = ana.pair_queries(singles)
    pairs = singles[plan.pairs].mean(axis=1)
    pairs[plan.pairs[:, 0] == 2] = 1e9
    fit = ana.solve(plan, singles, pairs, strict=False, bound=0.01)
    assert fit.status == "clipped 1 of 3"
    assert np.ptp(fit.surrogate.importances) == pytest.approx(np.log(99))
    assert fit.loss > 1e16
    with pytest.raises(InputError, match="bound"):
        ana.solve(plan, singles, pairs, strict=False, bound=0.5)


def test_additive_models_fail_honestly():
    """f([τ, r]) = v_τ + v_r lies outside the interval wherever the signs agree."""
    singles = np.array([1.0, 2.0, 3.0, 0.5])
    plan = ana.pair_queries(singles)
    with pytest.raises(FitError, match="no SLALOM"):
        ana.solve(plan, singles, singles[plan.pairs].sum(axis=1))


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_a_constant_model_has_no_importances(value: float):
    outputs = np.array([[value * (1 + 1e-8 * i)] for i in range(5)])
    with pytest.raises(FitError, match=r"each of the 5 tokens the same output.*not constant"):
        ana.pair_queries(outputs)


def test_one_token():
    fit, queries = recover(Slalom(np.array([[2.0, -2.0]]), np.array([3.0])))
    assert queries == 1
    assert fit.surrogate.importances.tolist() == [0.0]
    assert fit.surrogate.values.tolist() == [[2.0, -2.0]]
    assert fit.loss == 0.0


def test_outputs_that_cannot_be_used():
    with pytest.raises(InputError, match="without tokens"):
        ana.single_queries(0)
    with pytest.raises(InputError, match="without tokens"):
        ana.pair_queries(np.zeros((0, 1)))
    with pytest.raises(InputError, match="NaN"):
        ana.pair_queries(np.array([0.0, np.nan]))
    plan = ana.pair_queries(np.array([0.0, 1.0, 2.0]))
    with pytest.raises(InputError, match=r"2 pairs need outputs of shape \(2, K\)"):
        ana.solve(plan, np.array([0.0, 1.0, 2.0]), np.zeros(3))
    with pytest.raises(InputError, match="one K"):
        ana.solve(plan, np.array([0.0, 1.0, 2.0]), np.zeros((2, 2)))
