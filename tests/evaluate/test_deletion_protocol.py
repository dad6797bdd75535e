"""Deletion and insertion on a planted function: known curves, and worse explanations score worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import slalom
from slalom.evaluate.protocols.deletion import curve, deletion, insertion
from slalom.models.ask import Ask
from slalom.theory.planted import planted_function

WORDS = [f"w{i}" for i in range(23)]
VALUES = np.linspace(-3.0, 4.0, len(WORDS))
IMPORTANCES = np.sin(np.arange(len(WORDS)))
TEXT = " ".join(WORDS)


@pytest.fixture(scope="module")
def explainer():
    return slalom.Explainer(planted_function(IMPORTANCES, VALUES, WORDS))


@pytest.fixture(scope="module")
def explained(explainer):
    return explainer(TEXT, target="1", effort="fast")


def planted(kept: np.ndarray) -> float:
    weights = np.exp(IMPORTANCES[kept])
    return float(weights @ VALUES[kept] / weights.sum())


@pytest.mark.parametrize("keep", ["lowest", "highest"])
def test_the_curve_is_what_the_formula_gives(explainer, explained, keep):
    ask = Ask(explainer.model, explained.tokens)
    order = np.argsort(explained.share, kind="stable")
    order = order if keep == "lowest" else order[::-1]
    expected = [expit(planted(np.sort(order[:i]))) for i in (5, 10, 15, 20)]
    np.testing.assert_allclose(curve(ask, explained, keep), expected, atol=1e-9)


def test_a_wrong_explanation_scores_worse_and_a_random_one_in_between(explainer, explained):
    ask = Ask(explainer.model, explained.tokens)
    wrong = replace(explained, scores={"share": -explained.share})
    rng = np.random.default_rng(0)
    shuffled = [replace(explained, scores={"share": rng.permutation(explained.share)}) for _ in range(30)]
    floor = np.mean([deletion(ask, e) for e in shuffled])
    assert deletion(ask, wrong) < floor - 0.1 < floor + 0.1 < deletion(ask, explained)
    assert insertion(ask, explained) < insertion(ask, wrong)


def test_deleting_by_the_turned_score_is_inserting(explainer, explained):
    ask = Ask(explainer.model, explained.tokens)
    turned = replace(explained, scores={"share": -explained.share})
    assert deletion(ask, turned) == pytest.approx(insertion(ask, explained))


def test_a_text_shorter_than_a_step_is_judged_whole(explainer):
    short = explainer("w1 w5", target="1", effort="fast")
    ask = Ask(explainer.model, short.tokens)
    assert deletion(ask, short) == pytest.approx(1.0 - expit(planted(np.array([1, 5]))))
