"""Means, paired bootstrap and who is best or tied, beside scipy and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from slalom.errors import InputError
from slalom.evaluate.statistics import best_or_tied, holm, paired_bootstrap, summary


def test_mean_and_standard_error_are_scipys():
    values = np.random.default_rng(0).gamma(2.0, size=37)
    found = summary(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.stderr == pytest.approx(stats.sem(values))
    assert found.n == 37
    assert np.isnan(summary([1.0]).stderr)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf]])
def test_what_is_no_number_is_refused(values):
    with pytest.raises(InputError, match="finite"):
        summary(values)


def test_the_interval_is_that_of_scipys_percentile_bootstrap():
    rng = np.random.default_rng(1)
    a = rng.gamma(2.0, size=40)
    b = a - 0.3 + rng.standard_normal(40)
    found = paired_bootstrap(a, b)
    other = stats.bootstrap(
        (a - b,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert found.difference == pytest.approx((a - b).mean())
    spread = stats.sem(a - b)
    assert found.low == pytest.approx(other.low, abs=0.1 * spread)
    assert found.high == pytest.approx(other.high, abs=0.1 * spread)


def test_it_is_seeded_and_turns_with_its_sides():
    rng = np.random.default_rng(2)
    a, b = rng.random(20), rng.random(20)
    assert paired_bootstrap(a, b, seed=3) == paired_bootstrap(a, b, seed=3)
    assert paired_bootstrap(a, b, seed=3) != paired_bootstrap(a, b, seed=4)
    there, back = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert there.difference == pytest.approx(-back.difference)
    assert there.low == pytest.approx(-back.high)
    assert there.p == pytest.approx(back.p)


def test_pairing_finds_what_the_spread_of_documents_hides():
    rng = np.random.default_rng(3)
    documents = 10 * rng.standard_normal(50)
    a, b = documents + 0.1 + 0.05 * rng.standard_normal(50), documents
    assert paired_bootstrap(a, b).p < 0.001
    assert paired_bootstrap(a, rng.permutation(b)).p > 0.05


def test_equal_methods_do_not_differ_and_p_has_a_floor():
    assert paired_bootstrap([1.0, 2.0], [1.0, 2.0]).p == 1.0
    assert paired_bootstrap([2.0, 3.0], [1.0, 2.0], samples=99).p == pytest.approx(2 / 100)


def test_under_no_difference_the_level_is_kept():
    rng = np.random.default_rng(4)
    found = [paired_bootstrap(rng.random(40), rng.random(40), samples=400).p <= 0.05 for _ in range(400)]
    assert 0.02 < np.mean(found) < 0.09


def test_different_documents_are_refused():
    with pytest.raises(InputError, match="same documents; got 2 and 1"):
        paired_bootstrap([1.0, 2.0], [1.0])


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_holm_is_its_definition(values):
    given_p = {str(i): p for i, p in enumerate(values)}
    found = holm(given_p)
    ranked = sorted(values)
    for name, p in given_p.items():
        below = [i for i, other in enumerate(ranked) if other <= p]
        assert found[name] == pytest.approx(max(min(1.0, (len(values) - i) * ranked[i]) for i in below))
        assert p <= found[name] <= min(1.0, len(values) * p)


def by_document(numbers: np.ndarray) -> dict[str, float]:
    return {f"d{i}": float(x) for i, x in enumerate(numbers)}


def test_the_top_is_named_with_those_that_cannot_be_told_from_it():
    rng = np.random.default_rng(5)
    base = rng.random(60)
    scores = {
        "behind": by_document(base - 0.5 + 0.1 * rng.standard_normal(60)),
        "one": by_document(base + 0.1 * rng.standard_normal(60)),
        "two": by_document(base + 0.1 * rng.standard_normal(60)),
    }
    found = best_or_tied(scores)
    assert set(found.tied) == {"one", "two"}
    assert found.leader in found.tied
    assert found.comparisons == 2
    assert found.documents == 60
    assert found.differences["behind"].difference == pytest.approx(0.5, abs=0.1)
    assert best_or_tied(scores, "low").tied == ("behind",)


def test_p_values_are_adjusted_for_the_number_of_comparisons():
    rng = np.random.default_rng(6)
    base = rng.random(30)
    gap = 0.2 + 0.5 * rng.standard_normal(30)
    scores = {"top": by_document(base), "near": by_document(base - gap)}
    alone = best_or_tied(scores).differences["near"].p
    crowd = scores | {f"m{i}": by_document(base - gap - 1e-9 * i) for i in range(9)}
    assert best_or_tied(crowd).differences["near"].p == pytest.approx(min(1.0, 10 * alone))


def test_documents_that_a_method_lacks_are_left_out_of_its_pair():
    scores = {
        "a": {"x": 1.0, "y": 3.0, "z": 5.0},
        "b": {"x": 0.0, "y": 1.0, "z": 2.0},
        "c": {"x": 0.5, "y": 0.5},
    }
    found = best_or_tied(scores)
    assert found.leader == "a"
    assert found.documents == 2
    assert found.differences["b"].n == 3
    assert found.differences["c"].n == 2


def test_one_method_leads_and_none_is_refused():
    assert best_or_tied({"a": {"x": 1.0}}).tied == ("a",)
    with pytest.raises(InputError, match="no methods"):
        best_or_tied({})
    with pytest.raises(InputError, match="no document in common"):
        best_or_tied({"a": {"x": 1.0}, "b": {"y": 1.0}})


def test_scatter_alone_earns_no_tie():
    """As in a table where `random` was bold, and `kernel_shap`, which is better, was not."""
    rng = np.random.default_rng(5)
    base = rng.random(20)
    scores = {
        "occlusion": by_document(base),
        "kernel_shap": by_document(base + 0.1 + 0.01 * rng.standard_normal(20)),
        "random": by_document(base + 0.3 + rng.standard_normal(20)),
    }
    found = best_or_tied(scores, "low")
    means = {name: np.mean(list(own.values())) for name, own in scores.items()}
    assert means["occlusion"] < means["kernel_shap"] < means["random"]
    assert found.differences["random"].p > 0.05 > found.differences["kernel_shap"].p
    assert found.tied == ("occlusion",)
