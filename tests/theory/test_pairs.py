"""Pairwise interactions of a SLALOM, written out set by set, beside the closed form (maths 3k)."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from slalom.interactions import interaction_index
from slalom.surrogate import Slalom
from slalom.theory.heads import head_slaloms
from slalom.theory.layer import layer
from theory_layers import make


def written_out(slalom: Slalom, units: list[int], i: int, j: int) -> float:
    """The mean over sizes of the mean over sets of that size of F(S∪ij) − F(S∪i) − F(S∪j) + F(S)."""
    others = [k for k in range(len(units)) if k not in (i, j)]

    def worth(kept: tuple[int, ...]) -> float:
        if not kept and slalom.background_importance == -np.inf:
            return 0.0
        return float(slalom.output([units[k] for k in kept])[0])

    total = 0.0
    for size in range(len(others) + 1):
        sets = list(combinations(others, size))
        assert len(sets) == comb(len(others), size)
        change = [worth((*s, i, j)) - worth((*s, i)) - worth((*s, j)) + worth(s) for s in sets]
        total += float(np.mean(change))
    return total / (len(others) + 1)


@pytest.mark.parametrize("n", [2, 3, 6, 10])
@pytest.mark.parametrize("background", [True, False])
def test_interactions_of_a_head_are_those_written_out(n: int, background: bool) -> None:
    (head,) = head_slaloms(layer(make(positions=False, num_attention_heads=1)[0]))
    units = np.random.default_rng(n).integers(3, 19, size=n).tolist()
    s_0 = head.background_importance if background else -np.inf
    v_0 = head.background_value if background else np.zeros(1)
    slalom = Slalom(head.values, head.importances, v_0, s_0)
    found = interaction_index(head.importances[units], head.values[units], s_0, v_0)
    for i, j in [(0, 1)] if n == 2 else [(0, 1), (0, n - 1), (1, n - 2)]:
        if i != j:
            assert found[i, j, 0] == pytest.approx(written_out(slalom, units, i, j), abs=1e-10)
