"""ERASER's numbers on the planted transformer, beside a computation of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from planted_cases import TEXT, planted_case, planted_output, truthful, with_scores
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.eraser import eraser, measure

# of 24 tokens: 1 % and 5 % rounded up, then 2.4, 4.8 and 12
SIZES = (1, 2, 3, 5, 12)


def test_the_numbers_are_what_the_formula_gives():
    case = planted_case()
    scores = truthful(case).share
    ranked = np.argsort(-scores)
    full = expit(planted_output(np.arange(24)))
    without = [full - expit(planted_output(np.sort(ranked[size:]))) for size in SIZES]
    alone = [full - expit(planted_output(np.sort(ranked[:size]))) for size in SIZES]
    found = measure(with_scores(case, scores))
    assert found["comprehensiveness"] == pytest.approx(np.mean(without), abs=1e-9)
    assert found["sufficiency"] == pytest.approx(np.mean(alone), abs=1e-9)


def test_wrong_scores_are_worse_in_both():
    case = planted_case()
    scores = truthful(case).share
    right, wrong = measure(with_scores(case, scores)), measure(with_scores(case, -scores))
    assert right["comprehensiveness"] > 0.2 > 0.0 > wrong["comprehensiveness"]
    assert right["sufficiency"] < 0.0 < 0.2 < wrong["sufficiency"]


@pytest.mark.parametrize(
    ("n", "sizes"), [(2, (1, 1, 1, 1, 1)), (20, (1, 1, 2, 4, 10)), (10, (1, 1, 1, 2, 5))]
)
def test_shares_are_rounded_up_and_whole_shares_stay_whole(n, sizes):
    case = planted_case(text=" ".join(TEXT.split()[:n]))
    ranked = np.argsort(-case.explanation.score(), kind="stable")
    full = expit(planted_output(np.arange(n)))
    expected = [full - expit(planted_output(np.sort(ranked[:size]))) for size in sizes]
    np.testing.assert_allclose(eraser(case.ask, case.explanation).alone, expected, atol=1e-9)


def test_one_token_has_no_rest():
    with pytest.raises(NotApplicable, match="one token"):
        measure(planted_case("random", "w0"))
