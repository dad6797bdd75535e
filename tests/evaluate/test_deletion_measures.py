"""Deletion and insertion as protocols on the planted transformer, beside a computation of their own."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from planted_cases import TEXT, planted_case, planted_output, truthful, with_scores
from slalom.evaluate.protocol import NotApplicable
from slalom.evaluate.protocols.deletion import measure, measure_insertion
from slalom.models.target import choose_target


def by_hand(scores: np.ndarray, highest: bool, step: int = 5) -> float:
    ranked = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    total, count = 0.0, 0
    for size in range(step, len(scores), step):
        kept = ranked[:size] if highest else ranked[-size:]
        total += float(expit(planted_output(np.array(sorted(kept)))))
        count += 1
    return 1.0 - total / count


def test_both_agree_with_the_formula_for_every_score():
    case = planted_case()
    case = replace(case, explanation=truthful(case))
    for name, scores in case.explanation.scores.items():
        assert measure(case, score=name)["aopc"] == pytest.approx(by_hand(scores, False), abs=1e-9)
        assert measure_insertion(case, score=name)["aopc"] == pytest.approx(by_hand(scores, True), abs=1e-9)
    default = by_hand(case.explanation.share, False)
    assert measure(case)["aopc"] == pytest.approx(default, abs=1e-9)
    assert measure(case, step=3)["aopc"] == pytest.approx(by_hand(case.explanation.share, False, 3), abs=1e-9)


def test_the_probability_is_that_of_the_explained_label():
    case = planted_case()
    other = replace(case, explanation=replace(case.explanation, target=case.explanation.labels[0]))
    found = measure(other)["aopc"]
    assert found == pytest.approx(1.0 - measure(case)["aopc"], abs=1e-9)


@pytest.mark.parametrize("judge", [measure, measure_insertion])
def test_a_text_of_one_step_is_not_judged(judge):
    with pytest.raises(NotApplicable, match="at most 5 tokens"):
        judge(planted_case(text=" ".join(TEXT.split()[:5])))
    assert judge(planted_case(text=" ".join(TEXT.split()[:6])))


def test_the_ablation_breaks_ties_as_the_protocol_does(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    aopc = import_module("ablation").aopc
    case = planted_case()
    target = choose_target(case.ask.model, 1, case.ask.whole())
    sparse = np.where(np.arange(24) == 7, 1.0, 0.0)  # as a lasso leaves scores
    found = [aopc(case.ask, target, sparse, seed) for seed in range(4)]
    expected = [measure(replace(with_scores(case, sparse), seed=seed))["aopc"] for seed in range(4)]
    assert found == pytest.approx(expected, abs=1e-12)
    assert len(set(found)) == 4
