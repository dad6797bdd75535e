"""How much each query counts in the fidelity that an explanation tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom.explainers._slalom.trust import _weights


def test_sizes_count_as_wide_as_they_are_however_often_they_were_asked():
    sizes = np.array([1, 1, 1, 2, 3, 3, 4])
    weights = _weights(sizes)
    for size in (1, 2, 3, 4):
        assert weights[sizes == size].sum() == pytest.approx(np.log((size + 1) / size))


def test_neighbours_share_the_sizes_that_nobody_asked():
    assert _weights(np.array([16, 31])) == pytest.approx([np.log(24 / 16), np.log(32 / 24)])


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_all_sizes_together_are_as_wide_as_from_the_least_to_the_largest(drawn: list[int]):
    sizes = np.array(drawn)
    weights = _weights(sizes)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(np.log((sizes.max() + 1) / sizes.min()))
