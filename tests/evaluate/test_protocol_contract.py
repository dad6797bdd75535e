"""What holds for every protocol: found by itself, it yields finite numbers by known names or says why not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from planted_cases import PLANTED, TEXT, VALUES, WORDS, planted_case, truthful, with_scores
from slalom.data.dataset import Document
from slalom.errors import InputError
from slalom.evaluate import load, names, options, protocols
from slalom.evaluate.protocol import Case, Needs, NotApplicable
from slalom.evaluate.protocols.recovery import over_positions
from slalom.label_counts import Counts, LabelCounts

EXPECTED = {
    "all_scales",
    "budget",
    "cost",
    "deletion",
    "deletion_modes",
    "eraser",
    "human_attention",
    "insertion",
    "lds",
    "leave_one_out",
    "masked_deletion",
    "naive_bayes_agreement",
    "naopc",
    "recovery",
    "removals",
    "sanity",
    "soft",
    "stability",
    "top_k_drop",
}
MARKS = tuple(int(value > 1.0) for value in VALUES)
COUNTS: Counts = (Counter({(i,): 30 - i for i in range(24)}), Counter({(i,): 3 * i for i in range(24)}))
CORPUS = LabelCounts(("0", "1"), COUNTS, COUNTS, (10, 10), True)


def full_case(text: str = TEXT, method: str = "occlusion") -> Case:
    words = tuple(text.split())
    marks = tuple(MARKS[WORDS.index(word)] for word in words)
    document = Document(text, 1, "planted", words, {"consensus": marks})
    case = planted_case(method, document=document, corpus=CORPUS)
    return replace(case, planted=over_positions(PLANTED, WORDS, case.explanation))


def measured(name: str, case: Case) -> dict[str, float] | None:
    try:
        return load(name)(case)
    except NotApplicable:
        return None


def test_the_protocols_are_found_by_themselves_and_helpers_are_not():
    assert set(names()) == EXPECTED
    for name, protocol in protocols().items():
        assert protocol.name == name
        assert protocol.summary
        assert protocol.needs in get_args(Needs)
        assert protocol.good
        assert set(protocol.good.values()) <= {"high", "low"}


def test_an_unknown_protocol_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no protocol 'statistics'.*deletion"):
        load("statistics")


def test_options_are_those_of_the_measure():
    assert options("deletion") == {"score": None, "step": 5}
    assert options("cost") == {}


@pytest.mark.parametrize("name", sorted(EXPECTED - {"masked_deletion"}))  # the planted model knows no masks
def test_numbers_are_finite_named_and_repeatable(name):
    case = full_case()
    before = case.explanation.score().copy()
    found = load(name)(case)
    assert found
    assert set(found) <= set(protocols()[name].good)
    assert all(type(number) is float and np.isfinite(number) for number in found.values())
    assert load(name)(case) == found
    np.testing.assert_array_equal(case.explanation.score(), before)


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("text", ["w0", "w3 w4", "w1 w1 w1 w1 w1 w1 w1"])
def test_short_and_monotonous_texts_have_an_answer_or_a_reason(name, text):
    found = measured(name, full_case(text))
    assert found is None or all(np.isfinite(number) for number in found.values())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_score_that_is_the_same_for_all_tokens_has_an_answer_or_a_reason(name):
    case = with_scores(full_case(), np.full(24, 0.5))
    found = measured(name, case)
    assert found is None or all(np.isfinite(number) for number in found.values())


FLOOR = {
    "leave_one_out": ("spearman", 0.0),
    "lds": ("spearman", 0.0),
    "recovery": ("spearman", 0.0),
    "naive_bayes_agreement": ("spearman", 0.0),
    "human_attention": ("auroc_consensus", 0.5),
}


@pytest.mark.parametrize("name", FLOOR)
def test_random_scores_stand_at_the_floor(name):
    number, floor = FLOOR[name]
    case, rng = full_case(), np.random.default_rng(5)
    found = [load(name)(with_scores(case, rng.standard_normal(24)))[number] for _ in range(200)]
    # 200 draws of a correlation over 24 tokens: its standard error is 0.21 / √200
    assert abs(np.mean(found) - floor) < 4 * np.std(found) / np.sqrt(200)


TRUTH = {
    "all_scales": "r2",
    "lds": "spearman",
    "deletion": "aopc",
    "insertion": "aopc",
    "eraser": "comprehensiveness",
    "removals": "mse",
    "leave_one_out": "spearman",
    "recovery": "spearman",
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_beats_shuffled_scores_and_those_beat_negated_ones(name):
    number, case = TRUTH[name], full_case()
    sign = 1.0 if protocols()[name].good[number] == "high" else -1.0
    truth, rng = truthful(case), np.random.default_rng(3)
    told = replace(case, explanation=truth)
    right = sign * load(name)(told)[number]
    negated = sign * load(name)(with_scores(case, -truth.share))[number]
    shuffled = [sign * load(name)(with_scores(case, rng.permutation(truth.share)))[number] for _ in range(40)]
    assert right > np.mean(shuffled) > negated
    assert right >= max(shuffled)
