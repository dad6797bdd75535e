from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from slalom.audit import wide
from slalom.audit.wide_system import (
    Data,
    Prior,
    WidePoint,
    backward,
    blocks,
    forward,
    point,
    solve,
    spread,
    system,
)
from slalom.errors import InputError
from slalom.fit import exact
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray


def sequences(d: int, n: int, seed: int, longest: int = 5) -> sparse.csr_array:
    """Counts of random sequences; frequencies fall off as those of words do."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(1, d + 1) ** 0.8
    lengths = rng.integers(1, longest + 1, n)
    size = int(lengths.sum())
    columns = np.where(
        rng.random(size) < 0.5, rng.integers(0, d, size), rng.choice(d, size, p=often / often.sum())
    )
    counts = sparse.csr_array((np.ones(size), (np.repeat(np.arange(n), lengths), columns)), shape=(n, d))
    counts.sum_duplicates()
    return counts


def planted(d: int, k: int, background: bool, seed: int = 1) -> Slalom:
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 2, (d, k))
    values -= values.mean(axis=1, keepdims=True) if k > 1 else 0.0
    value = np.linspace(-0.5, 0.5, k) if k > 1 else np.array([0.5])
    return Slalom(values, rng.normal(0, 1, d), value, 0.3 if background else -np.inf).normalised()


def somewhere(k: int = 2) -> tuple[Data, WidePoint, Prior]:
    """A small problem at a random point."""
    rng = np.random.default_rng(5)
    counts = sequences(7, 40, 0)
    outputs = rng.normal(size=(40, k))
    data = Data(counts, outputs, np.repeat(np.arange(40), np.diff(counts.indptr)))
    parameters = rng.normal(0, 0.7, (8, 1 + k))
    parameters[-1, 0] = 0.6
    return data, point(data, parameters), Prior(0.3, 0.8, 2.0, outputs.mean(axis=0))


def dense(at: WidePoint) -> FloatArray:
    """The Jacobian column by column: (N K, parameters)."""
    n, k = at.told.shape
    unit = np.eye(at.parameters.size).reshape(*at.parameters.shape, -1)
    return forward(at, unit).reshape(n * k, -1)


def test_the_jacobian_is_that_of_finite_differences():
    data, at, _ = somewhere()
    step = 1e-6
    expected = np.empty((at.told.size, at.parameters.size))
    for i in range(at.parameters.size):
        up, down = at.parameters.copy(), at.parameters.copy()
        up.flat[i] += step
        down.flat[i] -= step
        expected[:, i] = ((point(data, up).told - point(data, down).told) / (2 * step)).ravel()
    np.testing.assert_allclose(dense(at), expected, atol=1e-8)
    residual = np.random.default_rng(0).normal(size=(*at.told.shape, 3))
    back = backward(at, residual).reshape(-1, 3)
    np.testing.assert_allclose(back, expected.T @ residual.reshape(-1, 3), atol=1e-7)


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_blocks_and_conjugate_gradients_are_those_of_the_dense_system(damping: float):
    _, at, prior = somewhere()
    shape = at.parameters.shape
    jacobian = dense(at)
    full = jacobian.T @ jacobian / prior.noise + np.diag(prior.precision(7).ravel())
    damped = full + damping * np.diag(np.diag(full))
    own = blocks(at, prior, damping)
    width = shape[1]
    for i in range(len(at.parameters)):
        block = damped[i * width : (i + 1) * width, i * width : (i + 1) * width]
        np.testing.assert_allclose(block[0, 0], own.a[i], rtol=1e-9)
        np.testing.assert_allclose(block[1:, 0], own.b[i], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(block[1:, 1:], own.c[i] * np.eye(width - 1), rtol=1e-9, atol=1e-10)
    right = np.random.default_rng(1).normal(size=(*shape, 2))
    found = solve(system(at, prior, damping, own), right, own, np.ones((*shape, 1)), 1e-12, 500)
    np.testing.assert_allclose(found.reshape(-1, 2), np.linalg.solve(damped, right.reshape(-1, 2)), atol=1e-9)


def test_sampled_variances_approach_those_of_the_dense_inverse():
    data, at, prior = somewhere()
    jacobian = dense(at)
    full = jacobian.T @ jacobian / prior.noise + np.diag(prior.precision(7).ravel())
    inverse = np.linalg.inv(full).reshape(*at.parameters.shape, *at.parameters.shape)
    rng = np.random.default_rng(0)
    found = spread(data, at, prior, np.ones((*at.parameters.shape, 1)), 4000, rng, tolerance=1e-8)
    centre = np.zeros(at.parameters.shape)
    centre[:-1, 0] = 1.0 / 7.0
    for i in range(7):
        for k in (1, 2):
            assert found.variance[i, k] == pytest.approx(inverse[i, k, i, k], rel=0.1)
        # An importance is measured from the mean of all; the samples know that, the blocks only nearly.
        unit = -centre
        unit[i, 0] += 1.0
        expected = np.einsum("ab,abcd,cd", unit, inverse, unit)
        assert found.variance[i, 0] == pytest.approx(expected, rel=0.35)


@pytest.mark.parametrize(
    ("d", "n", "k", "background"), [(3000, 30_000, 1, True), (400, 4000, 3, True), (400, 4000, 2, False)]
)
def test_a_planted_slalom_is_recovered(d: int, n: int, k: int, background: bool):
    truth, counts = planted(d, k, background), sequences(d, n, 0)
    found = wide.fit(counts, truth.predict(counts))
    assert found.status == "converged"
    np.testing.assert_allclose(found.surrogate.importances, truth.importances, atol=1e-6)
    np.testing.assert_allclose(found.surrogate.values, truth.values, atol=1e-6)
    if background:
        assert found.surrogate.background_importance == pytest.approx(truth.background_importance, abs=1e-6)
        np.testing.assert_allclose(found.surrogate.background_value, truth.background_value, atol=1e-6)
    else:
        assert found.surrogate.background_importance < np.log(1e-6)


def test_a_noisy_fit_agrees_with_the_exact_solver():
    d, counts = 80, sequences(80, 1500, 0)
    truth, rng = planted(d, 1, True), np.random.default_rng(2)
    outputs = truth.predict(counts) + 0.1 * rng.normal(size=(1500, 1))
    found, other = wide.fit(counts, outputs), exact.fit(counts, outputs)
    assert found.noise == pytest.approx(0.1, rel=0.05)
    gap = found.surrogate.predict(counts) - other.surrogate.predict(counts)
    assert np.sqrt((gap**2).mean()) < 0.01
    assert other.covariance is not None
    covariance = other.covariance
    errors = np.sqrt(np.diag(covariance.values))[:d]
    np.testing.assert_allclose(found.value_stderr[:, 0], errors, rtol=0.2)
    centred = np.eye(d) - 1.0 / d
    errors = np.sqrt(np.diag(centred @ covariance.importances[:d, :d] @ centred))
    assert np.median(found.importance_stderr / errors) == pytest.approx(1.0, abs=0.15)
    mixed = np.diag(covariance.mixed)[:d]
    assert np.corrcoef(mixed, found.covariance[:, 0])[0, 1] > 0.9


def test_standard_errors_cover_the_truth():
    counts, truth = sequences(600, 9000, 0), planted(600, 1, True)
    outputs = truth.predict(counts) + 0.1 * np.random.default_rng(2).normal(size=(9000, 1))
    found = wide.fit(counts, outputs)
    s = (found.surrogate.importances - truth.importances) / found.importance_stderr
    v = (found.surrogate.values - truth.values)[:, 0] / found.value_stderr[:, 0]
    for z in (s, v):
        assert 0.9 < (np.abs(z) < 2).mean() < 0.99


def test_the_same_seed_gives_the_same_fit():
    counts, truth = sequences(50, 500, 0), planted(50, 1, True)
    outputs = truth.predict(counts) + 0.1 * np.random.default_rng(2).normal(size=(500, 1))
    first, again = wide.fit(counts, outputs, seed=3), wide.fit(counts, outputs, seed=3)
    np.testing.assert_array_equal(first.surrogate.values, again.surrogate.values)
    np.testing.assert_array_equal(first.value_stderr, again.value_stderr)


def test_types_that_no_query_tells_about_stay_at_the_prior():
    counts, truth = sequences(50, 800, 0), planted(50, 1, False)
    outputs = truth.predict(counts)
    padded = sparse.csr_array(sparse.hstack([counts, sparse.csr_array((800, 1))]))
    found = wide.fit(padded, outputs + 0.01 * np.random.default_rng(0).normal(size=outputs.shape))
    assert found.surrogate.values[-1, 0] == pytest.approx(outputs.mean(), abs=1e-3)
    assert found.value_stderr[-1, 0] > 5 * np.median(found.value_stderr)


def test_answers_that_are_all_the_same_make_a_constant():
    found = wide.fit(sequences(5, 20, 0), np.full(20, 3.0))
    assert found.status == "constant"
    np.testing.assert_array_equal(found.surrogate.values, 3.0)


def test_an_empty_query_is_refused():
    counts = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(InputError, match="every query needs tokens"):
        wide.fit(counts, np.array([1.0, 2.0]))
