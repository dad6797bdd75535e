from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from slalom.fit import rows as module
from slalom.fit.rows import Dense, Rows, Sparse, layout

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
            made.append(layout(sparse.csr_array(counts)))
    assert [type(form) for form in made] == [Dense, Sparse]
    return made


def dense(form: Rows, data: np.ndarray) -> np.ndarray:
    """One number for every entry, as a matrix over the active units."""
    if isinstance(form, Dense):
        return data
    assert isinstance(form, Sparse)
    matrix = np.zeros((len(form.starts), len(form.active)))
    matrix[form.rows, form.columns] = data
    return matrix


@EXAMPLES
@given(COUNTS, st.integers(0, 99))
def test_both_forms_are_plain_numpy(counts: np.ndarray, seed: int):
    rng = np.random.default_rng(seed)
    n, units = counts.shape
    used = np.flatnonzero(counts.any(axis=0))
    full = np.column_stack([counts[:, used], np.ones(n)])
    weights = rng.lognormal(size=len(used) + 1)
    mass = full @ weights
    shares = full * weights / mass[:, None]
    values, outputs = rng.normal(size=(len(used) + 1, 2)), rng.normal(size=(n, 2))
    told = shares @ values
    slopes = shares * (values[:, 0] - told[:, [0]])
    slopes[:, -1] = (values[-1, 0] - told[:, 0]) / mass
    for form in both(counts):
        assert form.active.tolist() == [*used.tolist(), units]
        found, found_mass = form.shares(weights)
        np.testing.assert_allclose(dense(form, found), shares, atol=1e-14)
        np.testing.assert_allclose(found_mass, mass, rtol=1e-13)
        np.testing.assert_allclose(form.times(found, values), told, atol=1e-12)
        steep = form.slopes(found, found_mass, values[:, 0], told[:, 0])
        np.testing.assert_allclose(dense(form, steep), slopes, atol=1e-12)
        np.testing.assert_allclose(form.pull(steep, outputs), slopes.T @ outputs, atol=1e-12)
        np.testing.assert_allclose(form.gram(steep, found), slopes.T @ shares, atol=1e-12)
        np.testing.assert_allclose(form.gram(found, found), shares.T @ shares, atol=1e-12)


def test_slopes_are_derivatives():
    """By importance for the units, by weight for the background."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(8, 4)).astype(float)
    s, values = rng.normal(size=4), rng.normal(size=5)

    def told(form: Rows, s: np.ndarray, w0: float) -> np.ndarray:
        return form.times(form.shares(np.append(np.exp(s), w0))[0], values[:, None])[:, 0]

    for form in both(counts):
        shares, mass = form.shares(np.append(np.exp(s), 0.7))
        slopes = dense(form, form.slopes(shares, mass, values, told(form, s, 0.7)))
        h = 1e-6
        for j in range(4):
            step = h * np.eye(4)[j]
            difference = (told(form, s + step, 0.7) - told(form, s - step, 0.7)) / (2 * h)
            np.testing.assert_allclose(slopes[:, j], difference, atol=1e-8)
        difference = (told(form, s, 0.7 + h) - told(form, s, 0.7 - h)) / (2 * h)
        np.testing.assert_allclose(slopes[:, -1], difference, atol=1e-8)


def test_short_queries_over_many_units_are_kept_sparse():
    counts = np.eye(60)
    assert isinstance(layout(sparse.csr_array(counts)), Sparse)
    assert isinstance(layout(np.ones((60, 60))), Dense)
    # forty units that never occur do not make three busy ones sparse
    narrow = np.hstack([np.ones((5, 3)), np.zeros((5, 40))])
    form = layout(narrow)
    assert isinstance(form, Dense)
    assert form.active.tolist() == [0, 1, 2, 43]


def test_stored_zeros_and_repeated_entries():
    """A stored zero is no entry; the same unit stored twice counts twice."""
    data, row, column = [1.0, 1.0, 0.0, 2.0], [0, 0, 0, 1], [1, 1, 2, 0]
    counts = sparse.csr_array((data, (row, column)), shape=(2, 4))
    for form in (layout(counts), both(counts.toarray())[1]):
        assert form.active.tolist() == [0, 1, 4]
        shares, mass = form.shares(np.array([1.0, 3.0, 1.0]))
        np.testing.assert_allclose(mass, [7.0, 3.0])
        np.testing.assert_allclose(dense(form, shares), [[0, 6 / 7, 1 / 7], [2 / 3, 0, 1 / 3]])
