from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from slalom import designs
from slalom.fit import context
from slalom.surrogate import Slalom

N = 24


def excerpt(classes: int = 1, seed: int = 0, background: float = 0.3) -> Slalom:
    rng = np.random.default_rng(seed)
    return Slalom(
        rng.normal(size=(N, classes)), rng.normal(size=N), rng.normal(size=classes), background
    ).normalised()


def deletions(seed: int = 0, covers: int = 6) -> np.ndarray:
    left_out = designs.blocks(N, 4, covers, np.random.default_rng(seed)).counts().toarray()
    return np.vstack([left_out, designs.leave_one_out(N).counts().toarray()])


def test_a_shift_and_a_gain_are_read_exactly():
    seen, counts = excerpt(3), deletions()
    kappa, rho = np.array([0.5, -1.0, 2.0]), np.array([0.4, 1.0, -0.2])
    looked = context.fit(seen, counts, kappa + rho * seen.predict(counts))
    np.testing.assert_allclose(looked.surrogate.values, kappa + rho * seen.values, atol=1e-9)
    np.testing.assert_allclose(
        looked.surrogate.background_value, kappa + rho * seen.background_value, atol=1e-9
    )
    np.testing.assert_array_equal(looked.surrogate.importances, seen.importances)
    assert looked.surrogate.background_importance == seen.background_importance
    np.testing.assert_allclose(looked.left_out, 0.0, atol=1e-9)


def test_exclusive_classes_sum_to_zero():
    """What is fitted to each class alone would not; projecting never makes the errors larger."""
    rng = np.random.default_rng(6)
    seen, counts = excerpt(3), deletions()
    centred = Slalom(
        seen.values - seen.values.mean(axis=1, keepdims=True),
        seen.importances,
        seen.background_value - seen.background_value.mean(),
        seen.background_importance,
    )
    noise = rng.normal(size=(len(counts), 3)) * [0.01, 0.3, 0.1]
    outputs = centred.predict(counts) * [0.2, 1.0, 0.7] + noise
    outputs -= outputs.mean(axis=1, keepdims=True)
    looked = context.fit(centred, counts, outputs)
    np.testing.assert_allclose(looked.surrogate.values.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(looked.surrogate.background_value.sum(), 0.0, atol=1e-12)
    np.testing.assert_allclose(looked.left_out.sum(axis=1), 0.0, atol=1e-12)
    apart = np.hstack([context.fit(_one(centred, k), counts, outputs[:, [k]]).left_out for k in range(3)])
    assert (looked.left_out**2).sum() < (apart**2).sum()


def _one(seen: Slalom, k: int) -> Slalom:
    return Slalom(seen.values[:, k], seen.importances, seen.background_value[[k]], seen.background_importance)


def test_a_slalom_stays_what_it_is():
    for background in (0.3, -np.inf):
        seen, counts = excerpt(2, background=background), deletions()
        looked = context.fit(seen, counts, seen.predict(counts))
        np.testing.assert_allclose(looked.surrogate.values, seen.values, atol=1e-9)


def test_deviations_are_found_where_they_are():
    seen, counts = excerpt(), deletions(covers=30)
    deviation = np.zeros((N, 1))
    deviation[[3, 11, 17]] = [[1.5], [-2.0], [1.0]]
    true = Slalom(
        seen.values + deviation, seen.importances, seen.background_value, seen.background_importance
    )
    rng = np.random.default_rng(0)
    outputs = true.predict(counts)
    exact = context.fit(seen, counts, outputs).surrogate
    whole = np.arange(N)
    np.testing.assert_allclose(exact.removal(whole), true.removal(whole), atol=1e-4)
    noisy = context.fit(seen, counts, outputs + 0.01 * rng.normal(size=outputs.shape)).surrogate
    before = np.abs(seen.removal(whole) - true.removal(whole)).mean()
    assert np.abs(noisy.removal(whole) - true.removal(whole)).mean() < 0.3 * before


def test_noise_alone_makes_no_deviations():
    """Fixed shift and gain take part of the noise; the rest must not become token scores."""
    seen, counts = excerpt(), deletions()
    rng = np.random.default_rng(1)
    looked = context.fit(seen, counts, seen.predict(counts) + 0.05 * rng.normal(size=(len(counts), 1)))
    whole = np.arange(N)
    wrong = np.abs(looked.surrogate.removal(whole) - seen.removal(whole)).mean()
    assert wrong < 0.3 * np.abs(seen.removal(whole)).mean()


def _design(seen: Slalom, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of (κ, ρ) and of the scaled deviations, written down again from maths 3e."""
    weights = np.exp(np.append(seen.importances, seen.background_importance))
    mass = np.column_stack([counts, np.ones(len(counts))]) * weights
    shares = mass / mass.sum(axis=1, keepdims=True)
    scale = np.exp(-0.5 * (seen.importances - seen.importances.mean()))
    return np.column_stack([np.ones(len(counts)), seen.predict(counts)[:, 0]]), shares[:, :-1] * scale


def _refit(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    penalty = np.diag(np.r_[0.0, 0.0, np.full(x.shape[1] - 2, ridge)])
    return linalg.solve(x.T @ x + penalty, x.T @ y)


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_left_out_errors_are_those_of_fits_without_the_query(noise: float, monkeypatch: pytest.MonkeyPatch):
    chosen: list[float] = []
    likelihood = context._restricted_likelihood

    def spy(*args: np.ndarray) -> tuple[float, float]:
        result = likelihood(*args)  # pyright: ignore[reportArgumentType]
        chosen.append(result[0])
        return result

    monkeypatch.setattr(context, "_restricted_likelihood", spy)
    seen, counts = excerpt(), deletions()
    rng = np.random.default_rng(2)
    y = 0.3 + 0.6 * seen.predict(counts) + noise * rng.normal(size=(len(counts), 1))
    looked = context.fit(seen, counts, y)
    x = np.hstack(_design(seen, counts))
    (ridge,) = chosen
    for i in range(0, len(counts), 5):
        rest = np.arange(len(counts)) != i
        coefficients = _refit(x[rest], y[rest, 0], ridge)
        assert looked.left_out[i, 0] == pytest.approx(y[i, 0] - x[i] @ coefficients, abs=1e-8)
    told = looked.surrogate.predict(counts)[:, 0]
    np.testing.assert_allclose(told, x @ _refit(x, y[:, 0], ridge), atol=1e-8)


def test_the_ridge_has_the_best_restricted_likelihood(monkeypatch: pytest.MonkeyPatch):
    """Against the density of the contrasts of y, computed with explicit matrices."""
    seen, counts = excerpt(), deletions()
    rng = np.random.default_rng(4)
    fixed, penalised = _design(seen, counts)
    y = fixed @ [0.2, 0.7] + penalised @ (0.5 * rng.normal(size=N)) + 0.02 * rng.normal(size=len(counts))
    contrasts = linalg.null_space(fixed.T).T
    z = contrasts @ y

    def deviance(ridge: float) -> float:
        shape = contrasts @ (np.eye(len(y)) + penalised @ penalised.T / ridge) @ contrasts.T
        noise = z @ linalg.solve(shape, z) / len(z)
        return len(z) * np.log(noise) + np.linalg.slogdet(shape)[1]

    chosen: list[tuple[float, float]] = []
    likelihood = context._restricted_likelihood
    monkeypatch.setattr(
        context,
        "_restricted_likelihood",
        lambda *args: chosen.append(likelihood(*args)) or chosen[-1],  # pyright: ignore
    )
    context.fit(seen, counts, y[:, None])
    ((ridge, noise),) = chosen
    assert deviance(ridge) <= min(deviance(0.7 * ridge), deviance(1.4 * ridge))
    shape = contrasts @ (np.eye(len(y)) + penalised @ penalised.T / ridge) @ contrasts.T
    assert noise == pytest.approx(z @ linalg.solve(shape, z) / len(z))
    assert noise**0.5 == pytest.approx(0.02, rel=0.35)


@pytest.mark.parametrize("background", [0.3, -np.inf])
def test_covariance_is_symmetric_and_positive_near_the_text(background: float):
    seen, counts = excerpt(2, background=background), deletions()
    rng = np.random.default_rng(3)
    outputs = seen.predict(counts) + 0.1 * rng.normal(size=(len(counts), 2))
    covariance = context.fit(seen, counts, outputs).covariance
    assert covariance.shape == (2, N + 1, N + 1)
    for one in covariance:
        np.testing.assert_allclose(one, one.T, atol=1e-12)
        assert linalg.eigvalsh(one).min() > -1e-9 * np.abs(one).max()
        assert np.diag(one).min() > 0


def test_standard_errors_are_calibrated():
    """Deviations drawn from the prior: the truth lies within the errors as often as it should."""
    seen, counts = excerpt(), deletions()
    scale = np.exp(-0.5 * (seen.importances - seen.importances.mean()))
    z = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = 0.2 + 0.6 * seen.values + 0.5 * (scale * rng.normal(size=N))[:, None]
        background = 0.2 + 0.6 * seen.background_value
        true = Slalom(values, seen.importances, background, seen.background_importance)
        outputs = true.predict(counts) + 0.02 * rng.normal(size=(len(counts), 1))
        looked = context.fit(seen, counts, outputs)
        spread = np.sqrt(np.diag(looked.covariance[0])[:-1])
        z.append((looked.surrogate.values - values)[:, 0] / spread)
    assert 0.8 < np.std(z) < 1.25


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_too_few_queries_give_finite_numbers(rows: int):
    seen, counts = excerpt(), deletions()[:rows]
    looked = context.fit(seen, counts, seen.predict(counts) + 0.1 * np.arange(rows)[:, None])
    assert np.isfinite(looked.surrogate.values).all()
    assert np.isfinite(looked.covariance).all()


def test_flat_excerpts_have_no_gain():
    """All values alike: the gain cannot be seen, the shift and the deviations can."""
    seen, counts = Slalom(np.full(N, 0.7), np.zeros(N)), deletions()
    looked = context.fit(seen, counts, np.full((len(counts), 1), -1.0))
    np.testing.assert_allclose(looked.surrogate.values, -1.0, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_outputs_in_other_units(scale: float):
    seen, counts = excerpt(), deletions()
    rng = np.random.default_rng(5)
    outputs = seen.predict(counts) + 0.1 * rng.normal(size=(len(counts), 1))
    plain = context.fit(seen, counts, outputs)
    larger = Slalom(
        scale * seen.values, seen.importances, scale * seen.background_value, seen.background_importance
    )
    found = context.fit(larger, counts, scale * outputs)
    np.testing.assert_allclose(found.surrogate.values / scale, plain.surrogate.values, atol=1e-7)
    np.testing.assert_allclose(found.covariance / scale**2, plain.covariance, atol=1e-7)


def test_importances_are_drawn_together_unless_the_copies_speak_for_them():
    """Answers of a SLALOM keep its importances; answers that weigh all tokens alike do not."""
    rng = np.random.default_rng(4)
    n = 20
    sharp = Slalom(rng.normal(size=n), rng.normal(size=n) * 3, np.array([0.5]), 0.0)
    flat = Slalom(sharp.values, np.zeros(n), np.array([0.5]), 0.0)
    counts = np.vstack([rng.random((60, n)) > 0.25, np.ones((1, n))]).astype(float)
    kept = context.look(sharp, counts, sharp.predict(counts))
    np.testing.assert_array_equal(kept.surrogate.importances, sharp.importances)
    drawn = context.look(sharp, counts, flat.predict(counts) + 0.01 * rng.normal(size=(61, 1)))
    np.testing.assert_allclose(
        drawn.surrogate.importances - drawn.surrogate.importances.mean(),
        0.6 * (sharp.importances - sharp.importances.mean()),
    )


def test_no_background_stays_none_when_importances_are_drawn_together():
    alone = Slalom(np.array([1.0, -1.0, 0.0]), np.array([5.0, 0.0, -5.0]), np.zeros(1), -np.inf)
    nearer = context._drawn_together(alone)
    assert nearer.background_importance < -25
    np.testing.assert_allclose(nearer.importances, [3.0, 0.0, -3.0])
