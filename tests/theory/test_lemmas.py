"""The lemmas behind the LIME theorem, by enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.errors import InputError
from slalom.theory.bounds import quotient_bound, quotients
from theory_layers import random_document


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 3.0), st.floats(0.0, 3.0), st.integers(1, 50))
def test_the_bound_holds_for_any_two_variables(seed: int, lower: float, more: float, n: int) -> None:
    rng, upper = np.random.default_rng(seed), lower + more
    size = rng.integers(1, 6)
    p = rng.dirichlet(np.ones(size))
    x = rng.uniform(-upper, upper, size=size)
    y = n * rng.uniform(lower, upper, size=size)
    mean = p @ y
    error = abs(p @ (x / y) - (p @ x) / mean)
    assert error <= quotient_bound(lower, upper, n, float(p @ (y - mean) ** 2)) + 1e-12


def test_as_printed_it_fails_where_the_constant_is_below_one() -> None:
    upper, middle, step = 0.2, 0.19, 1e-4
    x, y = np.array([upper, -upper]), np.array([middle - step, middle + step])
    error = abs((x / y).mean() - x.mean() / y.mean())
    bounds = [
        quotient_bound(middle - step, upper, 1, step**2, as_printed=printed) for printed in (True, False)
    ]
    assert bounds[0] < error < bounds[1]
    with pytest.raises(InputError, match="lower"):
        quotient_bound(0.0, 1.0, 1, 1.0)


@pytest.mark.parametrize("heads", [1, 3])
def test_the_quotient_of_expectations_is_as_near_as_its_bound_says(heads: int) -> None:
    document = random_document(7, heads=heads)
    for s in (0, 2, 5, 6):
        found = quotients(document, s)
        for j in range(7):
            rows = []
            for gone in combinations([i for i in range(7) if i != j], s):
                rows.append(np.ones(7))
                rows[-1][list(gone)] = 0.0
            error = abs(document.outputs(np.array(rows)).mean() - found.approximation[j])
            assert error <= found.bound[j] + 1e-12
            if s in (0, 6):  # one set only: nothing varies
                assert found.bound[j] < 1e-6
                assert error < 1e-12
