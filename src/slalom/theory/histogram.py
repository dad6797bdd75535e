"""The histogram task (Weiss et al. 2021; Cui et al. 2024): attention weights alone do not explain.

At every position of a sequence the layer must say how often that position's token occurs. One attention
layer with tied weights (keys are queries) and a small network behind it solve the task in two ways:
attending to equal tokens, or attending by position alone, in a pattern that is the same whatever the
sequence says. Each kind is found by training with the other half of the attention's weights frozen at zero,
and stays when all are let go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from slalom.errors import InputError
from slalom.tokens import FloatArray

Kind = Literal["semantic", "positional"]


class Counter(nn.Module):
    """One tied attention layer over (token, position) in orthogonal coordinates, and a two-layer network.

    A = softmax(X M Mᵀ Xᵀ), counts = network(A X); M has rows for tokens, then rows for positions.
    """

    free: Tensor
    """(V + L, 1) 1 where a row of M may move."""

    def __init__(self, vocabulary: int, length: int, rank: int, hidden: int, kind: Kind):
        super().__init__()
        self.vocabulary, self.length = vocabulary, length
        width = vocabulary + length
        self.tied = nn.Parameter(torch.randn(width, rank) * rank**-0.5)
        self.network = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, length))
        semantic = torch.arange(width) < vocabulary
        self.register_buffer("free", (semantic if kind == "semantic" else ~semantic)[:, None].float())
        with torch.no_grad():
            self.tied *= self.free

    def inputs(self, tokens: Tensor) -> Tensor:
        """(B, L, V + L) the token and the position of every place, one-hot."""
        named = nn.functional.one_hot(tokens, self.vocabulary).to(self.tied.dtype)
        places = torch.eye(self.length, dtype=self.tied.dtype).expand(len(tokens), -1, -1)
        return torch.cat([named, places], dim=-1)

    def attention(self, tokens: Tensor) -> Tensor:
        """(B, L, L)"""
        projected = self.inputs(tokens) @ (self.tied * self.free)
        return (projected @ projected.transpose(1, 2)).softmax(dim=-1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, L, L) logits of the counts 1 … L."""
        return self.network(self.attention(tokens) @ self.inputs(tokens))

    def release(self) -> None:
        """Let all weights of the attention move, starting a little away from zero."""
        with torch.no_grad():
            self.tied += 1e-3 * torch.randn_like(self.tied)
            self.free.fill_(1.0)


@dataclass(frozen=True, eq=False)
class Solution:
    """A trained counter and what its attention tells."""

    kind: Kind
    counter: Counter
    accuracy: float
    """Of the counts on fresh sequences."""
    same_token: float
    """Mean attention on other places with the same token, over that on places with another."""
    content: float
    """The share of the attention's variance that depends on what the sequence says; 0: always one pattern."""


def counts(tokens: Tensor) -> Tensor:
    """(B, L) how often the token of every place occurs in its sequence."""
    return (tokens[:, :, None] == tokens[:, None, :]).sum(dim=-1)


def solve(
    kind: Kind,
    *,
    vocabulary: int = 8,
    length: int = 8,
    rank: int = 8,
    hidden: int = 64,
    steps: int = 1500,
    after: int = 300,
    seed: int = 0,
) -> Solution:
    """Train a counter of one kind, release its attention, descend `after` more steps, and look at it."""
    if kind not in ("semantic", "positional"):
        raise InputError(f"a solution is 'semantic' or 'positional'; got {kind!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        counter = Counter(vocabulary, length, rank, hidden, kind)
        adam = torch.optim.Adam(counter.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
        _descend(counter, adam, steps, schedule)
        counter.release()
        _descend(counter, torch.optim.SGD(counter.parameters(), lr=1e-2), after)
        return _look(kind, counter)


def _descend(
    counter: Counter,
    optimiser: torch.optim.Optimizer,
    steps: int,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> None:
    for _ in range(steps):
        tokens = torch.randint(counter.vocabulary, (256, counter.length))
        logits = counter(tokens).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, counts(tokens).flatten() - 1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if schedule is not None:
            schedule.step()


@torch.no_grad()
def _look(kind: Kind, counter: Counter) -> Solution:
    tokens = torch.randint(counter.vocabulary, (4000, counter.length))
    right = counter(tokens).argmax(dim=-1) + 1 == counts(tokens)
    attention = counter.attention(tokens)
    elsewhere = ~torch.eye(counter.length, dtype=torch.bool)
    same = (tokens[:, :, None] == tokens[:, None, :]) & elsewhere
    ratio = attention[same].mean() / attention[~same & elsewhere].mean()
    within = attention.var(dim=0, unbiased=False).mean()
    total = attention.flatten().var(unbiased=False)
    return Solution(kind, counter, right.float().mean().item(), ratio.item(), (within / total).item())


def pattern(solution: Solution, tokens: list[int]) -> FloatArray:
    """(L, L) the attention of a solution on one sequence."""
    with torch.no_grad():
        return solution.counter.attention(torch.tensor([tokens]))[0].double().numpy()
