from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from slalom.fit import linear as module
from slalom.fit.linear import Matrix, Rows, gram

EXAMPLES = settings(max_examples=50, deadline=None, derandomize=True, database=None)
COUNTS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 7), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 3.0]),
).filter(np.any)


def both(counts: np.ndarray) -> list[Rows]:
    """The same queries in either form."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        for limit in (-1.0, 2.0):
            patch.setattr(module, "_DENSE_FROM", limit)
            made.append(Rows.of(sparse.csr_array(counts)))
    assert [form.dense for form in made] == [True, False]
    return made


def dense(matrix: Matrix) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@EXAMPLES
@given(COUNTS, st.integers(0, 99))
def test_both_forms_are_plain_numpy(counts: np.ndarray, seed: int):
    rng = np.random.default_rng(seed)
    n, units = counts.shape
    full = np.column_stack([counts, np.ones(n)])
    weights, values = rng.lognormal(size=units + 1), rng.normal(size=units + 1)
    mass = full @ weights
    shares = full * weights / mass[:, None]
    told = shares @ values
    slopes = shares * (values - told[:, None])
    slopes[:, -1] = (values[-1] - told) / mass
    for form in both(counts):
        found, found_mass = form.shares(weights)
        left = form.matrix(found)
        assert isinstance(left, np.ndarray) == form.dense
        np.testing.assert_allclose(dense(left), shares, atol=1e-14)
        np.testing.assert_allclose(found_mass, mass, rtol=1e-13)
        np.testing.assert_allclose(left @ values, told, atol=1e-12)
        steep = form.matrix(form.slopes(found, found_mass, values, told))
        np.testing.assert_allclose(dense(steep), slopes, atol=1e-12)
        np.testing.assert_allclose(gram(steep, left), slopes.T @ shares, atol=1e-12)
        np.testing.assert_allclose(gram(left, left), shares.T @ shares, atol=1e-12)


def test_slopes_are_derivatives():
    """By importance for the units, by weight for the background."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(8, 4)).astype(float)
    s, values = rng.normal(size=4), rng.normal(size=5)

    def told(form: Rows, s: np.ndarray, w0: float) -> np.ndarray:
        return form.matrix(form.shares(np.append(np.exp(s), w0))[0]) @ values

    for form in both(counts):
        shares, mass = form.shares(np.append(np.exp(s), 0.7))
        slopes = dense(form.matrix(form.slopes(shares, mass, values, told(form, s, 0.7))))
        h = 1e-6
        for j in range(4):
            step = h * np.eye(4)[j]
            difference = (told(form, s + step, 0.7) - told(form, s - step, 0.7)) / (2 * h)
            np.testing.assert_allclose(slopes[:, j], difference, atol=1e-8)
        difference = (told(form, s, 0.7 + h) - told(form, s, 0.7 - h)) / (2 * h)
        np.testing.assert_allclose(slopes[:, -1], difference, atol=1e-8)


def test_short_queries_over_many_units_are_kept_sparse():
    assert not Rows.of(sparse.csr_array(np.eye(60))).dense
    assert Rows.of(np.ones((60, 60))).dense


def test_stored_zeros_and_repeated_entries():
    """A stored zero is no entry; the same unit stored twice counts twice; what was given stays as it was."""
    data, row, column = [1.0, 1.0, 0.0, 2.0], [0, 0, 0, 1], [1, 1, 2, 0]
    counts = sparse.csr_array((data, (row, column)), shape=(2, 3))
    stored = counts.nnz
    form = Rows.of(counts)
    assert counts.nnz == stored
    assert len(form.row) == 4
    shares, mass = form.shares(np.array([1.0, 3.0, 5.0, 1.0]))
    np.testing.assert_allclose(mass, [7.0, 3.0])
    np.testing.assert_allclose(dense(form.matrix(shares)), [[0, 6 / 7, 0, 1 / 7], [2 / 3, 0, 0, 1 / 3]])
