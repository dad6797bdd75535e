"""Mamba's states all at once, beside the recurrence written out and beside transformers' own mixer."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer

from slalom.models.torch import mamba
from slalom.models.torch.mamba import ScanMixer, scan


def step_by_step(decay: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
    state, states = torch.zeros_like(entry[0]), []
    for left, new in zip(decay, entry, strict=True):
        state = left * state + new
        states.append(state)
    return torch.stack(states)


def problem(length: int, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(length)
    decay = torch.rand(length, *shape, generator=made, dtype=dtype)
    decay[length // 2] = 0.0  # a step may forget everything
    entry = torch.randn(length, *shape, generator=made, dtype=dtype)
    return decay.requires_grad_(), entry.requires_grad_()


def test_a_geometric_series():
    states = scan(torch.full((6, 1), 0.5), torch.ones(6, 1))
    assert states.flatten().tolist() == [1.0, 1.5, 1.75, 1.875, 1.9375, 1.96875]


@pytest.mark.parametrize("length", [1, 2, 3, 17, 64, 130])
@pytest.mark.parametrize("shape", [(3,), (2, 1500), (5000,)], ids=["many blocks", "few", "one"])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_states_and_gradients(length: int, shape: tuple[int, ...], dtype: torch.dtype, close: float):
    decay, entry = problem(length, shape, dtype)
    theirs, ours = step_by_step(decay, entry), scan(decay, entry)
    torch.testing.assert_close(ours, theirs, rtol=close, atol=close)
    with torch.no_grad():
        torch.testing.assert_close(scan(decay, entry), theirs, rtol=close, atol=close)
    weights = torch.cos(torch.arange(theirs.numel(), dtype=dtype)).reshape(theirs.shape)
    for one, other in zip(
        torch.autograd.grad((weights * ours).sum(), (decay, entry)),
        torch.autograd.grad((weights * theirs).sum(), (decay, entry), materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=close, atol=close)


def test_the_gradient_has_a_gradient():
    decay, entry = problem(7, (2,), torch.float64)
    assert torch.autograd.gradcheck(scan, (decay, entry))
    assert torch.autograd.gradgradcheck(scan, (decay, entry))


def test_no_decay_and_decay_to_nothing_are_safe():
    entry = torch.ones(200, 3)
    assert torch.equal(scan(torch.ones(200, 3), entry)[-1], torch.full((3,), 200.0))
    assert torch.equal(scan(torch.full((200, 3), 1e-30), entry)[-1], torch.ones(3))


@pytest.mark.parametrize("at_once", [2**22, 1], ids=["one part", "text by text"])
@pytest.mark.parametrize("padded", [False, True])
def test_the_mixer_is_that_of_transformers(at_once: int, padded: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mamba, "_AT_ONCE", at_once)
    torch.manual_seed(0)
    config = MambaConfig(hidden_size=12, state_size=4, num_hidden_layers=1)
    theirs, ours = MambaMixer(config, 0), ScanMixer(config, 0)
    ours.load_state_dict(theirs.state_dict())
    texts = torch.randn(3, 21, 12, requires_grad=True)
    again = copy.deepcopy(texts)
    mask = (torch.arange(21) < torch.tensor([[21], [5], [1]])).long() if padded else None
    one, other = ours(texts, attention_mask=mask), theirs(again, attention_mask=mask)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    one.square().sum().backward()
    other.square().sum().backward()
    torch.testing.assert_close(texts.grad, again.grad, rtol=1e-4, atol=1e-6)
    for (name, weight), beside in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, beside.grad, rtol=1e-4, atol=1e-5, msg=name)
