"""A perceptron on top of the attention layer: its gradient against autograd, LIME against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import comb

import numpy as np
import pytest
import torch

from slalom.errors import InputError
from slalom.theory.layer import LayerWeights, layer, masked
from slalom.theory.lime import mean_field
from slalom.theory.perceptron import (
    MaskedStates,
    Perceptron,
    lime_mean_field,
    lime_sampled,
    masked_states,
    perceptron_gradient,
    state,
)
from theory_layers import make

WIDTH, HEADS, OUT = 6, 2, 3


def on_top(seed: int = 0) -> Perceptron:
    rng = np.random.default_rng(seed)
    return Perceptron(
        rng.normal(size=(HEADS, WIDTH, OUT)),
        rng.normal(size=(9, WIDTH)) / np.sqrt(WIDTH),
        rng.normal(size=9),
        rng.normal(size=9),
        0.3 * rng.normal(size=WIDTH),
    )


def small(words: int = 16, positions: bool = True) -> LayerWeights:
    names = tuple(f"w{i}" for i in range(words))
    model, _ = make(
        names, hidden_size=WIDTH, num_attention_heads=HEADS, value_size=OUT, positions=positions,
        max_position_embeddings=words + 1,
    )  # fmt: skip
    return layer(model)


def by_torch(weights: LayerWeights, top: Perceptron, e: torch.Tensor) -> torch.Tensor:
    """The same network, written out."""
    q, k, v, o = (torch.from_numpy(w) for w in (weights.query, weights.key, weights.value, top.write))
    asked = torch.einsum("kad,d->ka", q, e[0])
    scores = weights.scale * torch.einsum("ka,kad,td->kt", asked, k, e)
    heard = torch.einsum("kt,kod,td->ko", scores.softmax(dim=-1), v, e)
    h = e[0] + torch.einsum("kdo,ko->d", o, heard) / len(q)
    hidden = torch.tanh(torch.from_numpy(top.hidden) @ h + torch.from_numpy(top.bias))
    return torch.from_numpy(top.read) @ hidden + torch.from_numpy(top.skip) @ h


def test_output_and_gradient_are_those_of_autograd() -> None:
    weights, top = small(), on_top()
    e = torch.from_numpy(weights.placed([2, 5, 9, 5, 12])).requires_grad_()
    f = by_torch(weights, top, e)
    f.backward()
    assert e.grad is not None
    at = e.detach().numpy()
    assert top.output(state(weights, top, at)) == pytest.approx(f.item(), abs=1e-12)
    np.testing.assert_allclose(perceptron_gradient(weights, top, at), e.grad.numpy(), atol=1e-12)


def test_masked_words_are_the_model_with_unknown_words() -> None:
    weights, top = small(), on_top()
    ids = np.array([2, 5, 9, 5, 12])
    document = masked_states(weights, top, ids)
    assert document.size == 3
    for keep in product((0.0, 1.0), repeat=3):
        shown = np.array([2, *(ids[i] if keep[j] else 1 for i, j in ((1, 0), (2, 1), (3, 0), (4, 2)))])
        truth = top.output(state(weights, top, weights.placed(shown)))
        assert document.outputs(np.array([keep]))[0] == pytest.approx(truth, abs=1e-12)


def enumerated(document: MaskedStates) -> np.ndarray:
    d = document.size
    z = np.array([row for row in product((0.0, 1.0), repeat=d) if sum(row) < d])
    probability = np.array([1 / (d * comb(d, int(row.sum()))) for row in z])
    x = np.c_[np.ones(len(z)), z]
    f = document.outputs(z)
    return np.linalg.solve(x.T @ (probability[:, None] * x), x.T @ (probability * f))[1:]


def relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def test_samples_agree_with_enumeration() -> None:
    document = masked_states(small(8), on_top(), [2, *range(3, 11)])
    truth = enumerated(document)
    errors = []
    for guess in (None, lime_mean_field(document)):
        beta, error = lime_sampled(document.outputs, 8, 20_000, guess=guess)
        assert np.mean(((beta - truth) / error) ** 2) < 3
        errors.append(np.sqrt(np.mean(error**2)))
    assert errors[1] < errors[0]
    assert relative(beta, truth) < 0.03


def test_the_mean_field_error_falls_like_one_over_d() -> None:
    """A text of four tokens over and over, every place a word of its own, against enumeration."""
    model, _ = make(
        tuple("abcd"), hidden_size=WIDTH, num_attention_heads=HEADS, value_size=OUT, positions=False
    )
    errors = []
    for d in (4, 8, 12):
        document = masked_states(layer(model), on_top(), [2, *[3, 4, 5, 6] * (d // 4)], words=range(d))
        errors.append(d * relative(lime_mean_field(document), enumerated(document)))
    assert max(errors) < 0.6
    np.testing.assert_allclose(errors, errors[-1], rtol=0.15)


def test_without_a_bend_it_is_the_mean_field_of_the_layer() -> None:
    """A perceptron that is switched off leaves w_s·h, which is a one-layer classifier."""
    weights, top = small(), replace(on_top(), read=np.zeros(9))
    ids = [2, *range(3, 15)]
    alike = replace(weights, read=np.einsum("d,kdo->ko", top.skip, top.write), skip=top.skip)
    np.testing.assert_allclose(
        lime_mean_field(masked_states(weights, top, ids)), mean_field(masked(alike, ids)), atol=1e-12
    )


def test_other_layers_and_too_few_samples_are_refused() -> None:
    mean = layer(make(read_out="mean", hidden_size=WIDTH)[0])
    with pytest.raises(InputError, match="read_out"):
        masked_states(mean, on_top(), [2, 3])
    with pytest.raises(InputError, match="four samples"):
        lime_sampled(lambda z: z[:, 0], 3, 2)
