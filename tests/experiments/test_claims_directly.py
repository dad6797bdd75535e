"""Claims of the papers that need no run: a layer, a fit and two shapes prove them."""

from __future__ import annotations

import numpy as np

from slalom import designs
from slalom.fit import exact
from slalom.theory.bounds import removal_effects
from slalom.theory.layer import look, planted_layer
from slalom_lab.experiments import table6_surrogates
from slalom_lab.experiments._shared import synthetic


def test_attention_does_not_depend_on_values() -> None:
    rng = np.random.default_rng(0)
    importances, values = rng.normal(size=(2, 8))
    one, other = (look(planted_layer(importances, sign * values), [0, 2, 5, 3, 7, 2]) for sign in (1, -1))
    assert np.array_equal(one.attention, other.attention)
    assert np.allclose(removal_effects(one), -removal_effects(other))  # the opposite at equal attention
    assert np.abs(removal_effects(one)).max() > 0.01


def test_a_slalom_of_several_classes_has_so_many_parameters() -> None:
    rng = np.random.default_rng(0)
    words, classes = 6, 3
    s, values = rng.normal(size=words), rng.normal(size=(words, classes))
    values -= values.mean(axis=1, keepdims=True)
    counts = designs.all_scales(words, 200, 1, words, rng).counts()
    weights = counts.toarray() * np.exp(s)
    found = exact.fit(counts, weights @ values / weights.sum(axis=1, keepdims=True)).surrogate
    assert len(found.importances) == words
    assert found.values.shape == (words, classes)
    assert np.allclose(found.values, values, atol=1e-6)
    assert np.allclose(found.values.sum(axis=1), 0, atol=1e-6)  # K − 1 of them are free
    assert np.allclose(found.importances - found.importances.mean(), s - s.mean(), atol=1e-6)


def test_the_gam_has_more_parameters_than_slalom() -> None:
    sequences = synthetic.linear_sequences(50, np.random.default_rng(0))
    weights = table6_surrogates._by_position(sequences).toarray().shape[1]
    assert weights == synthetic.LONGEST * len(synthetic.WORDS)
    assert weights > 2 * (2 * len(synthetic.WORDS) - 1)
