"""Two ways to count, and only one of them shows in the attention."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import numpy as np
import pytest
import torch

from rounding import ANSWERS
from slalom.errors import InputError
from slalom.theory.histogram import (
    Counter,
    Kind,
    Solution,
    _loss_of,
    _sequences,
    _slope_and_hessian,
    counts,
    curvature,
    edges,
    pattern,
    settle,
    solve,
)


def test_counts() -> None:
    text = "DATAIAIAIA"
    tokens = torch.tensor([[ord(c) - ord("A") for c in text]])
    assert counts(tokens)[0].tolist() == [Tally(text)[c] for c in text] == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]


@pytest.mark.parametrize("kind", ["semantic", "positional"])
def test_both_kinds_count_and_only_one_attends_to_what_it_counts(kind: Kind) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    found = solve(kind, vocabulary=6, length=6, steps=700, after=150)
    assert torch.random.get_rng_state().equal(before)
    assert found.accuracy > 0.93
    one, other = pattern(found, [0, 1, 0, 2, 3, 0]), pattern(found, [4, 4, 1, 5, 1, 2])
    np.testing.assert_allclose(one.sum(axis=1), 1.0, atol=ANSWERS)
    if kind == "semantic":
        assert found.same_token > 2
        assert found.content > 0.3
    else:
        assert found.same_token == pytest.approx(1.0, abs=0.02)
        assert found.content < 0.01
        assert np.abs(one - other).max() < 0.02


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="positional"):
        solve("mixed")  # type: ignore[arg-type]


def small(kind: Kind, steps: int) -> Solution:
    return solve(kind, vocabulary=3, length=4, rank=3, hidden=8, steps=steps, after=20)


def test_slope_and_hessian_are_those_of_autograd() -> None:
    counter = small("semantic", 5).counter.double()
    tokens = _sequences(3, 4)
    assert len(tokens) == 81
    names = [name for name, _ in counter.named_parameters()]

    def loss(*weights: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(counter, dict(zip(names, weights, strict=True)), (tokens,))
        size = sum(weight.square().sum() for weight in weights)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), counts(tokens).flatten() - 1) + size

    weights = tuple(counter.parameters())
    blocks: Any = torch.autograd.functional.hessian(loss, tuple(w.detach() for w in weights))
    sizes = [w.numel() for w in weights]
    rows = [
        torch.cat([block.reshape(a, b) for block, b in zip(row, sizes, strict=True)], dim=1)
        for row, a in zip(blocks, sizes, strict=True)
    ]
    slope, hessian = _slope_and_hessian(_loss_of(counter, tokens, 2.0), list(weights))
    np.testing.assert_allclose(hessian, torch.cat(rows).numpy(), atol=1e-10)
    first = torch.autograd.grad(loss(*weights), weights)
    np.testing.assert_allclose(slope, torch.cat([g.flatten() for g in first]).numpy(), atol=1e-10)


@pytest.mark.parametrize("kind", ["semantic", "positional"])
def test_settled_solutions_lie_lower(kind: Kind) -> None:
    found = small(kind, 200)
    before = curvature(found, ridge=1e-3)
    after = curvature(settle(found, ridge=1e-3, steps=60), ridge=1e-3)
    assert after.loss < before.loss
    assert len(after.released) == (12 if kind == "semantic" else 9)
    assert after.eigenvalues[0] <= after.released[0] <= after.released[-1] <= after.eigenvalues[-1]
    assert len(after.eigenvalues) == 121
    assert after.is_minimum == (after.negative() == 0 and after.gradient_norm < 1e-6 * after.eigenvalues[-1])
    with pytest.raises(InputError, match="ridge"):
        settle(found, ridge=0.0)


@pytest.mark.parametrize("kind", ["semantic", "positional"])
def test_with_a_smooth_activation_both_kinds_are_local_minima(kind: Kind) -> None:
    found = solve(kind, vocabulary=3, length=4, rank=4, hidden=12, activation="gelu", steps=800)
    settled = settle(found, ridge=1e-4, steps=2500)
    bend = curvature(settled, ridge=1e-4)
    assert bend.gradient_norm < 1e-5
    assert bend.negative(1e-5) == 0
    assert settled.accuracy > 0.95
    assert settled.content > 0.2 if kind == "semantic" else settled.content < 0.05


def test_threads_are_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices on one thread: several would wait for each other where the machine is busy."""
    before, asked = torch.get_num_threads(), []
    own = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (asked.append(n), own(n)))
    curvature(settle(small("semantic", 2), steps=2))
    assert asked == [1, before] * 3
    with pytest.raises(InputError, match="ridge"):
        settle(small("semantic", 2), ridge=0.0)
    assert torch.get_num_threads() == before


def test_unknown_activation() -> None:
    with pytest.raises(InputError, match=r"one of relu, gelu, tanh; got 'sine'"):
        Counter(2, 2, 2, 2, "semantic", "sine")  # type: ignore[arg-type]


def test_many_sequences_are_sampled() -> None:
    many = _sequences(6, 8)
    assert many.shape == (20_000, 8)
    assert torch.equal(many, _sequences(6, 8))


@pytest.mark.parametrize("kind", ["semantic", "positional"])
def test_the_ends_of_the_spectrum_are_those_of_the_whole_hessian(kind: Kind) -> None:
    solution = solve(kind, vocabulary=3, length=3, rank=2, hidden=4, steps=30, after=5)
    whole, ends = curvature(solution), edges(solution, steps=200)
    assert ends.loss == pytest.approx(whole.loss, abs=1e-12)
    assert ends.gradient_norm == pytest.approx(whole.gradient_norm, abs=1e-10)
    assert ends.smallest == pytest.approx(whole.eigenvalues[0], abs=1e-8)
    assert ends.largest == pytest.approx(whole.eigenvalues[-1], abs=1e-8)
    np.testing.assert_allclose(ends.released, whole.released, atol=1e-10)
