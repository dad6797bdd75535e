from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import linalg, sparse

from slalom import designs
from slalom.errors import FitError, InputError
from slalom.fit import exact, normal
from slalom.fit.exact import Group, fit, two_levels
from slalom.fit.normal import Point, Problem, Variances, curvature, objective, posterior, solve_values
from slalom.fit.rows import layout
from slalom.perturb import Perturbations, join
from slalom.surrogate import Slalom


def queries(d: int, count: int, seed: int, lengths: tuple[int, ...] = (2, 3)) -> Perturbations:
    """Every type alone, and `count` balanced sequences: every type stands in several."""
    first = np.arange(d)
    return join(
        [designs.singles(first, d), designs.short(first, d, count, lengths, np.random.default_rng(seed))]
    )


def planted(d: int, classes: int = 1, seed: int = 0, background: float = -np.inf) -> Slalom:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(d, classes))
    if classes > 1:
        values -= values.mean(axis=1, keepdims=True)
    return Slalom(values, rng.normal(size=d), np.full(classes, 0.4), background).normalised()


def answered(model: Slalom, asked: Perturbations, noise: float = 0.0, seed: int = 0) -> Group:
    truth = model.predict(asked.counts())
    return Group(asked.counts(), truth + noise * np.random.default_rng(seed).normal(size=truth.shape))


def same(found: Slalom, model: Slalom, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(found.importances, model.importances, atol=tolerance)
    np.testing.assert_allclose(found.values, model.values, atol=tolerance)


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("d", [10, 100, 300])
def test_gives_a_slalom_back_from_4d_short_queries(d: int, classes: int, background: bool):
    """Without a background there is none to find, whether it is looked for or not."""
    model, asked = planted(d, classes, seed=d + classes), queries(d, 3 * d, seed=d)
    assert len(asked) == 4 * d
    assert asked.lengths.max() <= 3
    found = fit([answered(model, asked)], background=background)
    same(found.surrogate, model)
    assert found.surrogate.background_importance < -15
    assert found.status == "converged"
    assert found.loss < 1e-20


@pytest.mark.parametrize("seed", range(5))
def test_gives_a_background_back(seed: int):
    model = planted(30, 2, seed, background=0.5)
    found = fit([answered(model, queries(30, 150, seed, (2, 3, 4)))])
    same(found.surrogate, model)
    assert found.surrogate.background_importance == pytest.approx(model.background_importance, abs=1e-6)
    np.testing.assert_allclose(found.surrogate.background_value, model.background_value, atol=1e-6)
    assert found.status == "converged"


def test_importances_far_apart():
    model = Slalom(np.linspace(-1, 1, 12)[::-1] ** 3, np.linspace(-6, 6, 12)).normalised()
    found = fit([answered(model, queries(12, 120, 0))])
    np.testing.assert_allclose(found.surrogate.importances, model.importances, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_additive_answers(seed: int):
    """The limit of a background that outweighs all tokens: it is stopped before the numbers give way."""
    weights = np.random.default_rng(seed).normal(size=(8, 1))
    counts = queries(8, 80, seed).counts()
    found = fit([Group(counts, counts @ weights)])
    fresh = queries(8, 80, seed + 10, (2, 5)).counts()
    error = found.surrogate.predict(fresh) - fresh @ weights
    assert error.var() < 1e-3 * (fresh @ weights).var()
    assert found.covariance is not None
    assert np.isfinite(found.covariance).all()


def test_gamma_is_the_sum_of_the_importances():
    model = planted(8)
    group = answered(model, queries(8, 40, 0))
    plain, shifted = fit([group]), fit([group], gamma=4.0)
    assert shifted.surrogate.importances.sum() == pytest.approx(4.0)
    np.testing.assert_allclose(shifted.surrogate.importances - 0.5, plain.surrogate.importances, atol=1e-12)
    np.testing.assert_array_equal(shifted.surrogate.values, plain.surrogate.values)


def test_many_classes_are_quick():
    model = planted(60, 20)
    group = answered(model, queries(60, 300, 0), noise=0.05)
    centred = Group(group.counts, group.outputs - group.outputs.mean(axis=1, keepdims=True))
    start = time.perf_counter()
    found = fit([centred], column=7)
    assert time.perf_counter() - start < 3.0
    assert found.status == "converged"
    assert np.abs(found.surrogate.values - model.values).max() < 0.3
    assert np.corrcoef(found.surrogate.importances, model.importances)[0, 1] > 0.98
    np.testing.assert_allclose(found.surrogate.values.sum(axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 50.0), (-1.0, -3.0)])
def test_outputs_in_other_units(noise: float, scale: float, shift: float):
    """Values follow the outputs, importances do not care; nor do standard errors."""
    d = 20
    group = answered(planted(d, 2, background=0.0), queries(d, 100, 0), noise)
    plain = fit([group], column=1)
    found = fit([Group(group.counts, scale * group.outputs + shift)], column=1)
    back = (found.surrogate.values - shift) / scale
    np.testing.assert_allclose(back, plain.surrogate.values, atol=1e-8)
    np.testing.assert_allclose(found.surrogate.importances, plain.surrogate.importances, atol=1e-8)
    if noise:
        assert plain.covariance is not None
        assert found.covariance is not None
        unit = np.r_[np.ones(d + 1), np.full(d + 1, scale)]
        np.testing.assert_allclose(found.covariance / np.outer(unit, unit), plain.covariance, atol=1e-8)


@pytest.mark.parametrize("rounding", [0.0, 1e-17, 1e-15])
def test_constant_outputs(rounding: float):
    asked = queries(5, 20, 0)
    outputs = np.tile([0.3, -0.3], (25, 1)) + rounding * np.arange(25.0)[:, None]
    found = fit([Group(asked.counts(), outputs)])
    assert (found.status, found.iterations) == ("constant", 0)
    np.testing.assert_allclose(found.surrogate.values, np.tile([0.3, -0.3], (5, 1)), atol=1e-12)
    np.testing.assert_array_equal(found.surrogate.importances, np.zeros(5))
    assert found.covariance is not None
    np.testing.assert_array_equal(found.covariance, np.zeros((12, 12)))


def test_one_unit():
    """Nothing to weigh it against: its value is what it says, its importance the normalisation."""
    counts = np.array([[1.0], [1.0], [2.0], [3.0]])
    found = fit([Group(counts, np.array([[1.0], [1.2], [0.9], [1.1]]))], background=False, gamma=2.0)
    np.testing.assert_allclose(found.surrogate.values, [[1.05]], atol=1e-3)
    np.testing.assert_allclose(found.surrogate.importances, [2.0])
    assert found.covariance is not None
    assert np.isfinite(found.covariance).all()


def test_a_unit_that_never_occurs_stays_at_the_prior():
    model = planted(6)
    asked = queries(6, 60, 0)
    wide = sparse.csr_array(sparse.hstack([asked.counts(), sparse.csr_array((66, 1))]))
    group = Group(wide, model.predict(asked.counts()))
    found = fit([group]).surrogate
    np.testing.assert_allclose(found.values[:6], model.values, atol=1e-6)
    np.testing.assert_allclose(found.values[6], group.outputs.mean(), atol=1e-6)


def test_duplicated_queries_are_more_evidence():
    model, asked = planted(10), queries(10, 60, 0)
    once = answered(model, asked, noise=0.1)
    twice = Group(
        sparse.csr_array(sparse.vstack([once.counts, once.counts])), np.concatenate([once.outputs] * 2)
    )
    single, double = fit([once], background=False), fit([twice], background=False)
    halves = fit([once, once], background=False)
    same(halves.surrogate, double.surrogate, 1e-9)
    np.testing.assert_allclose(double.surrogate.values, single.surrogate.values, atol=0.1)
    assert single.covariance is not None
    assert double.covariance is not None
    ratio = np.sqrt(np.diag(double.covariance)[11:21] / np.diag(single.covariance)[11:21])
    # with as many free parameters as this the noise itself is estimated anew
    assert 0.5 < np.median(ratio) < 0.85


def test_the_noisy_group_counts_less():
    wins = 0
    for seed in range(6):
        model = planted(15, seed=seed)
        clean = answered(model, queries(15, 60, seed), noise=0.03, seed=seed)
        noisy = answered(model, queries(15, 60, seed + 50), noise=0.6, seed=seed + 50)
        together = Group(
            sparse.csr_array(sparse.vstack([clean.counts, noisy.counts])),
            np.concatenate([clean.outputs, noisy.outputs]),
        )
        apart, merged = fit([clean, noisy]).surrogate, fit([together]).surrogate
        error = [np.abs(s.values - model.values).mean() for s in (apart, merged)]
        wins += error[0] < 0.7 * error[1]
    assert wins >= 5


def _z_scores(d: int, noise: float, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    model = planted(d, seed=1)
    centre = np.eye(d) - 1.0 / d
    z_s, z_v = [], []
    for seed in range(repeats):
        found = fit([answered(model, queries(d, 6 * d, seed), noise, seed)], background=False)
        assert found.covariance is not None
        spread_s = np.sqrt(np.diag(centre @ found.covariance[:d, :d] @ centre))
        spread_v = np.sqrt(np.diag(found.covariance)[d + 1 : 2 * d + 1])
        z_s.append((found.surrogate.importances - model.importances) / spread_s)
        z_v.append((found.surrogate.values - model.values)[:, 0] / spread_v)
    return np.array(z_s), np.array(z_v)


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_standard_errors_are_calibrated(noise: float):
    for z in _z_scores(12, noise, 40):
        assert 0.8 < z.std() < 1.25
        assert z.std(axis=0).min() > 0.6
        assert z.std(axis=0).max() < 1.6


def test_standard_errors_with_a_background():
    """It is well determined by queries of very different lengths."""
    d, values = 8, np.array([2.0, -2, 1, -1, 0.5, -0.5, 1.5, -1.5])
    model = Slalom(values, np.linspace(-1, 1, 8), np.array([0.5]), 1.0).normalised()
    z_v, z_0 = [], []
    for seed in range(40):
        found = fit([answered(model, queries(d, 200, seed, (2, 4, 12)), 0.05, seed)])
        assert found.covariance is not None
        spread = np.sqrt(np.diag(found.covariance))
        z_v.append((found.surrogate.values - model.values)[:, 0] / spread[d + 1 : 2 * d + 1])
        z_0.append((found.surrogate.background_value[0] - 0.5) / spread[-1])
    assert 0.7 < np.std(z_v) < 1.4
    assert 0.7 < np.std(z_0) < 1.4


def test_noise_without_signal_claims_nothing():
    rng = np.random.default_rng(0)
    asked = queries(15, 60, 0)
    found = fit([Group(asked.counts(), rng.normal(size=(75, 1)))])
    assert np.isfinite(found.surrogate.values).all()
    assert found.covariance is not None
    fresh = queries(15, 200, 1).counts()
    assert np.abs(found.surrogate.predict(fresh)).mean() < 0.6


INVERSE = np.array([0, 1, 2, 3, 1, 4, 5, 0, 6, 1, 7])


def _levels(shift: np.ndarray, gain: np.ndarray, seed: int = 0) -> tuple[Slalom, list[Group]]:
    """Types, positions that deviate from them, exact answers to short and to position queries."""
    rng = np.random.default_rng(seed)
    d, n = 8, len(INVERSE)
    s, v = rng.normal(size=d), rng.normal(size=d)
    model = Slalom(np.r_[v, v[INVERSE] + shift], np.r_[s, s[INVERSE] + gain]).normalised()
    short = queries(d, 40, seed).counts(n_units=d + n, units=np.arange(d))
    position = join([designs.spans(n, 120, 6, rng), designs.scattered(n, 120, 8, rng)])
    parts = (short, position.counts(np.arange(d, d + n), d + n))
    return model, [Group(counts, model.predict(counts)) for counts in parts]


def test_two_levels_give_deviations_back():
    rng = np.random.default_rng(3)
    n = len(INVERSE)
    model, groups = _levels(0.3 * rng.normal(size=n), 0.3 * rng.normal(size=n))
    found = fit(groups, two_levels(INVERSE), background=False)
    assert found.status == "converged"
    np.testing.assert_allclose(found.surrogate.values, model.values, atol=1e-6)
    # no query holds types and positions both, so that only differences within a level can be seen
    for level in (slice(0, 8), slice(8, None)):
        want, have = model.importances[level], found.surrogate.importances[level]
        np.testing.assert_allclose(have - have.mean(), want - want.mean(), atol=1e-6)


def test_two_levels_without_deviations_are_types():
    model, groups = _levels(np.zeros(11), np.zeros(11))
    found = fit(groups, two_levels(INVERSE)).surrogate
    same(found, model, 1e-6)


def test_positions_nobody_asked_about_are_their_types():
    _, groups = _levels(np.zeros(11), np.zeros(11))
    found = fit(groups[:1], two_levels(INVERSE), background=False).surrogate
    np.testing.assert_allclose(found.values[8:], found.values[:8][INVERSE], atol=1e-9)
    np.testing.assert_allclose(found.importances[8:], found.importances[:8][INVERSE], atol=1e-9)


def _problem(background: bool) -> tuple[Problem, Variances]:
    """Two groups, two outputs, two levels, noise: nothing is special about it."""
    rng = np.random.default_rng(5)
    _, groups = _levels(0.3 * rng.normal(size=11), 0.3 * rng.normal(size=11))
    outputs = [
        np.hstack([g.outputs, g.outputs**2]) + 0.1 * rng.normal(size=(len(g.outputs), 2)) for g in groups
    ]
    centre = np.vstack([np.full((8, 2), 0.2), np.zeros((11, 2)), np.full((1, 2), 0.2)])
    problem = Problem([layout(g.counts) for g in groups], outputs, two_levels(INVERSE), centre, background)
    return problem, Variances(np.array([0.02, 0.05]), np.array([1.0, 0.2]), np.array([0.8, 0.1]))


def test_the_gradient_is_that_of_the_objective():
    """Values are eliminated, so the profile's slope by (s, w0) is −2 times what the system holds."""
    problem, variances = _problem(background=True)
    s = 0.5 * np.random.default_rng(0).normal(size=19)

    def value(s: np.ndarray, w0: float) -> float:
        return objective(problem, variances, solve_values(problem, variances, s, w0))

    gradient = curvature(problem, variances, solve_values(problem, variances, s, 0.3)).gradient
    h = 1e-5
    for j in range(19):
        step = h * np.eye(19)[j]
        assert (value(s + step, 0.3) - value(s - step, 0.3)) / (-4 * h) == pytest.approx(
            gradient[j], abs=1e-4
        )
    assert (value(s, 0.3 + h) - value(s, 0.3 - h)) / (-4 * h) == pytest.approx(gradient[-1], abs=1e-4)


def _descend(problem: Problem, variances: Variances, steps: int) -> Point:
    point, damping = solve_values(problem, variances, np.zeros(len(problem.ties.blocks)), 0.1), 1e-2
    for _ in range(steps):
        point, damping = exact._step(problem, variances, point, curvature(problem, variances, point), damping)
    return point


def test_steps_end_where_the_gradient_is_zero():
    problem, variances = _problem(background=True)
    point = _descend(problem, variances, 60)
    gradient = curvature(problem, variances, point).gradient
    np.testing.assert_allclose(gradient[:-1], 0.0, atol=1e-5)
    assert abs(gradient[-1]) < 1e-5 or (point.w0 == 0.0 and gradient[-1] < 0)


@pytest.mark.parametrize("seed", range(3))
def test_a_background_held_at_zero_does_not_hold_up_the_rest(seed: int):
    """The best weight of the background is below zero, where it cannot go."""
    counts = queries(12, 96, seed).counts()
    rng = np.random.default_rng(seed)
    weights, v = np.exp(rng.uniform(size=12)), rng.normal(size=(12, 1))
    outputs = (counts @ (weights[:, None] * v)) / (counts @ weights - 0.4)[:, None]
    centre = np.full((13, 1), outputs.mean())
    problem = Problem([layout(counts)], [outputs], exact.untied(12), centre, True)
    variances = Variances(np.array([0.04]), np.array([1.0]), np.array([1.0]))
    point = _descend(problem, variances, 30)
    gradient = curvature(problem, variances, point).gradient
    assert point.w0 == 0.0
    assert gradient[-1] < -0.1
    np.testing.assert_allclose(gradient[:-1], 0.0, atol=1e-6)


@pytest.mark.parametrize("background", [True, False])
def test_the_posterior_is_the_inverse_of_the_whole_system(background: bool):
    """Schur complements against the Gauss–Newton matrix of all parameters at once."""
    problem, variances = _problem(background)
    point = solve_values(problem, variances, np.full(19, 0.1), 0.3 if background else 0.0)
    spread = posterior(problem, point, curvature(problem, variances, point))
    prior = np.append(1.0 / variances.s[problem.ties.blocks], 0.0)
    whole = np.diag(np.r_[prior, np.tile(normal.value_precision(problem, variances), 2)])
    matrix = problem.ties.matrix
    assert matrix is not None
    tie = np.asarray(linalg.block_diag(sparse.csr_array(matrix).toarray(), np.ones((1, 1))))
    for g, rows in enumerate(problem.rows):
        lift = tie[rows.active]
        for k in range(2):
            told = problem.outputs[g] - point.residuals[g]
            values = problem.ties.up(point.v)[rows.active, k]
            slopes = rows.slopes(point.shares[g], point.masses[g], values, told[:, k])
            jacobian = np.zeros((len(told), 60))
            jacobian[:, :20] = rows.times(slopes, lift)
            jacobian[:, 20 + 20 * k : 40 + 20 * k] = rows.times(point.shares[g], lift)
            whole += jacobian.T @ jacobian / variances.noise[g]
    free = np.arange(60) if background else np.delete(np.arange(60), 19)
    inverse = np.zeros((60, 60))
    inverse[np.ix_(free, free)] = linalg.inv(whole[np.ix_(free, free)])
    np.testing.assert_allclose(spread.ss, inverse[:20, :20], atol=1e-6)
    for k in range(2):
        own = slice(20 + 20 * k, 40 + 20 * k)
        np.testing.assert_allclose(spread.sv[k], inverse[:20, own], atol=1e-6)
        np.testing.assert_allclose(spread.vv[k], inverse[own, own], atol=1e-6)


def test_covariance_is_symmetric_and_positive():
    _, groups = _levels(np.full(11, 0.1), np.zeros(11))
    rng = np.random.default_rng(0)
    noisy = [Group(g.counts, g.outputs + 0.1 * rng.normal(size=g.outputs.shape)) for g in groups]
    covariance = fit(noisy, two_levels(INVERSE)).covariance
    assert covariance is not None
    assert covariance.shape == (40, 40)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    assert linalg.eigvalsh(covariance).min() > -1e-9 * np.abs(covariance).max()


def test_failed_algebra_is_a_fit_error(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(normal.linalg, "cho_factor", fails)
    with pytest.raises(FitError, match="cannot be fitted to these answers: the normal equations"):
        fit([answered(planted(4), queries(4, 10, 0))])


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_answers_beyond_measure(size: float):
    group = answered(planted(4), queries(4, 10, 0))
    with pytest.raises(FitError, match=r"answers go up to .*e\+"):
        fit([Group(group.counts, size * group.outputs)])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "got 0 groups"),
        ([Group(np.zeros((0, 3)), np.zeros((0, 1)))], "got 1 groups"),
        ([Group(np.array([[0.0, 0.0], [1.0, 0.0]]), np.ones((2, 1)))], "queries with tokens in them"),
        ([Group(np.eye(2), np.ones((2, 1))), Group(np.eye(3), np.ones((3, 1)))], "over the same units"),
        ([Group(np.eye(2), np.ones((3, 1)))], r"outputs of shape \(2, K\), not \(3, 1\)"),
        ([Group(np.eye(2), np.array([[1.0], [np.nan]]))], "NaN or infinite"),
    ],
)
def test_what_cannot_be_fitted(groups: Sequence[Group], message: str):
    with pytest.raises(InputError, match=message):
        fit(groups)
