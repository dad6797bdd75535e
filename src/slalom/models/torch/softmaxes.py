"""Softmaxes whose keys have weights: log λ of each token added to their scores, with the gradients by it.

Of any module they are reached where torch computes them. For `lean` they are computed here, for a few
sequences at a time: scores are as many as heads times the square of the length, and of a whole batch they
would leave the processor's caches before they are needed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from slalom.errors import ModelError
from slalom.models.torch.forward import Forward
from slalom.tokens import FloatArray

Tensor = torch.Tensor
Called = Callable[..., object]
Args = tuple[object, ...]
Kwargs = dict[str, object]
Score = Callable[[Tensor], Tensor]
"""(B, k) answers → (B,) numbers to differentiate."""


class Softmaxes(TorchFunctionMode):
    """While it lasts, `bias` (B, L) is added to the scores of the L keys in every softmax over them."""

    def __init__(self, bias: Tensor):
        super().__init__()
        self._bias = bias
        self.seen = 0
        """How many softmaxes there were."""

    def __torch_function__(
        self, func: Called, types: object, args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        if torch.compiler.is_compiling():  # the graph would keep the numbers of this call for all others
            raise ModelError("soft removal does not go through compiled functions")
        change = _CHANGES.get(func)
        if change is not None:
            args, kwargs = change(self, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **more: object,
    ) -> tuple[Args, Kwargs]:
        shape = (*query.shape[:-1], key.shape[-2])
        if self._are_keys(shape):
            mask = self._added(shape, query.dtype)
            if is_causal:
                attn_mask, is_causal = (
                    torch.ones(shape[-2:], dtype=torch.bool, device=mask.device).tril(),
                    False,
                )
            if attn_mask is None:
                attn_mask = mask
            elif attn_mask.dtype == torch.bool:
                attn_mask = torch.where(attn_mask, mask, -torch.inf)
            else:
                attn_mask = attn_mask + mask
        more = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, **more}
        return (query, key, value), more

    def _softmax(
        self, scores: Tensor, dim: int | None = None, *rest: object, **more: object
    ) -> tuple[Args, Kwargs]:
        if dim in (-1, scores.ndim - 1) and self._are_keys(scores.shape):
            scores = scores + self._added(scores.shape, scores.dtype)
        return (scores, dim, *rest), more

    def _multi_head(self, query: Tensor, key: Tensor, *rest: object, **more: object) -> tuple[Args, Kwargs]:
        """Of torch's own layer, (L, B, h) and without a way to see its softmax."""
        if self._are_keys((*query.shape[1::-1], len(key))):
            padding, bias = more.get("key_padding_mask"), self._bias.to(query.dtype)
            if isinstance(padding, Tensor) and padding.dtype == torch.bool:
                padding = torch.zeros_like(bias).masked_fill(padding, -torch.inf)
            more["key_padding_mask"] = bias + padding if isinstance(padding, Tensor) else bias
            self.seen += 1
        return (query, key, *rest), more

    def _are_keys(self, shape: tuple[int, ...] | torch.Size) -> bool:
        """Whether scores of this shape, such as (B, heads, L, L) or (B·heads, 1, L), are of all tokens."""
        count, length = self._bias.shape
        return len(shape) > 2 and shape[-1] == length and shape[-2] in (1, length) and shape[0] % count == 0

    def _added(self, shape: tuple[int, ...] | torch.Size, dtype: torch.dtype) -> Tensor:
        self.seen += 1
        bias = self._bias.to(dtype)
        if shape[0] != len(bias):
            bias = bias.repeat_interleave(shape[0] // len(bias), dim=0)
        return bias.view(len(bias), *[1] * (len(shape) - 2), -1)


_CHANGES: dict[Called, Callable[..., tuple[Args, Kwargs]]] = {
    scaled_dot_product_attention: Softmaxes._attention,
    multi_head_attention_forward: Softmaxes._multi_head,
    nn.functional.softmax: Softmaxes._softmax,
    torch.softmax: Softmaxes._softmax,
    torch.Tensor.softmax: Softmaxes._softmax,
}


def tensor(forward: Forward, numbers: FloatArray) -> Tensor:
    kind = next((parameter.dtype for parameter in forward.module.parameters()), torch.float32)
    return torch.from_numpy(numbers).to(forward.device, kind)


_SCORES = 2**18
"""Scores that are computed together."""


def weighted_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """(B, heads, L, d) mixed values for queries, keys and values; (B, L) `bias` is added to the scores."""
    count, heads, length, _ = query.shape
    parts = [part.reshape(count * heads, length, -1) for part in (query, key, value)]
    mixed: Tensor = _Attention.apply(*parts, bias.repeat_interleave(heads, dim=0))
    return mixed.view_as(value)


class _Context(Protocol):
    """What a function of autograd keeps from its forward to its backward pass."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _Attention(torch.autograd.Function):
    """Of (N, L, d) queries, keys and values, and (N, L) numbers to add to the scores of the keys."""

    @staticmethod
    def forward(ctx: _Context, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        mixed, shares = torch.empty_like(value), []
        for at in _blocks(query):
            added = bias[at, None].expand(-1, query.shape[1], -1)
            scores = torch.baddbmm(added, query[at], key[at].transpose(1, 2), alpha=query.shape[2] ** -0.5)
            shares.append(torch.softmax(scores, dim=-1))
            torch.bmm(shares[-1], value[at], out=mixed[at])
        ctx.save_for_backward(query, key, value, mixed, *shares)
        return mixed

    @staticmethod
    def backward(ctx: _Context, *slopes: Tensor) -> tuple[Tensor | None, ...]:
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
