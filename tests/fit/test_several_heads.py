from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from planted_heads import differences, from_vector, planted, soft_removal, vector
from slalom import designs
from slalom.fit import heads, misfit
from slalom.fit.misfit import Shape, Task
from slalom.perturb import Perturbations, from_keep
from slalom.scores import output_slopes
from slalom.surrogate import Heads, Slalom

N = 7


def copies(n: int, count: int, seed: int = 0) -> Perturbations:
    rng = np.random.default_rng(seed)
    return designs.all_scales(n, count, 1, max(n - 1, 1), rng)


def slopes_of(model: Heads, queries: Perturbations, column: int = 0) -> np.ndarray:
    """Soft-removal gradients of all queries, as `fit` takes them."""
    slopes = np.zeros((len(queries), queries.size))
    for slope, row in zip(slopes, np.split(queries.positions, queries.offsets[1:-1]), strict=True):
        slope[row] = soft_removal(model, row, column)
    return slopes


def task_of(
    queries: Perturbations, z: np.ndarray, slopes: np.ndarray, column: int = 0, groups: int = 1
) -> Task:
    return Task(heads._with_background(queries.counts()), z, slopes, column, np.ones((len(z), groups)))


NO_SLOPES = np.zeros((0, N))


def planted_x(shape: Shape, seed: int = 0) -> np.ndarray:
    return 0.7 * np.random.default_rng(seed).normal(size=shape.size)


@pytest.mark.parametrize("sloped", [0, 4])
@pytest.mark.parametrize(("outputs", "column"), [(1, 0), (2, 1)])
def test_the_gradient_is_that_of_the_misfit(outputs: int, column: int, sloped: int):
    queries, shape = copies(N, 12), Shape(2, 3, N + 1, outputs)
    rng = np.random.default_rng(1)
    present = queries[12 - sloped :].counts().toarray() if sloped else NO_SLOPES
    z, bent = rng.normal(size=(12, outputs)), present * rng.normal(size=present.shape)
    task = replace(task_of(queries, z, bent, column), seen=rng.integers(0, 2, (12, 2)).astype(float))
    at = planted_x(shape)
    gradient = task.misfit(at, shape)[1]
    expected = differences(lambda x: np.array([task.misfit(x, shape)[0]]), at)[0]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_copies_of_a_unit_weigh_as_if_they_were_units_of_their_own(monkeypatch: pytest.MonkeyPatch):
    """Counts of types give the misfit of positions that share their scores, up to a constant."""
    monkeypatch.setattr(misfit, "STEEP", np.inf)  # how steep a gradient is depends on what it is summed over
    inverse, queries = np.array([0, 1, 0, 2, 1, 0, 3]), copies(N, 12)
    rng = np.random.default_rng(2)
    z, tail = rng.normal(size=(12, 1)), queries[8:]
    slopes = tail.counts().toarray() * rng.normal(size=(4, N))
    member = np.eye(4)[inverse]
    counts = heads._with_background(queries.counts(inverse, 4))
    types = Task(counts, z, slopes @ member, 0, np.ones((12, 1)))
    losses = []
    for seed in range(2):
        shape = Shape(1, 2, 5, 1)
        x = planted_x(shape, seed)
        s, v, a = shape.parts(x)
        places = np.append(inverse, 4)
        spread_out = np.concatenate([s[:, places].ravel(), v[:, places].ravel(), a])
        alone = task_of(queries, z, slopes).misfit(spread_out, Shape(1, 2, N + 1, 1))[0]
        losses.append(alone - types.misfit(x, shape)[0])
    np.testing.assert_allclose(losses[0], losses[1])


@pytest.mark.parametrize(("outputs", "column"), [(1, 0), (2, 1)])
def test_the_misfit_is_zero_where_outputs_and_gradients_are_those_of_the_model(outputs: int, column: int):
    """The closed form of one SLALOM is the other side: no code is shared with it."""
    queries, shape = copies(N, 12), Shape(1, 2, N + 1, outputs)
    x = planted_x(shape)
    model = heads._surrogate(x, shape, np.zeros(outputs), 1.0)
    outputs_of_model = model.predict(queries.counts())
    tail = queries[8:]
    task = task_of(queries, outputs_of_model, slopes_of(model, tail, column), column)
    assert task.misfit(x, shape)[0] < 1e-24


@pytest.mark.parametrize(("outputs", "column"), [(1, 0), (2, 1)])
def test_the_jacobian_is_that_of_the_outputs(outputs: int, column: int):
    shape, queries = Shape(1, 2, N + 1, outputs), copies(N, 12)
    x = planted_x(shape)

    def predicted(x: np.ndarray) -> np.ndarray:
        return heads._surrogate(x, shape, np.zeros(outputs), 1.0).predict(queries.counts())[:, column]

    counts = heads._with_background(queries.counts())
    have = misfit.jacobian(counts, x, shape, column).toarray()
    np.testing.assert_allclose(have, differences(predicted, x), atol=1e-6)
    prior = sparse.csr_array(sparse.eye_array(len(x)))
    _, triangle = misfit.seen(counts, x, shape, column, prior, 0.5, np.random.default_rng(0))
    np.testing.assert_allclose(triangle @ triangle.T, have @ have.T + 0.5 * np.eye(12), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("outputs", "column"), [(1, 0), (2, 1)])
def test_the_covariance_is_the_primal_formula(outputs: int, column: int):
    """(Jᵀ J / noise + prior⁻¹)⁻¹, in units of the output."""
    model, queries = planted(4, 2, 1.5, outputs=outputs), copies(4, 14)
    rng = np.random.default_rng(0)
    answers = 5.0 * model.predict(queries.counts()) + 0.5 * rng.normal(size=(14, outputs))
    found = heads.fit(queries.counts(), answers, np.array([0, 1, 1, 2]), column=column)
    first = found.groups[0]
    counts, offset = queries.counts(), float(first.offset[column])
    theta = vector(first, column)
    jacobian = differences(lambda t: from_vector(t, heads.HEADS, offset).predict(counts)[:, 0], theta)
    np.testing.assert_allclose(
        from_vector(theta, heads.HEADS, offset).predict(counts)[:, 0],
        first.predict(counts)[:, column],
    )
    prior = (found.spread.prior @ found.spread.prior.T).toarray()
    noise = (found.left_out**2).mean()
    primal = np.linalg.inv(jacobian.T @ jacobian / noise + np.linalg.inv(prior))
    have = found.spread.covariance(np.eye(len(theta)))
    np.testing.assert_allclose(have, primal, atol=1e-4 * np.abs(primal).max())


def test_some_of_many_queries_stand_for_all(monkeypatch: pytest.MonkeyPatch):
    model, queries = planted(4, 2, 1.5), copies(4, 400)
    answers = model.predict(queries.counts()) + 0.1 * np.random.default_rng(0).normal(size=(400, 1))
    none = np.zeros(0, np.int64)
    whole = heads.fit(queries.counts(), answers, np.arange(4), held=none)
    monkeypatch.setattr(misfit, "_ROWS", 150)
    some = heads.fit(queries.counts(), answers, np.arange(4), held=none)
    assert len(some.spread.known) == 150
    slopes = output_slopes(whole.groups[0], np.eye(4))
    want, have = (np.diag(found.spread.covariance(slopes)) for found in (whole, some))
    np.testing.assert_allclose(np.sqrt(have), np.sqrt(want), rtol=0.25)


def r2(model: Heads, found: Heads, queries: Perturbations) -> float:
    truth = model.predict(queries.counts())
    return 1.0 - float(((found.predict(queries.counts()) - truth) ** 2).mean() / truth.var())


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_model_of_two_heads_below_a_ceiling(seed: int):
    """Predicted well from outputs, and better with gradients of some copies."""
    n, count = 16, 90
    model, queries, fresh = planted(n, 2, 1.0, seed), copies(n, count, seed), copies(n, 300, seed + 50)
    outputs, everyone = model.predict(queries.counts()), np.arange(n)
    plain = heads.fit(queries.counts(), outputs, everyone)
    slopes = slopes_of(model, queries[count - 30 :])
    sloped = heads.fit(queries.counts(), outputs, everyone, slopes=slopes)
    assert r2(model, plain.surrogate, fresh) > 0.8
    assert 1 - r2(model, sloped.surrogate, fresh) < 0.85 * (1 - r2(model, plain.surrogate, fresh))


def test_copies_of_a_type_stay_near_each_other():
    """A copy that was hardly asked about is taken for its type, unless it is told to be one of its own."""
    inverse = np.array([0, 1, 2, 0, 3, 1, 4, 0])
    model, keep = planted(5, 1), copies(8, 60).counts().toarray() > 0
    keep[1:, 7] = False
    keep[:, 0] |= ~keep.any(axis=1)
    queries = from_keep(keep)
    outputs = model.predict(queries.counts(inverse, 5))
    tied, free = (
        heads.fit(queries.counts(), outputs, types).surrogate.alone()[:, 0]
        for types in (inverse, np.arange(8))
    )
    want = model.alone()[inverse, 0]
    assert np.abs(tied - want).max() < 0.15 * np.ptp(want)
    assert abs(tied[7] - want[7]) < 0.5 * abs(free[7] - want[7])


def test_left_out_errors_are_those_of_fits_without_them():
    """Noise is not predicted; what is never left out has the error of the fit."""
    n, count = 8, 60
    queries, rng = copies(n, count, 1), np.random.default_rng(0)
    noise = rng.normal(size=(count, 1))
    held = np.arange(20, count)
    found = heads.fit(queries.counts(), noise, np.arange(n), held=held)
    inside = (noise - found.surrogate.predict(queries.counts()))[:, 0]
    assert (inside**2).mean() < 0.7 * noise.var()
    assert (found.left_out[held] ** 2).mean() > 0.9 * noise.var()
    np.testing.assert_allclose(found.left_out[:20], inside[:20], atol=0.002)


def test_every_query_is_left_out_once():
    sizes = np.repeat([1, 2, 5], 8)
    unseen = 1.0 - heads._learns(sizes, np.arange(24), np.arange(24), np.random.default_rng(0))
    assert (unseen.sum(axis=1) == 1).all()
    for group in unseen.T:
        assert np.bincount(sizes[group > 0]).tolist() == [0, 2, 2, 0, 0, 2]


def test_queries_of_one_family_are_left_out_together():
    sizes, families = np.tile([2, 3, 5], 8), np.repeat(np.arange(2, 24, 3), 3)
    held = np.setdiff1d(np.arange(24), [4, 12])
    unseen = 1.0 - heads._learns(sizes, held, families, np.random.default_rng(0))
    assert unseen.sum(axis=1).tolist() == [float(row in held) for row in range(24)]
    for family in np.unique(families):
        assert len(np.unique(unseen[held[families[held] == family]], axis=0)) == 1
    assert (unseen[2::3].sum(axis=0) == 2).all()


def test_a_group_is_fitted_as_if_it_stood_alone():
    """What one group says of the queries does not pull at another."""
    queries, rng = copies(N, 12), np.random.default_rng(3)
    both, one = Shape(2, 3, N + 1, 1), Shape(1, 3, N + 1, 1)
    z, slopes = rng.normal(size=(12, 1)), queries[9:].counts().toarray() * rng.normal(size=(3, N))
    x = planted_x(both)
    parts = [heads._group(x, both, at) for at in range(2)]
    whole, gradient = task_of(queries, z, slopes, groups=2).misfit(x, both)
    alone = [task_of(queries, z, slopes).misfit(part, one) for part in parts]
    assert whole == pytest.approx(sum(loss for loss, _ in alone))
    for at, (_, own) in enumerate(alone):
        np.testing.assert_allclose(heads._group(gradient, both, at)[:-1], own[:-1])


def test_the_mean_of_the_groups_is_the_surrogate():
    queries = copies(N, 40)
    found = heads.fit(queries.counts(), planted(N, 2).predict(queries.counts()), np.arange(N))
    ceiling, offset = found.surrogate.ceiling, found.surrogate.offset
    assert ceiling is not None
    levels = [np.arctanh((group.predict(np.eye(N)) - offset) / ceiling) for group in found.groups]
    np.testing.assert_allclose(found.surrogate.alone(), offset + ceiling * np.tanh(np.mean(levels, axis=0)))


def test_the_work_can_be_ended():
    class StopError(Exception):
        pass

    steps = []

    def check() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise StopError

    queries = copies(N, 20)
    with pytest.raises(StopError):
        heads.fit(queries.counts(), planted(N, 2).predict(queries.counts()), np.arange(N), check=check)
    assert len(steps) == 3


def test_the_seed_decides():
    queries = copies(N, 30)
    outputs = planted(N, 2, 1.0).predict(queries.counts())
    first, again, other = (
        heads.fit(queries.counts(), outputs, np.arange(N), seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(vector(first.surrogate), vector(again.surrogate))
    np.testing.assert_array_equal(first.spread.known, again.spread.known)
    assert not np.array_equal(vector(first.surrogate), vector(other.surrogate))


def test_a_gradient_on_the_brink_does_not_spoil_the_fit():
    """One gradient a hundred times too long costs little of what the outputs tell."""
    rng, n = np.random.default_rng(3), 12
    model = planted(n, 2, 3.0, seed=5)
    queries = designs.all_scales(n, 160, 1, n - 1, rng)
    fresh = designs.all_scales(n, 200, 1, n - 1, rng).counts()
    slopes = slopes_of(model, queries[150:], 0)
    slopes[3] *= 100.0
    fitted = heads.fit(queries.counts(), model.predict(queries.counts()), np.arange(n), slopes=slopes)
    error = fitted.surrogate.predict(fresh) - model.predict(fresh)
    assert error.var() < 0.1 * model.predict(fresh).var()


def test_tokens_that_are_embedded_alike_are_expected_to_be_alike():
    """Scores that follow the embeddings are found from fewer answers than scores that do not."""
    rng, n = np.random.default_rng(4), 40
    places = rng.normal(size=(n, 3))
    model = Slalom(2.0 * places[:, :1], places[:, 1], np.zeros(1), 0.0)
    queries = designs.all_scales(n, 60, 2, n - 1, rng)
    fresh = designs.all_scales(n, 300, 1, n - 1, rng).counts()
    truth = model.predict(fresh)
    errors = []
    for embeddings in (None, places @ rng.normal(size=(3, 20))):
        fitted = heads.fit(
            queries.counts(), model.predict(queries.counts()), np.arange(n), embeddings=embeddings
        )
        errors.append(((fitted.surrogate.predict(fresh) - truth) ** 2).mean())
    assert errors[1] < 0.6 * errors[0]


def test_directions_of_embeddings_do_not_depend_on_the_sign_of_an_axis():
    rng = np.random.default_rng(5)
    embeddings, inverse = rng.normal(size=(9, 30)), np.array([0, 1, 2, 0, 3, 4, 5, 6, 7])
    embeddings[3] = embeddings[0]
    along = misfit.directions(embeddings, inverse)
    first = np.unique(inverse, return_index=True)[1]
    assert (along[first] ** 2).sum(axis=1).mean() == pytest.approx(1.0)
    np.testing.assert_allclose(along[3], along[0])
    turned = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    again = misfit.directions(embeddings @ turned, inverse)
    np.testing.assert_allclose(again @ again.T, along @ along.T, atol=1e-9)
