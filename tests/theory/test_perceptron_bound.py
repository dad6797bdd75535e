"""The calculator of section 4.3."""

from __future__ import annotations

from itertools import product
from math import log2, log10

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.theory.perceptron import log2_patterns, mlp_bound


def test_bert_cannot_store_its_sequences() -> None:
    bound = mlp_bound()
    assert bound.weights == 3072 * 769 + 3072 + 768 + 1
    # Of the order W log W, the paper's order of magnitude.
    assert 1 < bound.pairs / bound.weights < 2 * log2(bound.weights)
    assert bound.log10_sequences == pytest.approx(512 * log10(30522), abs=1e-3)
    assert bound.longest == 1


def test_the_bound_is_the_largest_solution() -> None:
    bound = mlp_bound(width=5, hidden=7, vocabulary=4, context=6)
    assert log2_patterns(bound.pairs, 5, 7) >= bound.pairs
    assert log2_patterns(bound.pairs + 1, 5, 7) < bound.pairs + 1
    assert sum(4**n for n in range(1, bound.longest + 1)) <= bound.pairs
    assert bound.longest == 6 or sum(4**n for n in range(1, bound.longest + 2)) > bound.pairs
    assert 10**bound.log10_sequences == pytest.approx(sum(4**n for n in range(1, 7)))


def test_no_network_realises_more_patterns_than_are_counted() -> None:
    """One hidden unit on a line: random weights never show more labellings than the bound allows."""
    points = np.linspace(-1, 1, 8)
    rng = np.random.default_rng(0)
    w, b, c, a, o = rng.normal(size=(5, 200_000, 1))
    labels = a * points + c * np.maximum(w * points + b, 0) + o > 0
    seen = len(np.unique(labels, axis=0))
    assert 16 < seen < len(list(product((0, 1), repeat=8)))
    assert log2(seen) <= log2_patterns(8, 1, 1)


def test_a_single_token_and_bad_sizes() -> None:
    assert mlp_bound(vocabulary=1, context=7).log10_sequences == pytest.approx(log10(7))
    with pytest.raises(InputError, match="at least 1"):
        mlp_bound(width=0)
