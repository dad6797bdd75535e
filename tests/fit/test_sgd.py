from __future__ import annotations

from itertools import count

import numpy as np
import pytest
import torch
from scipy import sparse

from slalom.errors import FitError, InputError
from slalom.fit import sgd
from slalom.perturb import from_rows
from slalom.surrogate import Slalom


def planted(d: int, k: int, n: int, length: int = 3, seed: int = 0) -> tuple[Slalom, sparse.csr_array]:
    rng = np.random.default_rng(seed)
    model = Slalom(rng.normal(size=(d, k)), rng.normal(size=d)).normalised()
    rows = [rng.integers(0, d, rng.integers(1, length + 1)) for _ in range(n)]
    return model, from_rows(rows, d).counts()


@pytest.mark.parametrize("k", [1, 3])
def test_recovers_a_planted_slalom_with_the_papers_settings(k: int):
    model, counts = planted(20, k, 5000)
    fit = sgd.fit(counts, model.predict(counts))
    assert np.mean((fit.surrogate.importances - model.importances) ** 2) < 1e-3
    assert np.mean((fit.surrogate.values - model.values) ** 2) < 1e-3
    assert fit.loss < 1e-4
    assert (fit.iterations, fit.status, fit.covariance) == (20 * 40, "max_iterations", None)
    held_out = planted(20, k, 200, length=15, seed=1)[1]
    error = fit.surrogate.predict(held_out) - model.predict(held_out)
    assert np.mean(error**2) < 1e-3 * model.predict(held_out).var()


def test_is_adam_as_torch_runs_it():
    model, counts = planted(7, 2, 50, length=5)
    outputs = model.predict(counts)
    fit = sgd.fit(counts, outputs, epochs=3, batch_size=16, learning_rate=0.05, seed=4)

    dense, y = torch.from_numpy(counts.toarray()), torch.from_numpy(outputs.copy())
    s = torch.zeros(7, dtype=torch.float64, requires_grad=True)
    v = torch.zeros(7, 2, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([s, v], lr=0.05)
    rng = np.random.default_rng(4)
    for _ in range(3):
        for batch in torch.from_numpy(rng.permutation(50)).split(16):
            adam.zero_grad()
            weights = dense[batch] * s.exp()
            loss = torch.nn.functional.mse_loss(weights @ v / weights.sum(1, keepdim=True), y[batch])
            loss.backward()
            adam.step()
    np.testing.assert_allclose(fit.surrogate.values, v.detach().numpy(), atol=1e-10)
    expected = s.detach().numpy() - s.detach().numpy().mean()
    np.testing.assert_allclose(fit.surrogate.importances, expected, atol=1e-10)


def test_the_seed_decides():
    model, counts = planted(6, 1, 300)
    first, again, other = (sgd.fit(counts, model.predict(counts), epochs=2, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.surrogate.values, again.surrogate.values)
    np.testing.assert_array_equal(first.surrogate.importances, again.surrogate.importances)
    assert np.any(first.surrogate.values != other.surrogate.values)


def test_dense_counts_a_vector_of_outputs_and_gamma():
    model, counts = planted(6, 1, 300)
    outputs = model.predict(counts)
    matrix = sgd.fit(counts, outputs, epochs=2)
    vector = sgd.fit(counts.toarray(), outputs[:, 0], epochs=2, gamma=5.0)
    np.testing.assert_array_equal(matrix.surrogate.values, vector.surrogate.values)
    assert vector.surrogate.importances.sum() == pytest.approx(5.0)
    assert matrix.surrogate.importances.sum() == pytest.approx(0.0, abs=1e-12)


def test_the_loss_is_the_mean_squared_error_of_the_result():
    model, counts = planted(6, 2, 300)
    outputs = model.predict(counts)
    fit = sgd.fit(counts, outputs, epochs=1)
    assert fit.loss == pytest.approx(np.mean((fit.surrogate.predict(counts) - outputs) ** 2))


def test_what_cannot_be_fitted():
    with pytest.raises(InputError, match="empty query"):
        sgd.fit(np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros(2))
    with pytest.raises(InputError, match="nothing to fit: 0 queries over 2 tokens"):
        sgd.fit(np.zeros((0, 2)), np.zeros(0))
    with pytest.raises(InputError, match=r"outputs of shape \(2, K\)"):
        sgd.fit(np.eye(2), np.zeros(3))
    with pytest.raises(InputError, match="NaN"):
        sgd.fit(np.eye(2), np.array([1.0, np.nan]))


@pytest.mark.parametrize(
    ("epochs", "batch_size", "learning_rate"), [(0, 8, 0.1), (1, 0, 0.1), (1, 8, 0.0), (1, 8, np.nan)]
)
def test_settings_that_cannot_be_run(epochs: int, batch_size: int, learning_rate: float):
    with pytest.raises(InputError, match="learning_rate"):
        sgd.fit(np.eye(2), np.zeros(2), epochs=epochs, batch_size=batch_size, learning_rate=learning_rate)


def test_divergence_is_an_error():
    with pytest.raises(FitError, match="smaller"):
        sgd.fit(np.eye(2), np.ones(2), learning_rate=1e300)


def test_the_work_can_be_ended():
    calls = count(1)

    def check() -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sgd.fit(np.eye(4), np.arange(4.0), epochs=100, check=check)
    assert next(calls) == 4
