"""Two ways to count, and only one of them shows in the attention."""

from __future__ import annotations

from collections import Counter as Tally

import numpy as np
import pytest
import torch

from rounding import ANSWERS
from slalom.errors import InputError
from slalom.theory.histogram import Kind, counts, pattern, solve


def test_counts() -> None:
    text = "DATAIAIAIA"
    tokens = torch.tensor([[ord(c) - ord("A") for c in text]])
    assert counts(tokens)[0].tolist() == [Tally(text)[c] for c in text] == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]


@pytest.mark.parametrize("kind", ["semantic", "positional"])
def test_both_kinds_count_and_only_one_attends_to_what_it_counts(kind: Kind) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    found = solve(kind, vocabulary=6, length=6, steps=700, after=150)
    assert torch.random.get_rng_state().equal(before)
    assert found.accuracy > 0.93
    one, other = pattern(found, [0, 1, 0, 2, 3, 0]), pattern(found, [4, 4, 1, 5, 1, 2])
    np.testing.assert_allclose(one.sum(axis=1), 1.0, atol=ANSWERS)
    if kind == "semantic":
        assert found.same_token > 2
        assert found.content > 0.3
    else:
        assert found.same_token == pytest.approx(1.0, abs=0.02)
        assert found.content < 0.01
        assert np.abs(one - other).max() < 0.02


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="positional"):
        solve("mixed")  # type: ignore[arg-type]
