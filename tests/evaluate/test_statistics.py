"""Means, sign-flip tests and who is best or tied, beside scipy and simulations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from slalom.errors import InputError
from slalom.evaluate.statistics import (
    DRAWS,
    best_or_tied,
    bootstrap,
    compared,
    detectable,
    least_documents,
    paired,
    sign_flips,
    summary,
)

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


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


def test_the_interval_is_students_and_the_test_turns_with_its_sides():
    rng = np.random.default_rng(1)
    a = rng.gamma(2.0, size=40)
    b = a - 0.3 + rng.standard_normal(40)
    found, back = paired(a, b), paired(b, a)
    other = stats.ttest_rel(a, b).confidence_interval()
    assert found.difference == pytest.approx((a - b).mean())
    assert (found.low, found.high) == pytest.approx((other.low, other.high))
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))
    assert back.p == found.p == paired(a, b).p, "it is seeded"
    assert paired(a, b, seed=3) != found


def hall(gaps: np.ndarray, axis: int = -1) -> np.ndarray:
    """Hall's t from scipy's moments; over documents, so without a factor √n."""
    ratio, skewness = gaps.mean(axis=axis) / gaps.std(axis=axis), stats.skew(gaps, axis=axis)
    skewed = skewness * ratio**2 / 3 + skewness**2 * ratio**3 / 27
    return ratio + skewed + skewness / (6 * gaps.shape[axis])


def test_p_is_scipys_permutation_test_where_all_flips_are_taken():
    rng = np.random.default_rng(2)
    a, b = rng.random(9), rng.random(9)
    other = stats.permutation_test(
        (a, b), lambda x, y: hall(x - y), permutation_type="samples", n_resamples=10_000
    )
    assert sign_flips((a - b)[:, None])[0] == pytest.approx(other.pvalue)


def test_the_bootstrap_is_halls():
    rng = np.random.default_rng(12)
    gaps = 0.4 + rng.gamma(1.0, size=20) - 1.0
    samples = rng.choice(gaps, (4000, 20)) - gaps.mean()
    p = np.mean(np.abs(hall(samples)) >= abs(hall(gaps)))
    assert bootstrap(gaps[:, None])[0] == pytest.approx(p, abs=4 * np.sqrt(2 * p / 4000))


def test_pairing_finds_what_the_spread_of_documents_hides():
    rng = np.random.default_rng(3)
    documents = 10 * rng.standard_normal(50)
    a, b = documents + 0.1 + 0.05 * rng.standard_normal(50), documents
    assert paired(a, b).p < 0.001
    assert paired(a, rng.permutation(b)).p > 0.05


def test_equal_methods_do_not_differ_and_p_has_a_floor():
    assert paired([1.0, 2.0], [1.0, 2.0]).p == 1.0
    assert sign_flips(np.array([[1.0], [1.0], [1.5]]))[0] == pytest.approx(1 / 4)
    assert paired([2.0, 3.0, 4.5], [1.0, 2.0, 3.0]).p > 0.05
    assert paired([2.0], [1.0]).p == 1.0
    assert least_documents() == 6
    assert 2.0 ** -(least_documents() - 1) <= 0.05 < 2.0 ** -(least_documents() - 2)


def test_different_documents_are_refused():
    with pytest.raises(InputError, match="same documents; got 2 and 1"):
        paired([1.0, 2.0], [1.0])


@settings(deadline=None, derandomize=True, database=None, max_examples=10)
@given(st.integers(0, 10**6), st.integers(6, 8), st.integers(2, 5))
def test_the_level_is_exact_over_the_flips_of_any_numbers(seed, documents, methods):
    """Whatever the numbers: of all ways to flip them, at most 5 % show any difference in any pair."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_t(2, size=(documents, methods))
    first, second = np.triu_indices(methods, 1)
    gaps = numbers[:, first] - numbers[:, second]
    signs = np.array(list(product([1.0, -1.0], repeat=documents)))
    shown = [sign_flips(sign[:, None] * gaps).min() <= 0.05 for sign in signs[: len(signs) // 2]]
    assert 0 < np.mean(shown) <= 0.05


def skewed(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Equal means, but skewed noise, and a spread of 0.2 to 3: differences are skewed, too."""
    return (rng.gamma(1.0, size=size) - 1.0) * np.linspace(0.2, 3.0, size[1])


def shown(documents: int, noise: Noise, count: int, test: Callable[..., np.ndarray]) -> float:
    """The share of simulations in which some pair of eight equal methods is said to differ."""
    rng = np.random.default_rng(4)
    first, second = np.triu_indices(8, 1)
    found = 0
    for seed in range(count):
        numbers = rng.standard_normal((documents, 1)) + noise(rng, (documents, 8))
        gaps = numbers[:, first] - numbers[:, second]
        found += bool(test(gaps, draws=200, seed=seed).min() <= 0.05)
    return found / count


@pytest.mark.parametrize("documents", [6, 10, 30, 100])
def test_among_eight_equal_methods_five_per_cent_show_a_difference(documents: int):
    """5 % ± 2, and what 300 simulations add to it (two standard errors of 1.3 %).

    The whole simulation, with other distributions, is `benchmarks/statistics_level.py`.
    """
    assert 0.005 < shown(documents, np.random.Generator.standard_normal, 300, compared) < 0.095


@pytest.mark.parametrize(("documents", "most"), [(6, 0.11), (10, 0.11), (30, 0.095), (100, 0.095)])
def test_skewed_noise_of_unequal_spread_hardly_costs_the_level(documents: int, most: float):
    """About 8, 8, 6 and 5 %, and what 200 simulations add to it."""
    assert shown(documents, skewed, 200, compared) < most


def test_sign_flips_alone_do_not_hold_for_it():
    """Why there are two tests."""
    assert shown(10, skewed, 200, sign_flips) > 0.08 > shown(10, skewed, 200, bootstrap)
    assert shown(16, skewed, 200, sign_flips) > 0.07 > shown(16, skewed, 200, bootstrap)


def test_what_documents_can_show_is_told():
    rng = np.random.default_rng(9)
    first, second = np.triu_indices(4, 1)
    numbers = rng.standard_normal((200, 4))
    gaps = numbers[:, first] - numbers[:, second]
    from_sizes = [detectable(gaps[:n], draws=1000) for n in (8, 20, 200)]
    assert from_sizes == sorted(from_sizes, reverse=True)
    # the largest of six |t| stays below 2.6 in 95 % (Tukey's range of four means / √2)
    assert from_sizes[-1] == pytest.approx(2.6 / np.sqrt(200), rel=0.1)
    moved = gaps[:, :1] - gaps[:, :1].mean() + 1.1 * from_sizes[-1] * gaps[:, 0].std()
    assert bootstrap(np.concatenate([moved, gaps[:, 1:]], axis=1))[0] <= 0.05


def test_the_difference_of_one_pair_does_not_hide_behind_the_others():
    """Step-down: what is decided no longer counts among the pairs that are compared."""
    rng = np.random.default_rng(8)
    base = rng.standard_normal((40, 1))
    gaps = np.concatenate([base + 5.0, 0.3 * base + 0.1 + 0.2 * rng.standard_normal((40, 1))], axis=1)
    together, alone = sign_flips(gaps), sign_flips(gaps[:, 1:])
    assert together[0] == pytest.approx(1 / DRAWS)
    assert together[1] == pytest.approx(alone[0])


def test_a_pair_that_differs_on_two_documents_does_not_hide_the_others():
    rng = np.random.default_rng(11)
    clear, rare = 1.0 + rng.standard_normal(60), np.zeros(60)
    rare[[3, 40]] = 0.2
    found = compared(np.column_stack([clear, rare, clear - rare]))
    assert found[0] <= 0.05
    assert found[2] <= 0.05
    assert found[1] > 0.05


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
    assert found.comparisons == 3
    assert found.worse == ("behind",)
    assert found.detectable < 1
    assert found.documents == 60
    assert found.differences["behind"].difference == pytest.approx(0.5, abs=0.1)
    assert best_or_tied(scores, "low").tied == ("behind",)


def test_p_values_are_adjusted_for_all_pairs_but_copies_cost_nothing():
    rng = np.random.default_rng(6)
    base = rng.random(30)
    gap = 0.2 + 0.5 * rng.standard_normal(30)
    scores = {"top": by_document(base), "near": by_document(base - gap)}
    alone = best_or_tied(scores).differences["near"].p
    crowd = {f"m{i}": by_document(base - 0.1 + 0.5 * rng.standard_normal(30)) for i in range(9)}
    copies = {f"m{i}": by_document(base - gap) for i in range(9)}
    assert best_or_tied(scores | crowd).differences["near"].p > alone
    assert best_or_tied(scores | copies).differences["near"].p == pytest.approx(alone)
    assert best_or_tied(scores | crowd).comparisons == 55


def test_documents_that_a_method_lacks_are_left_out_of_its_pair():
    scores = {
        "a": {"x": 1.0, "y": 3.0, "z": 5.0},
        "b": {"x": 0.0, "y": 1.0, "z": 2.0},
        "c": {"x": 0.5, "y": 0.5},
    }
    found = best_or_tied(scores)
    assert found.leader == "a"
    assert found.documents == 2
    assert found.detectable == np.inf
    assert found.worse == ()
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


def test_a_difference_that_is_the_same_everywhere_is_one_and_hides_no_other():
    wiggle = np.linspace(-0.3, 0.3, 12)
    same = np.full(12, 0.7) + 0.1 - 0.1 * np.ones(12)
    first, second = compared(np.column_stack([same, 0.5 + wiggle]))
    assert first < 0.01
    assert second < 0.01
