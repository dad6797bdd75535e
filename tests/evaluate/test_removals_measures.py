"""Multi-removal fidelity as a protocol: known values, and the numbers of scikit-learn and numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import mean_squared_error, r2_score

from planted_cases import planted_case, planted_output, truthful, with_scores
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.removals import measure, removals


def test_the_planted_slalom_is_perfect_and_its_baseline_is_not():
    case = planted_case()
    found = measure(replace(case, explanation=truthful(case)), masks=20)
    assert found["mse"] < 1e-20 < 0.01 < found["zero_mse"]
    assert found["relative"] < 1e-18
    assert found["r2"] == pytest.approx(1.0)
    assert found["correlation"] == pytest.approx(1.0)


def test_numbers_agree_with_other_code():
    case = planted_case()
    told = with_scores(case, truthful(case).removal)
    found, numbers = removals(case.ask, told.explanation, masks=30), measure(told, masks=30)
    rng = np.random.default_rng(0)
    ranks = rng.random((300, 24)).argsort(axis=1).argsort(axis=1)
    truth, predicted = [], []
    for row, size in zip(ranks, np.repeat(np.arange(1, 11), 30), strict=True):
        truth.append(planted_output(np.flatnonzero(row >= size)) - planted_output(np.arange(24)))
        predicted.append(-told.explanation.score()[row < size].sum())
    np.testing.assert_allclose(found.truth.ravel(), truth, atol=1e-9)
    assert numbers["mse"] == pytest.approx(mean_squared_error(truth, predicted))
    assert numbers["zero_mse"] == pytest.approx(np.mean(np.square(truth)))
    assert numbers["r2"] == pytest.approx(r2_score(truth, predicted))
    assert numbers["correlation"] == pytest.approx(np.corrcoef(truth, predicted)[0, 1])


def test_predicting_no_change_is_the_baseline():
    found = measure(with_scores(planted_case(), np.zeros(24)), masks=10)
    assert found["mse"] == found["zero_mse"]
    assert found["relative"] == 1.0
    assert found["r2"] <= 0.0 == found["correlation"]


def test_a_negated_prediction_is_worse_than_none():
    case = planted_case()
    assert measure(with_scores(case, -truthful(case).removal), masks=10)["relative"] > 1.0


def test_a_score_by_name_predicts_minus_its_sum_beside_a_surrogate():
    case = planted_case()
    told = replace(case, explanation=truthful(case))
    alone = measure(with_scores(case, told.explanation.removal), masks=10)
    assert measure(told, score="removal", masks=10) == alone
    assert alone["mse"] > measure(told, masks=10)["mse"]


def test_texts_on_which_nothing_happens_are_not_judged():
    with pytest.raises(NotApplicable, match="one token"):
        measure(planted_case("random", "w0"))
    with pytest.raises(NotApplicable, match="does not change"):
        measure(planted_case("random", "w1 w1 w1"))
