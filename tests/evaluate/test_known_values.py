"""Every protocol on a planted model: what it says of the truth, and of random scores, is known beforehand.

The truth is computed from the formula of the planted SLALOM (maths 1), not through the model. A protocol that
is not in these tables fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from scipy.special import expit

import slalom
from planted_cases import (
    IMPORTANCES,
    TEXT,
    VALUES,
    WORDS,
    planted_case,
    planted_output,
    truthful,
    with_scores,
)
from slalom.data.dataset import Document
from slalom.evaluate import load, names
from slalom.evaluate.protocol import Case, NotApplicable, make_case
from slalom.evaluate.protocols.eraser import keeping
from slalom.explanation import Explanation
from slalom.label_counts import LabelCounts
from slalom.theory.planted import plant
from slalom.tokens import FloatArray

N = len(WORDS)
EVERYWHERE = np.arange(N)


def probability(kept: np.ndarray) -> float:
    return float(expit(planted_output(np.asarray(sorted(kept)))))


def deletion(scores: FloatArray) -> float:
    order = np.argsort(-scores)
    return 1.0 - float(np.mean([probability(order[-size:]) for size in range(5, N, 5)]))


def insertion(scores: FloatArray) -> float:
    order = np.argsort(-scores)
    return 1.0 - float(np.mean([probability(order[:size]) for size in range(5, N, 5)]))


def comprehensiveness(scores: FloatArray) -> float:
    order, sizes = np.argsort(-scores), (1, 2, 3, 5, 12)  # 1, 5, 10, 20 and 50 % of 24, rounded up
    return probability(order) - float(np.mean([probability(order[size:]) for size in sizes]))


def soft(scores: FloatArray) -> float:
    drawn = np.random.default_rng([0, 0x50F7]).random((64, N))
    kept = [np.flatnonzero(row) for row in drawn < 1.0 - keeping(scores, 0.5)]
    return probability(EVERYWHERE) - float(np.mean([probability(each) for each in kept]))


def replaced(scores: FloatArray) -> float:
    """Deletion with three draws of other words in the place of those that go."""
    order, rng = np.argsort(-scores), np.random.default_rng([0, 0x3E7])
    drawn = [np.array([int(rng.choice(EVERYWHERE, 1)[0]) for _ in range(N)]) for _ in range(3)]
    gone = [order[: N - size] for size in range(5, N, 5)]
    written = [np.where(np.isin(EVERYWHERE, places), other, EVERYWHERE) for other in drawn for places in gone]
    return 1.0 - float(np.mean([probability(words) for words in written]))


def top_three(scores: FloatArray) -> float:
    return planted_output(EVERYWHERE) - planted_output(np.sort(np.argsort(-scores)[3:]))


@cache
def aopc(order: tuple[int, ...]) -> float:
    """Of the first six words, in an order of deletion."""
    whole = probability(np.arange(6))
    return float(np.mean([whole - probability(np.array(order[i:])) for i in range(1, 6)]))


def normalised(scores: FloatArray) -> float:
    """NAOPC of the first six words, by all their orders."""
    every = [aopc(order) for order in permutations(range(6))]
    own = aopc(tuple(np.argsort(-scores[:6]).tolist()))
    return (own - min(every)) / (max(every) - min(every))


ORDERED: Mapping[tuple[str, str], Callable[[FloatArray], float]] = {
    ("deletion", "aopc"): deletion,
    ("deletion_modes", "drop"): deletion,
    ("deletion_modes", "mask"): deletion,  # a mask that says nothing is as good as gone
    ("deletion_modes", "replace"): replaced,
    ("eraser", "comprehensiveness"): comprehensiveness,
    ("insertion", "aopc"): insertion,
    ("masked_deletion", "aopc"): deletion,
    ("naopc", "naopc"): normalised,
    ("soft", "comprehensiveness"): soft,
    ("top_k_drop", "drop"): top_three,
}
"""Protocols that look at the order of the scores: a number, and a formula for it, whatever the scores are."""


@cache
def with_masks() -> Case:
    """Of the planted model that knows one word more, a mask of no weight."""
    model, tokenizer = plant(np.r_[IMPORTANCES, -40.0], np.r_[VALUES, 0.0], [*WORDS, "[MASK]"])
    tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    model.config.trained_on_masked_text = True  # type: ignore[attr-defined]
    return make_case(slalom.Explainer(model, tokenizer), Document(TEXT), method="occlusion", target=1)


def case_of(name: str) -> Case:
    if name in ("deletion_modes", "masked_deletion"):
        return with_masks()
    if name == "naopc":
        return planted_case(text=" ".join(WORDS[:6]))
    if name == "human_attention":
        marks = tuple(int(value > 1.0) for value in VALUES)
        return planted_case(document=Document(TEXT, 1, "planted", WORDS, {"consensus": marks}))
    if name == "naive_bayes_agreement":
        case = planted_case()
        pieces = case.explanation.tokens.pieces
        rising = {piece: 5 * i for i, piece in enumerate(pieces)}
        falling = {piece: 5 * (N - i) for i, piece in enumerate(pieces)}
        counts = (falling, rising)
        return replace(case, corpus=LabelCounts(("0", "1"), counts, counts, (10, 10), True))  # type: ignore[arg-type]
    return planted_case()


@dataclass(frozen=True)
class Known:
    """What a number is for the truth, and on average for random scores."""

    number: str
    truth: float
    floor: float
    scores: Callable[[Case], FloatArray] | None = None
    """The scores that are the truth for this protocol; None: the planted surrogate itself."""


def removal(case: Case) -> FloatArray:
    return truthful(case).scores["removal"]


PREDICTING: Mapping[str, Known] = {
    "all_scales": Known("r2", 1.0, 0.0),
    "lds": Known("spearman", 1.0, 0.0),
    "removals": Known("correlation", 1.0, 0.0),
    "recovery": Known("spearman", 1.0, 0.0),
    "leave_one_out": Known("spearman", 1.0, 0.0, removal),
    "human_attention": Known("auroc_consensus", 1.0, 0.5, lambda case: (VALUES > 1.0).astype(float)),
    "naive_bayes_agreement": Known("spearman", 1.0, 0.0, lambda case: np.arange(N, dtype=float)),
}
AGAIN = {"budget", "cost", "sanity", "stability"}
"""Protocols that explain again, or do not look at scores: below, each on its own."""


def test_every_protocol_has_a_known_value_and_a_floor():
    assert set(names()) == {*(name for name, _ in ORDERED), *PREDICTING, *AGAIN}
    with pytest.raises(NotApplicable, match="not trained on masked text"):
        load("masked_deletion")(planted_case())


@pytest.mark.parametrize(("name", "number"), ORDERED)
def test_what_looks_at_an_order_is_the_formula_for_the_truth_and_for_random_scores(name: str, number: str):
    formula, case = ORDERED[name, number], case_of(name)
    share = np.exp(IMPORTANCES) * VALUES
    rng = np.random.default_rng(2)
    for scores in (share, -share, *rng.standard_normal((4, N))):
        own = with_scores(case, scores[: len(case.explanation)])
        assert load(name)(own)[number] == pytest.approx(formula(scores), abs=1e-6)


@pytest.mark.parametrize(("name", "number"), ORDERED)
def test_random_scores_stand_between_the_truth_and_its_opposite(name: str, number: str):
    """The floor of an order is the mean over random ones: away from the truth, on the side of the bad."""
    formula = ORDERED[name, number]
    share, rng = np.exp(IMPORTANCES) * VALUES, np.random.default_rng(3)
    sign = 1.0 if name != "insertion" else -1.0
    floor = np.mean([formula(scores) for scores in rng.standard_normal((60, N))])
    assert sign * formula(share) > sign * floor + 0.05 > sign * formula(-share) + 0.05


@pytest.mark.parametrize("name", PREDICTING)
def test_what_predicts_is_perfect_for_the_truth_and_at_its_floor_for_random_scores(name: str):
    known, case = PREDICTING[name], case_of(name)
    truth = replace(case, explanation=truthful(case))
    told = truth if known.scores is None else with_scores(case, known.scores(case))
    assert load(name)(told)[known.number] == pytest.approx(known.truth, abs=1e-6)
    rng = np.random.default_rng(4)
    found = [load(name)(with_scores(case, rng.standard_normal(N)))[known.number] for _ in range(60)]
    spread = 4 * np.std(found) / np.sqrt(60)
    if name == "all_scales":  # the best gain of random scores is never below nothing
        assert 0.0 <= np.mean(found) < 0.15
    else:
        assert abs(np.mean(found) - known.floor) < spread


def always(case: Case, score: Callable[[], FloatArray]) -> Case:
    """The case of a method that gives such scores whenever it is asked, whatever the model."""

    def explain(**_: object) -> Explanation:
        return with_scores(case, score()).explanation

    return replace(case, explanation=explain(), explain=explain)


def test_sanity_is_one_for_scores_that_ignore_the_model_and_small_for_random_ones():
    case, fixed, rng = planted_case(), np.linspace(1.0, 2.0, N), np.random.default_rng(5)
    assert load("sanity")(always(case, lambda: fixed)) == pytest.approx(
        {"mean": 1.0, "head": 1.0, "all": 1.0}
    )
    found = [load("sanity")(always(case, lambda: rng.standard_normal(N)))["mean"] for _ in range(40)]
    # |ρ| of 24 unrelated numbers is √(2 / 23π) on average
    assert np.mean(found) == pytest.approx(np.sqrt(2 / (23 * np.pi)), abs=0.06)


def test_stability_is_one_for_a_method_without_chance_and_nothing_for_chance_alone():
    assert load("stability")(planted_case("occlusion"), repeats=1)["seeds"] == 1.0
    found = [load("stability")(planted_case("random", seed=7 * i), repeats=3)["seeds"] for i in range(12)]
    assert abs(np.mean(found)) < 4 * 0.21 / np.sqrt(36)


def test_cost_and_budget_are_those_of_the_method():
    occlusion, chance = planted_case("occlusion"), planted_case("random")
    assert load("cost")(occlusion)["queries"] == N + 1
    assert load("cost")(chance)["queries"] <= 1
    for case in (occlusion, chance):
        expected = load("deletion")(case)["aopc"]
        assert load("budget")(case) == pytest.approx(
            {f"deletion_{b}": expected for b in (125, 250, 500, 1000)}
        )
