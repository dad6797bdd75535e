"""Recovery: zero for the planted surrogate, known errors for known mistakes, and SLALOM finds it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import slalom
from planted_cases import IMPORTANCES, PLANTED, TEXT, VALUES, WORDS, planted_case, truthful, with_scores
from slalom.errors import InputError
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.recovery import measure, over_positions, recovery
from slalom.surrogate import Slalom
from slalom.theory.planted import plant


def test_the_truth_has_no_error():
    case = planted_case()
    found = measure(replace(case, explanation=truthful(case)))
    assert found == pytest.approx(
        {"spearman": 1.0, "value_rmse": 0.0, "importance_rmse": 0.0, "output_rmse": 0.0}, abs=1e-12
    )


def test_known_mistakes_have_known_errors():
    case = planted_case()
    right = truthful(case)
    scores = {**right.scores, "value": right.values + 0.5, "importance": right.importances + 3.0}
    shifted = measure(replace(case, explanation=replace(right, scores=scores)))
    assert shifted["value_rmse"] == pytest.approx(0.5)
    assert shifted["importance_rmse"] == pytest.approx(0.0, abs=1e-12)  # known up to a constant only
    doubled = {**right.scores, "importance": 2 * right.importances}
    found = measure(replace(case, explanation=replace(right, scores=doubled)))
    assert found["importance_rmse"] == pytest.approx(np.std(IMPORTANCES))
    surrogate = Slalom(VALUES + 1.0, IMPORTANCES)
    found = measure(replace(case, explanation=replace(right, surrogate=surrogate)))
    assert found["output_rmse"] == pytest.approx(1.0)


def test_a_method_of_one_score_is_judged_by_its_order():
    case = planted_case()
    right = truthful(case).share
    assert measure(with_scores(case, right)) == pytest.approx({"spearman": 1.0})
    assert measure(with_scores(case, -right)) == pytest.approx({"spearman": -1.0})


def test_slalom_finds_what_was_planted():
    found = measure(planted_case("slalom", effort="fast"))
    assert found["spearman"] > 0.999
    assert max(found["value_rmse"], found["importance_rmse"], found["output_rmse"]) < 1e-6


def test_the_other_label_has_the_opposite_values():
    explanation = planted_case("random").explanation
    other = replace(explanation, target=explanation.labels[0])
    np.testing.assert_array_equal(over_positions(PLANTED, WORDS, other).values[:, 0], -VALUES)


@pytest.mark.parametrize("classes", [2, 3])
def test_several_classes_are_read_as_their_target_is(classes):
    values = np.random.default_rng(2).normal(size=(24, classes))
    values -= values.mean(axis=1, keepdims=True)
    explainer = slalom.Explainer(*plant(IMPORTANCES, values, WORDS))
    explanation = explainer(TEXT, method="random", target=0)
    truth = over_positions(Slalom(values, IMPORTANCES), WORDS, explanation)
    assert truth.predict(np.ones((1, 24)))[0, 0] == pytest.approx(explanation.output)


def test_a_model_that_was_not_planted_and_a_truth_of_another_text_are_refused():
    case = planted_case("random")
    with pytest.raises(NotApplicable, match="not planted"):
        measure(replace(case, planted=None))
    with pytest.raises(InputError, match="has 24 positions, the text 2"):
        recovery(planted_case("random", "w0 w1").explanation, PLANTED)
    with pytest.raises(InputError, match="'w23' is none"):
        over_positions(PLANTED, WORDS[:23], case.explanation)
