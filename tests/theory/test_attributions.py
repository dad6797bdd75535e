"""Shapley values, occlusion, integrated gradients and SmoothGrad of one layer, without sampling."""

from __future__ import annotations

from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest
import shap
import torch
from captum.attr import IntegratedGradients
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.errors import InputError
from slalom.theory.attention_layer import AttentionLayer, sinusoids
from slalom.theory.attributions import (
    blank,
    explanations,
    integrated_gradients,
    occlusion,
    shapley,
    smoothgrad,
)
from slalom.theory.layer import Masked, gradient, layer, look, look_at, masked
from theory_layers import ids_of, make, random_document

TEXT = "a good film with a very good cast"


def enumerated_shapley(document: Masked) -> np.ndarray:
    d = document.size
    z = np.array(list(product((0.0, 1.0), repeat=d)))
    f = document.outputs(z).reshape((2,) * d)
    size = z.sum(axis=1).reshape((2,) * d).astype(int)
    weight = np.vectorize(lambda s: factorial(s) * factorial(d - 1 - s) / factorial(d) if s < d else 0.0)(
        size
    )
    return np.array(
        [
            (np.take(weight, 0, axis=j) * (np.take(f, 1, axis=j) - np.take(f, 0, axis=j))).sum()
            for j in range(d)
        ]
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 3), st.sampled_from([1e-3, 1.0, 50.0]), st.integers(0, 10**6))
def test_shapley_values_equal_enumeration(d: int, heads: int, fixed: float, seed: int) -> None:
    document = random_document(d, heads=heads, fixed=fixed, spread=2.0, seed=seed)
    np.testing.assert_allclose(shapley(document), enumerated_shapley(document), atol=1e-10)


def test_shapley_values_are_what_kernel_shap_finds_with_all_coalitions() -> None:
    document = random_document(6, heads=2)
    explainer = shap.KernelExplainer(document.outputs, np.zeros((1, 6)))
    found = explainer.shap_values(np.ones((1, 6)), nsamples=2**6, l1_reg=False, silent=True)[0]
    np.testing.assert_allclose(shapley(document), found, atol=1e-8)


def test_shapley_values_of_a_long_text_are_complete() -> None:
    document = random_document(150, heads=2)
    ends = document.outputs(np.array([np.zeros(150), np.ones(150)]))
    assert shapley(document).sum() == pytest.approx(ends[1] - ends[0], abs=1e-10)


def test_occlusion_is_the_difference_it_stands_for() -> None:
    document = random_document(20, heads=3)
    truth = document.outputs(np.ones((1, 20))) - document.outputs(1 - np.eye(20))
    np.testing.assert_allclose(occlusion(document), truth, atol=1e-12)


@pytest.mark.parametrize("kind", [{}, {"skip": True}, {"read_out": "mean"}, {"pad_to_max": True}], ids=str)
@pytest.mark.parametrize("base", ["blank", "zero", "random"])
def test_integrated_gradients_are_complete_and_those_of_captum(kind: dict[str, Any], base: str) -> None:
    model, tokenizer = make(**kind)
    weights, ids = layer(model), ids_of(tokenizer, TEXT)
    seen = look(weights, ids)
    shape = seen.embeddings.shape
    baseline = {
        "blank": blank(weights, ids),
        "zero": np.zeros(shape),
        "random": np.random.default_rng(0).normal(size=shape),
    }[base]
    found = integrated_gradients(seen, baseline)
    assert found.sum() == pytest.approx(seen.output - look_at(weights, baseline).output, abs=1e-10)
    places = sinusoids(
        shape[0], shape[1], model.config.max_position_embeddings
    ).double()  # the model adds them
    captum = IntegratedGradients(lambda e: model(inputs_embeds=e - places).logits[:, 1]).attribute(
        torch.from_numpy(seen.embeddings)[None], torch.from_numpy(baseline)[None], n_steps=200
    )
    np.testing.assert_allclose(found, captum[0].sum(dim=-1).numpy(), atol=1e-10)


def test_a_baseline_of_another_shape_or_a_tolerance_out_of_reach_is_refused() -> None:
    seen = look(layer(make()[0]), [2, 3, 4])
    with pytest.raises(InputError, match="baseline"):
        integrated_gradients(seen, np.zeros((2, 12)))
    with pytest.raises(InputError, match="256"):
        integrated_gradients(seen, np.zeros((3, 12)), tolerance=0.0)


def by_tensor_grid(model: AttentionLayer, embeddings: np.ndarray, noise: float, nodes: int) -> np.ndarray:
    """E ∇ f over all combinations of Gauss–Hermite nodes for every coordinate of every word, by autograd."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    size = embeddings[1:].size
    grid = np.stack(np.meshgrid(*[x] * size, indexing="ij"), axis=-1).reshape(-1, *embeddings[1:].shape)
    weight = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * size, indexing="ij"), axis=-1), axis=-1).ravel()
    moved = np.tile(embeddings, (len(grid), 1, 1))
    moved[:, 1:] += noise * grid
    inputs = torch.from_numpy(moved).requires_grad_()
    model(inputs_embeds=inputs).logits[:, 1].sum().backward()
    assert inputs.grad is not None
    return np.einsum("n,ntd->td", weight, inputs.grad.numpy())[1:]


@pytest.mark.parametrize("noise", [0.1, 0.4])
def test_smoothgrad_equals_a_grid_over_all_coordinates(noise: float) -> None:
    model, _ = make(hidden_size=2, num_attention_heads=2, positions=False)
    seen = look(layer(model), [2, 5, 9])
    truth = by_tensor_grid(model, seen.embeddings, noise, 13)
    np.testing.assert_allclose(smoothgrad(seen, noise), truth, atol=1e-9)


def test_smoothgrad_agrees_with_long_sampling() -> None:
    model, tokenizer = make(pad_to_max=True)
    seen = look(layer(model), ids_of(tokenizer, TEXT))
    rng, count = np.random.default_rng(0), 2000
    drawn = []
    for _ in range(count):
        moved = seen.embeddings.copy()
        moved[1:] += 0.5 * rng.normal(size=moved[1:].shape)
        drawn.append(gradient(look_at(seen.layer, moved))[1:])
    z = (np.mean(drawn, axis=0) - smoothgrad(seen, 0.5)) / (np.std(drawn, axis=0) / np.sqrt(count))
    assert np.mean(z**2) < 2
    assert np.abs(z).max() < 5.5


def test_smoothgrad_without_noise_is_the_gradient() -> None:
    seen = look(layer(make(skip=True)[0]), [2, 5, 9, 5])
    np.testing.assert_allclose(smoothgrad(seen, 0.0), gradient(seen)[1:], atol=1e-12)
    with pytest.raises(InputError, match="read-out"):
        smoothgrad(look(layer(make(read_out="mean")[0]), [2, 5]), 0.1)
    with pytest.raises(InputError, match="noise"):
        smoothgrad(seen, -1.0)


def test_explanations_side_by_side() -> None:
    model, tokenizer = make(skip=True)
    weights, ids = layer(model), ids_of(tokenizer, TEXT)
    found = explanations(weights, ids, bandwidth=0.25)
    assert all(row.shape == (len(ids) - 1,) and np.isfinite(row).all() for row in found.values())
    words, document = TEXT.split(), masked(weights, ids)
    for name in ("LIME", "SHAP", "occlusion"):
        assert found[name][words.index("good")] == found[name][6]
    np.testing.assert_allclose(found["SHAP"][document.first - 1], shapley(document))
    assert len(found) == 11
