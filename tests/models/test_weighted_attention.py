"""Attention with weighted keys is torch's own, with its gradients, whatever is computed together."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from slalom.models.torch import softmaxes
from slalom.models.torch.softmaxes import weighted_attention


@pytest.mark.parametrize("together", [1, 60, 10_000])
def test_values_and_gradients(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmaxes, "_SCORES", together)
    generator = torch.Generator().manual_seed(0)
    three = [torch.randn(3, 2, 5, 4, dtype=torch.float64, generator=generator) for _ in range(3)]
    bias = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    query, key, value = three
    theirs = scaled_dot_product_attention(query, key, value, bias[:, None, None])
    torch.testing.assert_close(weighted_attention(query, key, value, bias), theirs)
    given = tuple(part.requires_grad_() for part in (*three, bias))
    assert torch.autograd.gradcheck(weighted_attention, given)
    first = (*(part.detach() for part in three), bias)  # nothing but the weights needs gradients
    assert torch.autograd.gradcheck(weighted_attention, first)
