from __future__ import annotations

import numpy as np
import pytest

from handmade import single_score, slalom_explanation, tokens_of
from slalom.explanation import Cost
from slalom.view import sentences
from slalom.view.html import fragment


@pytest.mark.parametrize(
    ("r2", "level"),
    [
        (1.0, "good"),
        (0.97, "good"),
        (0.969, "fair"),
        (0.7, "fair"),
        (0.6999, "rough"),
        (0.69, "rough"),
        (0.4, "rough"),
        (0.39, "poor"),
        (-5.0, "poor"),
    ],
)
def test_verdict_by_threshold(r2: float, level: str):
    said = sentences.verdict(slalom_explanation(fidelity={"r2": r2, "linear_r2": -9.0}))
    assert said.level == level
    shown = int(said.sentence.removeprefix("Predicts ").split(" %")[0])
    assert "; an additive explanation 0 %." in said.sentence
    assert shown == max(int(100 * r2 + 1e-9), 0)
    again = sentences.verdict(slalom_explanation(fidelity={"r2": shown / 100}))
    assert again.level == level


@pytest.mark.parametrize(
    ("low", "r2", "high", "words"),
    [
        (0.62, 0.75, 0.85, "Between a rough and a good guide: trust the strongest tokens only."),
        (0.95, 0.97, 0.98, "Between a good and a faithful guide: trust the large scores, not the order of "),
        (-0.2, 0.5, 0.98, "Between a misleading and a faithful guide: do not rely on the scores."),
        (0.71, 0.8, 0.89, "A good guide: trust the large scores, not the order of "),
    ],
)
def test_a_verdict_between_two_classes_says_so(low: float, r2: float, high: float, words: str):
    said = sentences.verdict(slalom_explanation(fidelity={"r2": r2, "r2_low": low, "r2_high": high}))
    much = f"{100 * r2:.0f} % ({max(100 * low, 0):.0f} to {100 * high:.0f})"
    wanted = f"Predicts {much} of what the model does on unseen variants of the text. {words}"
    assert said.sentence.startswith(wanted)
    assert sentences.badge(said).startswith("Between") == words.startswith("Between")


@pytest.mark.parametrize("fidelity", [{"r2": 0.1}, {"r2": 0.5, "r2_low": 0.3, "r2_high": 0.6}])
def test_no_stable_ranking_beside_scores_that_are_not_to_be_relied_on(fidelity: dict[str, float]):
    explanation = slalom_explanation(fidelity=fidelity)
    assert "do not rely on" in sentences.verdict(explanation).sentence
    assert "stable" not in sentences.cost(explanation)
    assert "stable" not in fragment(explanation, assets=False)
    assert "stable" in fragment(slalom_explanation(), assets=False)


def test_verdict_names_the_linear_surrogate_where_it_is_better():
    ahead = sentences.verdict(slalom_explanation(fidelity={"r2": 0.8, "linear_r2": 0.85}))
    level = sentences.verdict(slalom_explanation(fidelity={"r2": 0.8, "linear_r2": 0.81}))
    assert "An additive explanation does better here." in ahead.sentence
    assert "does better" not in level.sentence


def test_verdict_where_nothing_was_measured():
    assert sentences.verdict(single_score()).sentence == (
        "The method 'occlusion' does not measure how far its scores hold."
    )
    constant = sentences.verdict(slalom_explanation(fidelity={"heldout_queries": 0.0}))
    assert (constant.level, "held out" in constant.sentence) == ("unknown", True)
    assert sentences.verdict(slalom_explanation(fidelity={"r2": 0.98})).sentence == (
        "Predicts 98 % of what the model does on unseen variants of the text. A faithful guide: trust the "
        "scores."
    )


@pytest.mark.parametrize(
    ("error", "said"), [(0.25, "75 % is predicted."), (1.5, "left out of the whole text is not predicted.")]
)
def test_verdict_on_removals(error: float, said: str):
    sentence = sentences.verdict(slalom_explanation(fidelity={"r2": 0.8, "removal_error": error})).sentence
    assert sentence.endswith(said)


def test_cost_says_why_it_stopped():
    assert sentences.cost(slalom_explanation()) == (
        "512 queries (2,048 tokens) in 1.5 s, 1.2 s of it in the model. The ranking is stable."
    )
    assert sentences.cost(single_score(cost=Cost(1, 3, 0.04), settings={})) == "1 query (3 tokens) in 0.0 s."


def test_prediction_shows_the_target_even_if_unlikely():
    labels = tuple("abcdefgh")
    chances = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.04, 0.01])
    explanation = slalom_explanation(labels=labels, probabilities=chances, target="h")
    assert [name for name, _ in sentences.prediction(explanation)] == ["a", "b", "c", "d", "e", "h"]


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (0.5, "50.0 %"),
        (1.0, "100.0 %"),
        (0.0, "0.0 %"),
        (0.99999, ">99.9 %"),
        (1e-9, "<0.1 %"),
        (0.0271, "2.7 %"),
    ],
)
def test_percent(probability: float, shown: str):
    assert sentences.percent(probability) == shown


@pytest.mark.parametrize(
    ("scores", "power", "places"),
    [
        ([3.2, 0.1], 0, 2),
        ([0.034], 0, 4),
        ([123.4], 0, 0),
        ([0.0], 0, 2),
        ([np.nan], 0, 2),
        ([], 0, 2),
        ([2e-8, 1e-9], -8, 2),
        ([1e-30], -30, 2),
        ([5e-324], -300, 2),
        ([-3e7], 7, 2),
    ],
)
def test_the_scale_shows_three_digits_of_the_largest(scores: list[float], power: int, places: int):
    assert sentences.scale(np.array(scores)) == sentences.Scale(power, places)


def test_numbers_in_units_of_a_power_of_ten():
    small = sentences.scale(np.array([2e-8, -1e-9]))
    assert (small.factor, small.score(-1e-9), small.error(5e-9)) == (" ×10⁻⁸", "−0.10", "±0.50")
    assert sentences.scale(np.array([0.5]), signs=False).score(0.5) == " 0.500"


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (1.234, "+1.23"),
        (-1.236, "−1.24"),
        (-0.001, " 0.00"),
        (np.nan, "n/a"),
        (np.inf, "+∞"),
        (-np.inf, "−∞"),
    ],
)
def test_signed(score: float, shown: str):
    assert sentences.signed(score, 2) == shown


@pytest.mark.parametrize(("stderr", "shown"), [(0.123, "±0.12"), (np.nan, "n/a"), (np.inf, "±∞")])
def test_error(stderr: float, shown: str):
    assert sentences.error(stderr, 2) == shown


def test_order_and_columns():
    explanation = slalom_explanation(
        tokens=tokens_of("a b c d"),
        scores={
            "type_value": np.zeros(4),
            "value": np.zeros(4),
            "share": np.array([0.1, -3.0, 0.0, 0.1]),
        },
        stderr={},
    )
    assert sentences.order(explanation) == [1, 0, 3, 2]
    assert sentences.order(explanation, 2) == [1, 0]
    assert sentences.columns(explanation) == ["share", "value"]
