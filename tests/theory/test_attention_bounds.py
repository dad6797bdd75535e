"""Attention bounds what a removal does, and may be another at equal output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.errors import InputError
from slalom.theory.bounds import (
    certified_removals,
    divergence,
    furthest_attention,
    removal_bounds,
    removal_effect,
    removal_effects,
)
from slalom.theory.layer import layer, look
from theory_layers import ids_of, make

TEXT = "a good film with a very good cast"
KINDS: list[dict[str, Any]] = [{}, {"skip": True}, {"num_attention_heads": 1}, {"positions": False}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_effects_are_those_of_the_model_and_within_their_bounds(kind: dict[str, Any]) -> None:
    model, tokenizer = make(**kind)
    ids = ids_of(tokenizer, TEXT)
    seen = look(layer(model), ids)
    effects, bounds = removal_effects(seen), removal_bounds(seen)
    rng = np.random.default_rng(0)
    sets = [[t] for t in range(1, len(ids))]
    sets += [
        rng.choice(np.arange(1, len(ids)), size=rng.integers(2, 7), replace=False).tolist() for _ in range(30)
    ]
    for gone in sets:
        mask = torch.ones(1, len(ids))
        mask[0, gone] = 0
        with torch.no_grad():
            without = model(input_ids=torch.tensor([ids]), attention_mask=mask).logits[0, 1].item()
        effect = removal_effect(seen, gone)
        assert effect == pytest.approx(seen.output - without, abs=1e-12)
        assert abs(effect) <= bounds[np.array(gone) - 1].sum() + 1e-12
        if len(gone) == 1:
            assert effects[gone[0] - 1] == pytest.approx(effect, abs=1e-12)


def test_the_bound_is_reached_by_a_token_that_alone_says_the_opposite() -> None:
    """One head, all others at one end of the range: then the bound is the effect."""
    seen = look(layer(make(num_attention_heads=1, positions=False)[0]), [2, 5, 5, 5, 9])
    values = np.array([[1.0, 1.0, 1.0, 1.0, -1.0]])
    told = type(seen)(
        seen.layer, seen.embeddings, seen.readers, seen.queries, seen.keys, values, seen.attention
    )
    assert removal_bounds(told)[3] == pytest.approx(-removal_effects(told)[3], abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_certified_removals_hold_whichever_tokens_go(seed: int) -> None:
    model, _ = make(seed=seed)
    rng = np.random.default_rng(seed)
    seen = look(layer(model), [2, *rng.integers(3, 19, size=15)])
    safe = certified_removals(seen)
    assert 0 <= safe <= 15
    for _ in range(200):
        gone = rng.choice(np.arange(1, 16), size=min(safe, 15), replace=False)
        assert np.sign(seen.output - removal_effect(seen, gone)) == np.sign(seen.output)


def test_what_asks_cannot_go() -> None:
    seen = look(layer(make()[0]), [2, 5, 9])
    with pytest.raises(InputError, match="asks"):
        removal_effect(seen, [0])
    with pytest.raises(InputError, match="between 1 and 2"):
        removal_effect(seen, [3])
    with pytest.raises(InputError, match="read-out"):
        removal_bounds(look(layer(make(read_out="mean")[0]), [2, 5]))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.5]))
def test_three_tokens_against_a_fine_grid(seed: int, tolerance: float) -> None:
    """All weights of three tokens whose output stays within the tolerance, on a grid that has the corners."""
    rng = np.random.default_rng(seed)
    alpha, v = softmax(rng.normal(size=3)), rng.normal(size=3)
    output = float(alpha @ v)
    best = 0.0
    for level in np.linspace(max(output - tolerance, v.min()), min(output + tolerance, v.max()), 21):
        low, middle, high = np.argsort(v)
        # All mixtures at this level lie between the two that leave one token out.
        ends = []
        for i, j in ((low, high), (low, middle), (middle, high)):
            if v[i] <= level <= v[j]:
                share = (v[j] - level) / (v[j] - v[i])
                ends.append(np.eye(3)[i] * share + np.eye(3)[j] * (1 - share))
        for x in np.linspace(0, 1, 11):
            best = max(best, divergence(alpha, x * ends[0] + (1 - x) * ends[-1]))
    found = furthest_attention(alpha, v, tolerance)
    assert found.divergence == pytest.approx(divergence(alpha, found.attention), abs=1e-12)
    assert abs(found.attention @ v - output) <= tolerance + 1e-12
    assert found.divergence >= best - 1e-12
    if tolerance == 0.0:
        assert found.divergence == pytest.approx(best, abs=1e-8)


def test_no_random_weights_at_equal_output_are_further() -> None:
    rng = np.random.default_rng(1)
    alpha, v = softmax(rng.normal(size=12)), rng.normal(size=12)
    output = alpha @ v
    found = furthest_attention(alpha, v)
    assert np.count_nonzero(found.attention) <= 2
    assert found.attention @ v == pytest.approx(output, abs=1e-12)
    assert found.distance == pytest.approx(np.abs(found.attention - alpha).sum() / 2)
    for _ in range(2000):
        one = rng.dirichlet(np.full(12, 0.2))
        other = rng.dirichlet(np.full(12, 0.2))
        a, b = one @ v - output, other @ v - output
        if a * b < 0:
            mixed = (one * b - other * a) / (b - a)
            assert divergence(alpha, mixed) <= found.divergence + 1e-12


def test_equal_values_leave_attention_free_and_one_token_leaves_it_none() -> None:
    free = furthest_attention(np.array([0.7, 0.2, 0.1]), np.ones(3))
    np.testing.assert_array_equal(free.attention, [0, 0, 1])
    assert furthest_attention(np.ones(1), np.array([2.0])).divergence == 0.0
    wide = furthest_attention(np.array([0.7, 0.2, 0.1]), np.array([1.0, 2.0, 3.0]), tolerance=10.0)
    np.testing.assert_array_equal(wide.attention, [0, 0, 1])
    with pytest.raises(InputError, match="tolerance"):
        furthest_attention(np.ones(1), np.ones(1), -1.0)
