"""Pairwise interactions of a SLALOM: the closed form beside the sum over all coalitions."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slalom
from handmade import heads_explanation, slalom_explanation
from slalom.errors import InputError, MissingExtraError
from slalom.interactions import (
    by_enumeration,
    interaction_index,
    interactions,
    pairs_in_text,
    strongest_in_text,
    strongest_pairs,
)
from slalom.outside import shapiq_interactions, shapiq_pairs
from slalom.shapley import shapley_values
from slalom.surrogate import Additive, Heads, Slalom
from slalom.view.html import render

EXAMPLES = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def worth(game: Slalom):
    """The game of a SLALOM; nothing at all is worth 0, as for its Shapley values."""

    def values(masks: np.ndarray) -> np.ndarray:
        found = np.zeros(len(masks))
        some = masks.any(axis=1) | (game.background_importance > -np.inf)
        found[some] = game.predict(masks[some].astype(float))[:, 0]
        return found

    return values


@EXAMPLES
@given(st.integers(1, 10), st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 15.0]), st.booleans())
def test_the_closed_form_is_the_sum_over_all_coalitions(n, seed, spread, background):
    rng = np.random.default_rng(seed)
    types = rng.integers(0, n, n)  # copies share their parameters
    s, v = rng.uniform(-spread, spread, n)[types], rng.normal(scale=5, size=n)[types]
    s0 = float(rng.uniform(-spread, spread)) if background else -np.inf
    slalom = Slalom(v, s, np.array([rng.normal()]) if background else np.zeros(1), s0)
    np.testing.assert_allclose(interactions(slalom), by_enumeration(worth(slalom), n), atol=1e-10, rtol=0)


def test_two_tokens_by_hand():
    """n = 2: the only coalition is the empty one, so the index is F(ab) − F(a) − F(b)."""
    found = interaction_index(np.log([1.0, 3.0]), np.array([2.0, -1.0]))
    together = (2.0 * 1 - 1.0 * 3) / 4
    assert found[0, 1, 0] == pytest.approx(together - 2.0 + 1.0, abs=1e-12)
    assert found[0, 0, 0] == found[1, 1, 0] == 0.0


def test_every_output_has_its_own_and_they_are_symmetric():
    rng = np.random.default_rng(2)
    s, v = rng.normal(size=40), rng.normal(size=(40, 3))
    found = interaction_index(s, v, 0.5, np.array([1.0, 0.0, -1.0]))
    np.testing.assert_allclose(found, np.swapaxes(found, 0, 1), atol=1e-13)
    alone = interaction_index(s, v[:, 1], 0.5, np.zeros(1))
    np.testing.assert_allclose(found[:, :, 1], alone[:, :, 0], atol=1e-12)


def test_they_tell_how_shapley_values_change_when_a_token_comes():
    """The index of i and j is φ_i where j always stands, less φ_i where it never does."""
    rng = np.random.default_rng(3)
    s, v, s0, v0 = rng.normal(size=30), rng.normal(size=(30, 1)), 0.2, np.array([0.4])
    index = interaction_index(s, v, s0, v0)[:, :, 0]
    others = np.arange(30) != 7
    joined = np.logaddexp(s0, s[7])  # a token that always stands joins the background
    mean = np.exp(s0 - joined) * v0 + np.exp(s[7] - joined) * v[7]
    present = shapley_values(s[others], v[others], joined, mean)
    absent = shapley_values(s[others], v[others], s0, v0)
    np.testing.assert_allclose((present - absent)[:, 0], index[others, 7], atol=1e-11)


def test_pairs_in_the_text_are_differences_of_four_predictions():
    for explanation in (slalom_explanation(), heads_explanation()):
        n = len(explanation)
        assert explanation.surrogate is not None
        found = pairs_in_text(explanation.surrogate, n)
        everything = np.arange(n)
        for i, j in ((0, 3), (5, 2), (8, 9)):
            expected = (
                explanation.predict(everything)
                - explanation.predict(np.delete(everything, i))
                - explanation.predict(np.delete(everything, j))
                + explanation.predict(np.delete(everything, [i, j]))
            )
            assert found[i, j] == pytest.approx(expected, abs=1e-12)
        assert not np.diag(found).any()


def test_pairs_among_some_positions_are_those_of_all():
    surrogate = heads_explanation().surrogate
    assert surrogate is not None
    among = np.array([1, 4, 6])
    whole = pairs_in_text(surrogate, surrogate.size[0])
    np.testing.assert_allclose(
        pairs_in_text(surrogate, surrogate.size[0], among), whole[np.ix_(among, among)]
    )


def test_an_explanation_names_the_words_that_work_together():
    explanation = slalom_explanation()
    assert explanation.surrogate is not None
    matrix, strings = pairs_in_text(explanation.surrogate, len(explanation)), explanation.tokens.strings
    found = explanation.interactions(3)
    assert found == [(strings[i], strings[j], effect) for i, j, effect in strongest_pairs(matrix, 3)]
    (i, j, effect), *_ = strongest_pairs(matrix, 1)
    removal = explanation.removal
    without = explanation.predict(np.delete(np.arange(len(explanation)), [i, j]))
    both = explanation.predict(np.arange(len(explanation))) - without
    assert removal[i] + removal[j] - effect == pytest.approx(both, abs=1e-9)
    with pytest.raises(InputError, match="fits no surrogate"):
        replace(explanation, surrogate=None).interactions()


def test_two_words_are_no_pair_that_could_be_left_out():
    assert slalom.explain("awful film").interactions() == []


def test_an_additive_surrogate_knows_of_no_pairs():
    """What its predictions leave of a pair is rounding: 8.9e-16 and the like."""
    weights = np.array([0.1, 0.7, -0.3, 1e3, 1 / 3])
    assert pairs_in_text(Additive(weights, np.array([0.1])), 5).any(), "rounding"
    assert strongest_in_text(Additive(weights, np.array([0.1])), np.abs(weights), 5) == []
    assert slalom.explain("not a good film at all", method="lime", budget=60).interactions() == []


def test_the_report_shows_pairs_where_the_surrogate_can_be_relied_on():
    explanation = replace(heads_explanation(), fidelity={"r2": 0.99, "r2_low": 0.98, "r2_high": 0.995})
    first, second, effect = explanation.interactions(1)[0]
    page = render(explanation)
    section = page[page.index('class="card pairs"') :].split("</section>")[0]
    assert f"<bdi>{first}</bdi> · <bdi>{second}</bdi>" in section
    assert f"{abs(effect):.2f}</td></tr>" in section
    assert 'class="card pairs"' not in render(replace(explanation, fidelity={"r2": 0.1}))
    assert 'class="card pairs"' not in render(replace(explanation, surrogate=None))


def test_heads_add_up_and_nothing_works_together_in_an_additive_model():
    surrogate = heads_explanation().surrogate
    assert isinstance(surrogate, Heads)
    own = [interactions(part) for part in surrogate.parts]
    np.testing.assert_allclose(interactions(surrogate), surrogate.scale() * sum(own), atol=1e-12)
    additive = Additive(np.arange(4.0), np.zeros(1))
    assert not interactions(additive).any()
    np.testing.assert_allclose(pairs_in_text(additive, 4), 0.0, atol=1e-12)


def test_the_strongest_pairs_come_first():
    matrix = np.array([[0.0, 1.0, -3.0], [1.0, 0.0, 2.0], [-3.0, 2.0, 0.0]])
    assert strongest_pairs(matrix, 2) == [(0, 2, -3.0), (1, 2, 2.0)]


def test_edges():
    assert interaction_index(np.zeros(1), np.ones(1)).shape == (1, 1, 1)
    with pytest.raises(InputError, match="finite"):
        interaction_index(np.array([0.0, np.nan]), np.ones(2))
    with pytest.raises(InputError, match="up to 12"):
        by_enumeration(lambda masks: masks.sum(axis=1), 13)


def test_pairs_of_shapiq_are_the_weighted_regression_over_all_coalitions():
    """Its index of order two: least squares with Shapley's kernel, exact for nothing and for everything."""
    pytest.importorskip("shapiq")
    n, rng = 6, np.random.default_rng(0)
    masks = np.array(list(product([False, True], repeat=n)))
    worth = np.r_[0.0, rng.normal(size=len(masks) - 1)]
    found = shapiq_pairs(lambda keep: worth[keep @ 2 ** np.arange(n)[::-1]], n, 2**n)
    first, second = np.triu_indices(n, 1)
    sizes, columns = masks.sum(axis=1), np.c_[masks, masks[:, first] & masks[:, second]].astype(float)
    weights = np.array([1 / (comb(n, s) * s * (n - s)) if 0 < s < n else 1e7 for s in sizes])
    root = np.sqrt(weights)
    fitted = np.linalg.lstsq(columns * root[:, None], worth * root, rcond=None)[0]
    np.testing.assert_allclose(found[first, second], fitted[n:], atol=1e-4)
    np.testing.assert_array_equal(found, found.T)


def test_shapiq_finds_the_pair_that_a_model_joins():
    """A function that says yes to one pair of words alone: additive in all others."""
    pytest.importorskip("shapiq")

    def scores(texts: list[str]) -> list[float]:
        words = [text.split() for text in texts]
        return [3.0 * ("not" in one and "good" in one) - 0.5 * len(one) for one in words]

    model = slalom.Explainer(scores, labels=["no", "yes"]).model
    text = "not a very good film"
    (first, second, together), *others = shapiq_interactions(model, text, target="yes", budget=32)
    assert (first, second) == ("not", "good")
    assert together == pytest.approx(3.0, abs=1e-3)
    assert max(abs(effect) for *_, effect in others) < 1e-3
    assert shapiq_interactions(model, "good", target="yes") == []


def test_without_shapiq_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "shapiq", None)
    with pytest.raises(
        MissingExtraError, match=r"needs shapiq; install it with: pip install 'slalom-xai\[bench\]'"
    ):
        shapiq_pairs(lambda keep: np.zeros(len(keep)), 3, 8)
