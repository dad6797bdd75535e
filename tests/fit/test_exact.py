from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, sparse

from slalom import designs
from slalom.errors import FitError, InputError
from slalom.fit import Covariance, Fit, exact, linear
from slalom.fit.exact import fit
from slalom.fit.linear import Point, Problem, Rows, Variances, curvature, objective, posterior, solve_values
from slalom.perturb import Perturbations, join
from slalom.scores import output_slopes
from slalom.surrogate import Heads, Slalom


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


Answered = tuple[sparse.csr_array, np.ndarray]


def answered(model: Slalom, asked: Perturbations, noise: float = 0.0, seed: int = 0) -> Answered:
    truth = model.predict(asked.counts())
    return asked.counts(), truth + noise * np.random.default_rng(seed).normal(size=truth.shape)


def known(found: Fit[Slalom]) -> Covariance:
    assert found.covariance is not None
    return found.covariance


def whole(covariance: Covariance) -> np.ndarray:
    """Of importances and values, the background last in each."""
    return np.block([[covariance.importances, covariance.mixed], [covariance.mixed.T, covariance.values]])


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
    found = fit(*answered(model, asked), background=background)
    same(found.surrogate, model)
    assert found.surrogate.background_importance < -15
    assert found.status == "converged"
    assert found.loss < 1e-20


@pytest.mark.parametrize("seed", range(5))
def test_gives_a_background_back(seed: int):
    model = planted(30, 2, seed, background=0.5)
    found = fit(*answered(model, queries(30, 150, seed, (2, 3, 4))))
    same(found.surrogate, model)
    assert found.surrogate.background_importance == pytest.approx(model.background_importance, abs=1e-6)
    np.testing.assert_allclose(found.surrogate.background_value, model.background_value, atol=1e-6)
    assert found.status == "converged"


def test_importances_far_apart():
    model = Slalom(np.linspace(-1, 1, 12)[::-1] ** 3, np.linspace(-6, 6, 12)).normalised()
    found = fit(*answered(model, queries(12, 120, 0)))
    np.testing.assert_allclose(found.surrogate.importances, model.importances, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_additive_answers(seed: int):
    """The limit of a background that outweighs all tokens: it is stopped before the numbers give way."""
    weights = np.random.default_rng(seed).normal(size=(8, 1))
    counts = queries(8, 80, seed).counts()
    found = fit(counts, counts @ weights)
    fresh = queries(8, 80, seed + 10, (2, 5)).counts()
    error = found.surrogate.predict(fresh) - fresh @ weights
    assert error.var() < 1e-3 * (fresh @ weights).var()
    assert np.isfinite(whole(known(found))).all()


def test_gamma_is_the_sum_of_the_importances():
    model = planted(8)
    answers = answered(model, queries(8, 40, 0))
    plain, shifted = fit(*answers), fit(*answers, gamma=4.0)
    assert shifted.surrogate.importances.sum() == pytest.approx(4.0)
    np.testing.assert_allclose(shifted.surrogate.importances - 0.5, plain.surrogate.importances, atol=1e-12)
    np.testing.assert_array_equal(shifted.surrogate.values, plain.surrogate.values)


def test_many_classes():
    model = planted(60, 20)
    counts, outputs = answered(model, queries(60, 300, 0), noise=0.05)
    found = fit(counts, outputs - outputs.mean(axis=1, keepdims=True), column=7)
    assert found.status == "converged"
    assert np.abs(found.surrogate.values - model.values).max() < 0.3
    assert np.corrcoef(found.surrogate.importances, model.importances)[0, 1] > 0.98
    np.testing.assert_allclose(found.surrogate.values.sum(axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 50.0), (-1.0, -3.0)])
def test_outputs_in_other_units(noise: float, scale: float, shift: float):
    """Values follow the outputs, importances do not care; nor do standard errors."""
    d = 20
    counts, outputs = answered(planted(d, 2, background=0.0), queries(d, 100, 0), noise)
    plain = fit(counts, outputs, column=1)
    found = fit(counts, scale * outputs + shift, column=1)
    back = (found.surrogate.values - shift) / scale
    np.testing.assert_allclose(back, plain.surrogate.values, atol=1e-8)
    np.testing.assert_allclose(found.surrogate.importances, plain.surrogate.importances, atol=1e-8)
    if noise:
        unit = np.r_[np.ones(d + 1), np.full(d + 1, scale)]
        have, want = whole(known(found)) / np.outer(unit, unit), whole(known(plain))
        np.testing.assert_allclose(have, want, atol=1e-8)
        assert known(found).noise == pytest.approx(scale**2 * known(plain).noise, rel=1e-6)


@pytest.mark.parametrize("rounding", [0.0, 1e-17, 1e-15])
def test_constant_outputs(rounding: float):
    asked = queries(5, 20, 0)
    outputs = np.tile([0.3, -0.3], (25, 1)) + rounding * np.arange(25.0)[:, None]
    found = fit(asked.counts(), outputs)
    assert (found.status, found.iterations) == ("constant", 0)
    np.testing.assert_allclose(found.surrogate.values, np.tile([0.3, -0.3], (5, 1)), atol=1e-12)
    np.testing.assert_array_equal(found.surrogate.importances, np.zeros(5))
    np.testing.assert_array_equal(whole(known(found)), np.zeros((12, 12)))
    assert known(found).noise == 0.0


def test_one_unit():
    """Nothing to weigh it against: its value is what it says, its importance the normalisation."""
    counts = np.array([[1.0], [1.0], [2.0], [3.0]])
    found = fit(counts, np.array([[1.0], [1.2], [0.9], [1.1]]), background=False, gamma=2.0)
    np.testing.assert_allclose(found.surrogate.values, [[1.05]], atol=1e-3)
    np.testing.assert_allclose(found.surrogate.importances, [2.0])
    assert np.isfinite(whole(known(found))).all()


def test_a_unit_that_never_occurs_stays_at_the_prior():
    model = planted(6)
    asked = queries(6, 60, 0)
    wide = sparse.csr_array(sparse.hstack([asked.counts(), sparse.csr_array((66, 1))]))
    outputs = model.predict(asked.counts())
    found = fit(wide, outputs).surrogate
    np.testing.assert_allclose(found.values[:6], model.values, atol=1e-6)
    np.testing.assert_allclose(found.values[6], outputs.mean(), atol=1e-6)


def test_duplicated_queries_are_more_evidence():
    model, asked = planted(10), queries(10, 60, 0)
    counts, outputs = answered(model, asked, noise=0.1)
    twice = sparse.csr_array(sparse.vstack([counts, counts]))
    single = fit(counts, outputs, background=False)
    double = fit(twice, np.concatenate([outputs] * 2), background=False)
    np.testing.assert_allclose(double.surrogate.values, single.surrogate.values, atol=0.1)
    ratio = np.sqrt(np.diag(known(double).values)[:10] / np.diag(known(single).values)[:10])
    # with as many free parameters as this the noise itself is estimated anew
    assert 0.5 < np.median(ratio) < 0.85


def test_the_noise_is_corrected_for_the_parameters():
    """40 of 70 answers are used up by values and importances; what is left says more than it seems to."""
    model, noises, residuals = planted(20, seed=2), [], []
    for seed in range(30):
        found = fit(*answered(model, queries(20, 50, seed), 0.1, seed), background=False)
        noises.append(known(found).noise)
        residuals.append(found.loss)
    assert np.mean(residuals) < 0.6 * 0.1**2
    assert np.mean(noises) == pytest.approx(0.1**2, rel=0.2)


def _z_scores(d: int, noise: float, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    model = planted(d, seed=1)
    centre = np.eye(d) - 1.0 / d
    z_s, z_v = [], []
    for seed in range(repeats):
        found = fit(*answered(model, queries(d, 6 * d, seed), noise, seed), background=False)
        spread_s = np.sqrt(np.diag(centre @ known(found).importances[:d, :d] @ centre))
        spread_v = np.sqrt(np.diag(known(found).values)[:d])
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
    z_v, z_0, z_s = [], [], []
    above = np.append(np.full(d, -1.0 / d), 1.0)
    for seed in range(40):
        found = fit(*answered(model, queries(d, 200, seed, (2, 4, 12)), 0.05, seed))
        spread = np.sqrt(np.diag(known(found).values))
        z_v.append((found.surrogate.values - model.values)[:, 0] / spread[:d])
        z_0.append((found.surrogate.background_value[0] - 0.5) / spread[-1])
        spread_s = np.sqrt(above @ known(found).importances @ above)
        z_s.append((found.surrogate.background_importance - 1.0) / spread_s)
    assert 0.7 < np.std(z_v) < 1.4
    assert 0.7 < np.std(z_0) < 1.4
    assert 0.7 < np.std(z_s) < 1.4


def test_with_many_answers_the_covariance_is_that_of_least_squares():
    """By importances, the background's among them, and values; slopes come from the readings."""
    d = 6
    model = Slalom(np.linspace(-2, 2, d), np.linspace(1, -1, d), np.array([0.5]), 1.5)
    counts, outputs = answered(model, queries(d, 3000, 0, (2, 4, 12)), 0.02)
    found = fit(counts, outputs)
    slopes = output_slopes(Heads((found.surrogate,), np.zeros(1)), counts.toarray())
    plain = known(found).noise * np.linalg.pinv(slopes.T @ slopes, rcond=1e-9)
    free = np.eye(2 * d + 2)
    free[: d + 1, : d + 1] -= 1.0 / (d + 1)  # a shift of all importances changes nothing
    have = free @ whole(known(found)) @ free.T
    np.testing.assert_allclose(have, free @ plain @ free.T, atol=0.02 * np.abs(plain).max())
    np.testing.assert_allclose(np.diag(have), np.diag(free @ plain @ free.T), rtol=0.1)
    assert known(found).noise == pytest.approx(0.02**2, rel=0.1)


def test_noise_without_signal_claims_nothing():
    rng = np.random.default_rng(0)
    asked = queries(15, 60, 0)
    found = fit(asked.counts(), rng.normal(size=(75, 1)))
    assert np.isfinite(found.surrogate.values).all()
    fresh = queries(15, 200, 1).counts()
    assert np.abs(found.surrogate.predict(fresh)).mean() < 0.6


def _problem(background: bool) -> tuple[Problem, Variances]:
    """Two outputs, noise: nothing is special about it."""
    rng = np.random.default_rng(5)
    counts = designs.all_scales(11, 240, 1, 10, rng).counts()
    told = Slalom(rng.normal(size=11), rng.normal(size=11)).predict(counts)
    outputs = np.hstack([told, 0.2 * told**2]) + 0.1 * rng.normal(size=(len(told), 2))
    return Problem(Rows.of(counts), outputs, background), Variances(0.03, 1.0, 0.8)


def test_the_gradient_is_that_of_the_objective():
    """Values are eliminated, so the profile's slope by (s, w0) is −2 times what the system holds."""
    problem, variances = _problem(background=True)
    s = 0.5 * np.random.default_rng(0).normal(size=11)

    def value(s: np.ndarray, w0: float) -> float:
        return objective(problem, variances, solve_values(problem, variances, s, w0))

    gradient = curvature(problem, variances, solve_values(problem, variances, s, 0.3)).gradient
    h = 1e-5
    for j in range(11):
        step = h * np.eye(11)[j]
        assert (value(s + step, 0.3) - value(s - step, 0.3)) / (-4 * h) == pytest.approx(
            gradient[j], abs=1e-4
        )
    assert (value(s, 0.3 + h) - value(s, 0.3 - h)) / (-4 * h) == pytest.approx(gradient[-1], abs=1e-4)


def _descend(problem: Problem, variances: Variances, steps: int) -> Point:
    point, damping = solve_values(problem, variances, np.zeros(problem.n_units), 0.1), 1e-2
    for _ in range(steps):
        point, damping = exact._step(problem, variances, point, curvature(problem, variances, point), damping)
    return point


def test_steps_end_where_the_gradient_is_zero():
    problem, variances = _problem(background=True)
    first = curvature(problem, variances, _descend(problem, variances, 0)).gradient
    point = _descend(problem, variances, 60)
    gradient = curvature(problem, variances, point).gradient
    least = 1e-4 * np.abs(first).max()
    np.testing.assert_allclose(gradient[:-1], 0.0, atol=least)
    assert abs(gradient[-1]) < least or (point.w0 == 0.0 and gradient[-1] < 0)


@pytest.mark.parametrize("seed", range(3))
def test_a_background_held_at_zero_does_not_hold_up_the_rest(seed: int):
    """The best weight of the background is below zero, where it cannot go."""
    counts = queries(12, 96, seed).counts()
    rng = np.random.default_rng(seed)
    weights, v = np.exp(rng.uniform(size=12)), rng.normal(size=(12, 1))
    outputs = (counts @ (weights[:, None] * v)) / (counts @ weights - 0.4)[:, None]
    problem, variances = Problem(Rows.of(counts), outputs, True), Variances(0.04, 1.0, 1.0)
    point = _descend(problem, variances, 30)
    gradient = curvature(problem, variances, point).gradient
    assert point.w0 == 0.0
    assert gradient[-1] < -0.1
    np.testing.assert_allclose(gradient[:-1], 0.0, atol=1e-6)


@pytest.mark.parametrize("background", [True, False])
def test_the_posterior_is_the_inverse_of_the_whole_system(background: bool):
    """Schur complements against the Gauss–Newton matrix of all parameters at once."""
    problem, variances = _problem(background)
    point = solve_values(problem, variances, np.full(11, 0.1), 0.3 if background else 0.0)
    spread = posterior(point, curvature(problem, variances, point))
    whole = np.diag(np.r_[np.full(11, 1.0 / variances.s), 0.0, np.full(24, 1.0 / variances.v)])
    rows, told = problem.rows, problem.outputs - point.residuals
    for k in range(2):
        slopes = rows.slopes(point.shares, point.mass, point.v[:, k], told[:, k])
        jacobian = np.zeros((len(told), 36))
        jacobian[:, :12] = rows.matrix(slopes) @ np.eye(12)
        jacobian[:, 12 + 12 * k : 24 + 12 * k] = rows.matrix(point.shares) @ np.eye(12)
        whole += jacobian.T @ jacobian / variances.noise
    free = np.arange(36) if background else np.delete(np.arange(36), 11)
    inverse = np.zeros((36, 36))
    inverse[np.ix_(free, free)] = linalg.inv(whole[np.ix_(free, free)])
    np.testing.assert_allclose(spread.ss, inverse[:12, :12], atol=1e-6)
    for k in range(2):
        own = slice(12 + 12 * k, 24 + 12 * k)
        np.testing.assert_allclose(spread.sv[k], inverse[:12, own], atol=1e-6)
        np.testing.assert_allclose(spread.vv[k], inverse[own, own], atol=1e-6)


def test_covariance_is_symmetric_and_positive():
    counts, outputs = answered(planted(11), queries(11, 240, 0))
    noisy = outputs + 0.1 * np.random.default_rng(0).normal(size=outputs.shape)
    covariance = whole(known(fit(counts, noisy)))
    assert covariance.shape == (24, 24)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    assert linalg.eigvalsh(covariance).min() > -1e-9 * np.abs(covariance).max()


def test_the_work_can_be_ended():
    class StopError(Exception):
        pass

    def check() -> None:
        raise StopError

    with pytest.raises(StopError):
        fit(*answered(planted(4), queries(4, 10, 0)), check=check)


def test_failed_algebra_is_a_fit_error(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(linear.linalg, "cho_factor", fails)
    with pytest.raises(FitError, match="cannot be fitted to these answers: the normal equations"):
        fit(*answered(planted(4), queries(4, 10, 0)))


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_answers_beyond_measure(size: float):
    counts, outputs = answered(planted(4), queries(4, 10, 0))
    with pytest.raises(FitError, match=r"answers go up to .*e\+"):
        fit(counts, size * outputs)


@pytest.mark.parametrize(
    ("counts", "outputs", "message"),
    [
        (np.zeros((0, 3)), np.zeros((0, 1)), "got 0 queries over 3 units"),
        (np.array([[0.0, 0.0], [1.0, 0.0]]), np.ones((2, 1)), "queries with tokens in them"),
        (np.eye(2), np.ones((3, 1)), r"outputs of shape \(2, K\), not \(3, 1\)"),
        (np.eye(2), np.array([[1.0], [np.nan]]), "NaN or infinite"),
    ],
)
def test_what_cannot_be_fitted(counts: np.ndarray, outputs: np.ndarray, message: str):
    with pytest.raises(InputError, match=message):
        fit(counts, outputs)
