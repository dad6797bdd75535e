"""What holds for every protocol: found by itself, it yields finite numbers by known names or says why not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, get_args

import numpy as np
import pytest

from planted_cases import PLANTED, TEXT, VALUES, WORDS, planted_case, truthful, with_scores
from slalom.checks import Range, declared
from slalom.data.dataset import Document
from slalom.errors import InputError
from slalom.evaluate import load, names, options, parse_protocols, protocols
from slalom.evaluate import protocol as declaring
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


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_option_of_every_protocol_is_declared_and_its_default_allowed(name):
    known = declared(load(name))
    for option, default in options(name).items():
        assert object not in known[option].kinds, f"{option} says nothing"
        for bounds in (known[option].whole, known[option].number, known[option].numbers):
            assert bounds is None or np.isfinite(bounds.least), option
        assert known[option].check(option, default) == default


REFUSED = {
    "deletion": ["step=0", "step=x", "step=2.5", "step=true", "step=null", "score=3"],
    "insertion": ["step=-1"],
    "deletion_modes": ["draws=0", "step=0"],
    "masked_deletion": ["step=0"],
    "eraser": ["bins=0.1", "bins=[]", "bins=[0,0.5]", "bins=[0.5,1]", 'bins=["a"]', "bins=[true]", "bins=x"],
    "soft": ["share=2", "share=0", "share=1", "draws=0"],
    "all_scales": ["copies=0", "copies=9"],
    "lds": ["copies=0"],
    "removals": ["masks=0", "most=0"],
    "top_k_drop": ["k=0", "k=-3"],
    "naopc": ["beam=0", "exact=21", "exact=-1", "longest=0"],
    "recovery": ["parts=0"],
    "stability": ["repeats=0", "share=0"],
    "sanity": ["levels=0"],
    "leave_one_out": ["score=1"],
}


def test_options_outside_of_their_range_are_refused_by_name_before_anything_runs():
    for name, given in REFUSED.items():
        for one in given:
            with pytest.raises(InputError, match=f"the option .* of the protocol '{name}' must be .*; got"):
                parse_protocols([f"{name}:{one}"])
    assert set(REFUSED) == {name for name in names() if options(name)}


def test_options_within_their_range_are_taken_in_plain_types():
    judges = parse_protocols(["eraser:bins=[0.1,0.5]", "soft:share=0.25:draws=8", "sanity:levels=null"])
    assert [judge.options for judge in judges.values()] == [
        {"bins": (0.1, 0.5)},
        {"share": 0.25, "draws": 8},
        {"levels": None},
    ]
    found = load("eraser")(full_case(), **judges["eraser"].options)
    assert found["comprehensiveness"] > 0.0


def test_the_options_of_ones_own_protocol_are_checked_where_they_are_annotated():
    def mine(case: Case, *, times: Annotated[int, Range(1, 9)] = 1, free=None) -> dict[str, float]:
        return {"x": float(times)}

    def unreadable(case: OnlyForTypes, *, times: int = 1) -> dict[str, float]:  # type: ignore[name-defined]  # noqa: F821
        return {"x": float(times)}

    for function in (mine, unreadable):
        given = declaring.protocol(function.__name__, good={"x": "high"})(function)
        assert declaring.declared(given).check({"times": 3}) == {"times": 3}
    assert declaring.declared(mine).check({"free": [1, "a"]}) == {"free": [1, "a"]}
    with pytest.raises(InputError, match="must be a whole number from 1 to 9; got 10"):
        declaring.declared(mine).check({"times": 10})
    assert declaring.declared(unreadable).check({"times": "many"}) == {"times": "many"}


def test_a_share_that_is_all_of_the_text_is_a_reason():
    with pytest.raises(NotApplicable, match=r"a share of 0.99 is all of the text \(option bins\)"):
        load("eraser")(full_case(), bins=(0.5, 0.99))


def test_equal_scores_lose_no_matter_where_they_stand():
    """The k strongest of equal scores are any: over seeds all units go, not the first k."""
    case = with_scores(full_case(), np.zeros(24))
    drops = [load("top_k_drop")(replace(case, seed=seed), k=1)["drop"] for seed in range(200)]
    every = [load("top_k_drop")(with_scores(case, unit), k=1)["drop"] for unit in np.eye(24)]
    np.testing.assert_allclose(
        sorted({round(drop, 9) for drop in drops}), sorted(np.round(every, 9)), atol=1e-8
    )
    assert abs(np.mean(drops) - np.mean(every)) < 4 * np.std(every) / np.sqrt(200)


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
