"""All-scale fidelity, LDS, soft metrics, NAOPC and deletion by masks: known values and floors."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import slalom
from planted_cases import TEXT, WORDS, planted_case, planted_output, truthful, with_scores
from slalom.data.dataset import Document
from slalom.evaluate.protocol import Case, NotApplicable, make_case
from slalom.evaluate.protocols import all_scales, deletion, eraser, naopc
from slalom.evaluate.protocols.deletion import kept_lowest
from slalom.models.target import choose_target
from slalom.surrogate import Additive
from zoo import tiny

RNG = np.random.default_rng


def true_case(text: str = TEXT) -> Case:
    case = planted_case(text=text)
    return replace(case, explanation=truthful(case))


def random_scores(case: Case, count: int) -> list[Case]:
    rng = RNG(9)
    return [with_scores(case, rng.standard_normal(len(case.explanation))) for _ in range(count)]


# all-scale fidelity


def test_the_truth_predicts_copies_of_every_size():
    found = all_scales.measure(true_case())
    assert found == pytest.approx({"r2": 1.0, "r2_short": 1.0, "r2_middle": 1.0, "r2_long": 1.0}, abs=1e-6)


def test_copies_are_of_all_sizes_and_the_answers_are_the_models():
    case = true_case()
    found = all_scales.fidelity(case.ask, case.explanation)
    assert (found.sizes.min(), found.sizes.max()) == (1, 23)
    assert np.median(found.sizes) == pytest.approx(np.sqrt(24), abs=1.5), "log-uniform"
    keep = RNG(0).random((5, 24)) < 0.5
    told = all_scales.predicted(case.explanation, keep, np.zeros(5), None)
    np.testing.assert_allclose(told, [planted_output(np.flatnonzero(row)) for row in keep], atol=1e-9)


def test_additive_explanations_are_given_the_best_shift_and_gain_but_no_other_sign():
    case = planted_case()
    truth = RNG(1).normal(size=24)
    told = [with_scores(case, scale * truth) for scale in (1.0, 7.0)]
    surrogate = replace(told[0].explanation, surrogate=Additive(3 * truth, np.array([5.0])))
    told.append(replace(told[0], explanation=surrogate))
    numbers = [all_scales.measure(each)["r2"] for each in told]
    assert numbers == pytest.approx([numbers[0]] * 3, abs=1e-12)
    sums = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(all_scales.best_line(sums, 4 * sums - 1), 4 * sums - 1)
    np.testing.assert_allclose(all_scales.best_line(-sums, sums), np.full(3, 2.0))


def test_sizes_whose_answers_hardly_vary_have_no_r2():
    """Of such a size any prediction is wrong by a multiple of nothing: one text would decide the mean."""
    sizes = np.repeat([2.0, 12.0, 60.0], 20)
    truth = RNG(2).normal(size=60)
    for spread, judged in (
        (0.02, False),
        (0.05, True),
    ):  # 0.02² is below a thousandth of the whole, 0.05² not
        hardly = np.where(sizes == 60.0, 3.0 + spread * truth, truth)
        found = all_scales.CopiesFidelity(hardly, hardly + 0.1, sizes, 64).bands()
        assert set(found) == {"r2_short", "r2_middle", "r2_long"} - (set() if judged else {"r2_long"})
        assert min(found.values()) > -30.0


def test_random_scores_predict_nothing_at_any_scale():
    found = [all_scales.measure(each)["r2"] for each in random_scores(planted_case(), 40)]
    assert min(found) >= 0.0
    assert np.mean(found) < 0.1


def test_short_and_constant_texts_are_not_judged():
    with pytest.raises(NotApplicable, match="fewer than 4"):
        all_scales.measure(planted_case(text="w0 w1 w2"))
    with pytest.raises(NotApplicable, match="same of all copies"):
        all_scales.measure(planted_case(text="w1 w1 w1 w1 w1 w1"))


# LDS


def test_lds_of_the_truth_is_one_and_of_random_scores_zero():
    assert all_scales.measure_lds(true_case())["spearman"] == pytest.approx(1.0, abs=1e-6)
    found = [all_scales.measure_lds(each)["spearman"] for each in random_scores(planted_case(), 100)]
    assert abs(np.mean(found)) < 4 * np.std(found) / 10


def test_halves_are_halves_and_the_score_is_spearmans():
    keep = all_scales.halves(30, 128, 0)
    assert 0.4 < keep.mean() < 0.6
    assert all_scales.lds(np.array([1.0, 2.0, 9.0]), np.array([0.0, 5.0, 6.0])) == pytest.approx(1.0)
    assert all_scales.lds(np.zeros(3), np.array([0.0, 5.0, 6.0])) == 0.0


# soft metrics


@settings(deadline=None, derandomize=True, database=None, max_examples=50)
@given(st.lists(st.floats(-50, 50), min_size=2, max_size=30), st.floats(0.1, 0.9), st.floats(0.001, 1000))
def test_every_method_keeps_the_same_share_whatever_its_scale(scores, share, scale):
    given_scores = np.array(scores)
    kept = eraser.keeping(given_scores, share)
    assert kept.mean() == pytest.approx(share, abs=1e-9)
    assert (np.diff(kept[np.argsort(given_scores, kind="stable")]) >= -1e-12).all()
    if np.std(given_scores) > 1e-6:
        np.testing.assert_allclose(eraser.keeping(scale * given_scores + 3, share), kept, atol=1e-6)


def test_soft_metrics_are_expectations_of_the_formula():
    case = true_case()
    kept = eraser.keeping(case.explanation.share, 0.5)
    drawn = RNG([0, 0x50F7]).random((64, 24))
    whole = expit(planted_output(np.arange(24)))
    alone = [whole - expit(planted_output(np.flatnonzero(row))) for row in drawn < kept]
    without = [whole - expit(planted_output(np.flatnonzero(row))) for row in drawn < 1 - kept]
    found = eraser.measure_soft(case)
    expected = {"comprehensiveness": np.mean(without), "sufficiency": np.mean(alone)}
    assert found == pytest.approx(expected, abs=1e-6)
    assert found["comprehensiveness"] > 0.1 > found["sufficiency"]


def test_random_scores_keep_and_lose_alike():
    found = [eraser.measure_soft(each, draws=16) for each in random_scores(planted_case(), 60)]
    gap = np.array([each["comprehensiveness"] - each["sufficiency"] for each in found])
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(60)


# NAOPC

SHORT = " ".join(WORDS[:6])


def mean_losses(n: int) -> dict[tuple[int, ...], float]:
    whole = expit(planted_output(np.arange(n)))

    def lost(order: tuple[int, ...]) -> float:
        return float(
            np.mean([whole - expit(planted_output(np.array(sorted(order[k:])))) for k in range(1, n)])
        )

    return {order: lost(order) for order in permutations(range(n))}


def test_the_bounds_are_those_of_all_orders():
    case, losses = planted_case(text=SHORT), mean_losses(6)
    target = choose_target(case.ask.model, 1, case.ask.whole())
    expected = (min(losses.values()), max(losses.values()))
    assert naopc.bounds(case.ask, target) == pytest.approx(expected, abs=1e-6)
    beam = naopc.bounds(case.ask, target, exact=2)
    assert expected[0] - 1e-6 <= beam[0] <= beam[1] <= expected[1] + 1e-6
    wide = naopc.bounds(case.ask, target, exact=2, beam=1000)
    assert wide == pytest.approx(expected, abs=1e-6)


def test_the_best_order_has_one_the_worst_zero_and_chance_lies_between():
    case, losses = planted_case(text=SHORT), mean_losses(6)
    best, worst = max(losses, key=lambda o: losses[o]), min(losses, key=lambda o: losses[o])
    for order, expected in ((best, 1.0), (worst, 0.0)):
        scores = np.zeros(6)
        scores[list(order)] = np.arange(6, 0, -1)
        found = naopc.measure(with_scores(case, scores))
        assert found["naopc"] == pytest.approx(expected, abs=1e-6)
    span = max(losses.values()) - min(losses.values())
    chance = (np.mean(list(losses.values())) - min(losses.values())) / span
    drawn = [naopc.measure(each)["naopc"] for each in random_scores(case, 60)]
    assert np.mean(drawn) == pytest.approx(chance, abs=4 * np.std(drawn) / np.sqrt(60))


def test_the_beam_beats_every_method_and_long_texts_are_left_out():
    found = naopc.measure(true_case())
    assert 0.9 < found["naopc"] <= 1.0
    assert 0.0 <= found["reverse"] < 0.1
    with pytest.raises(NotApplicable, match="more than 20 tokens"):
        naopc.measure(planted_case(), longest=20)


# deletion with masks and other words


@pytest.fixture(scope="module")
def masked_case() -> Case:
    model, tokenizer = tiny("bert")
    explainer = slalom.Explainer(model, tokenizer)
    text = "the movie was great but the plot was slow and the end was dull"
    return make_case(explainer, Document(text), method="occlusion")


def test_a_masked_copy_is_the_text_with_masks_in_it(masked_case: Case):
    model, tokenizer = tiny("bert")
    case, n = masked_case, len(masked_case.explanation)
    order = np.argsort(-case.explanation.score(), kind="stable")
    ids = tokenizer(str(case.document.text), return_tensors="pt")["input_ids"]
    losses = []
    for kept in range(5, n, 5):
        masked = ids.clone()
        masked[0, 1 + torch.tensor(order[: n - kept].copy())] = tokenizer.mask_token_id
        with torch.no_grad():
            chances = torch.softmax(model.eval()(masked).logits[0].double(), 0)
        losses.append(1 - float(chances[case.explanation.labels.index(case.explanation.target)]))
    found = deletion.measure_modes(case)
    assert found["mask"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert found["drop"] == deletion.measure(case)["aopc"]
    assert found["replace"] != found["mask"]
    assert deletion.measure_modes(case) == found, "replacements come from the seed"


def test_what_is_kept_is_the_end_of_the_order():
    order = np.array([2, 0, 3, 1, 4, 5])
    np.testing.assert_array_equal(kept_lowest(order, 2), [[0, 0, 0, 0, 1, 1], [0, 1, 0, 1, 1, 1]])


def test_masks_are_a_protocol_of_their_own_for_models_that_know_them(masked_case: Case):
    with pytest.raises(NotApplicable, match="not trained on masked text"):
        deletion.measure_masked(masked_case)
    config = masked_case.ask.model.module.config  # pyright: ignore[reportAttributeAccessIssue]
    config.trained_on_masked_text = True
    try:
        found = deletion.measure_masked(masked_case)
    finally:
        del config.trained_on_masked_text
    assert found["aopc"] == deletion.measure_modes(masked_case)["mask"]


def test_a_function_over_texts_has_no_masks():
    def answer(texts: list[str]) -> list[list[float]]:
        return [[0.5, len(text) / 100] for text in texts]

    explainer = slalom.Explainer(answer, labels=["a", "b"], output="logits")
    case = make_case(explainer, Document("one two three four five six seven"), method="occlusion")
    with pytest.raises(NotApplicable, match="asked about texts"):
        deletion.measure_modes(case)
