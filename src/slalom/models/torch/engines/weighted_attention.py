"""Attention whose keys have weights, with the gradients by these, for a few sequences at a time.

Scores and their gradients are as many as heads times the square of the length. Of a whole batch they would
leave the processor's caches before they are needed again, of a few sequences they stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Tensor = torch.Tensor

_SCORES = 2**18
"""Scores that are computed together."""


def weighted_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """(B, heads, L, d) mixed values for queries, keys and values; (B, L) `bias` is added to the scores."""
    count, heads, length, _ = query.shape
    parts = [part.reshape(count * heads, length, -1) for part in (query, key, value)]
    mixed: Any = _Attention.apply(*parts, bias.repeat_interleave(heads, dim=0))
    return mixed.view_as(value)


class _Attention(torch.autograd.Function):
    """Of (N, L, d) queries, keys and values, and (N, L) numbers to add to the scores of the keys."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        mixed, shares = torch.empty_like(value), []
        for at in _blocks(query):
            added = bias[at, None].expand(-1, query.shape[1], -1)
            scores = torch.baddbmm(added, query[at], key[at].transpose(1, 2), alpha=query.shape[2] ** -0.5)
            shares.append(torch.softmax(scores, dim=-1))
            torch.bmm(shares[-1], value[at], out=mixed[at])
        ctx.save_for_backward(query, key, value, mixed, *shares)
        return mixed

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = slopes
        query, key, value, mixed, *shares = ctx.saved_tensors
        scale, further = query.shape[2] ** -0.5, ctx.needs_input_grad[0]
        by_query, by_key, by_value = (torch.empty_like(query) if further else None for _ in range(3))
        by_bias = torch.empty_like(query[..., 0])
        mean = (slope * mixed).sum(dim=2, keepdim=True)
        for at, share in zip(_blocks(query), shares, strict=True):
            # ∂/∂score of Σ_j share_j (slope·value_j): share (slope·value − its mean under the shares).
            by_score = torch.bmm(slope[at], value[at].transpose(1, 2)).sub_(mean[at]).mul_(share)
            torch.sum(by_score, dim=1, out=by_bias[at])
            if by_query is not None and by_key is not None and by_value is not None:
                torch.bmm(by_score, key[at], out=by_query[at])
                torch.bmm(by_score.transpose(1, 2), query[at], out=by_key[at])
                torch.bmm(share.transpose(1, 2), slope[at], out=by_value[at])
        if by_query is not None and by_key is not None:
            by_query, by_key = by_query.mul_(scale), by_key.mul_(scale)
        return by_query, by_key, by_value, by_bias


def _blocks(query: Tensor) -> Iterator[slice]:
    count, length, _ = query.shape
    step = max(1, _SCORES // length**2)
    return (slice(at, at + step) for at in range(0, count, step))
