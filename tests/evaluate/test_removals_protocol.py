"""Multi-removal fidelity: exact for the planted surrogate, one for an explanation that predicts nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import slalom
from slalom.evaluate.protocols.removals import removals
from slalom.models.ask import Ask
from slalom.theory.planted import planted_function

WORDS = [f"w{i}" for i in range(14)]
VALUES = np.linspace(-3.0, 4.0, len(WORDS))
IMPORTANCES = np.cos(np.arange(len(WORDS)))


@pytest.fixture(scope="module")
def explainer():
    return slalom.Explainer(planted_function(IMPORTANCES, VALUES, WORDS))


@pytest.fixture(scope="module")
def explained(explainer):
    return explainer(" ".join(WORDS), target="1", effort="fast")


def test_the_planted_slalom_predicts_every_removal(explainer, explained):
    found = removals(Ask(explainer.model, explained.tokens), explained, masks=20)
    assert found.error.shape == found.nothing.shape == (10,)
    assert found.relative < 1e-12
    assert np.all(np.diff(found.nothing) > -0.05)


def test_predicting_nothing_has_relative_error_one(explainer, explained):
    silent = replace(explained, surrogate=None, scores={"share": np.zeros(len(explained))})
    found = removals(Ask(explainer.model, explained.tokens), silent, masks=20)
    np.testing.assert_allclose(found.error, found.nothing)


def test_a_method_without_surrogate_predicts_minus_the_sum(explainer, explained):
    ask = Ask(explainer.model, explained.tokens)
    additive = replace(explained, surrogate=None, scores={"share": explained.removal})
    found = removals(ask, additive, most=1, masks=50, seed=3)
    assert found.relative < 1e-12
    assert removals(ask, additive, most=6, masks=50).relative > 0.01


def test_the_same_seed_gives_the_same_masks_and_asks_nothing_twice(explainer, explained):
    ask = Ask(explainer.model, explained.tokens)
    first = removals(ask, explained, masks=5, seed=1)
    asked = ask.cost.queries
    second = removals(ask, explained, masks=5, seed=1)
    assert ask.cost.queries == asked
    np.testing.assert_allclose(first.nothing, second.nothing)
