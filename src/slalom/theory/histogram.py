"""The histogram task (Weiss et al. 2021; Cui et al. 2024): attention weights alone do not explain.

At every position of a sequence the layer must say how often that position's token occurs. One attention
layer with tied weights (keys are queries) and a small network behind it solve the task in two ways:
attending to equal tokens, or attending by position alone, in a pattern that is the same whatever the
sequence says. Each kind is found by training with the other half of the attention's weights frozen at zero,
and stays when all are let go.

The cross-entropy of a counter that is always right has no minimum (its weights grow for ever), so a ridge on
all weights belongs to the loss. `settle` descends with it on all sequences at once, in double precision, as
far as the steps go; `curvature` gives the slope and every eigenvalue of the Hessian there, and apart those of
the attention's other half, which was frozen while the solution was found: whether the loss rises towards the
other kind of attention is a matter of that block alone.

With ReLU, as in the papers, the loss has kinks, and the descent stops at them before the slope is gone. With
a smooth activation it goes on to where the slope is zero up to rounding and no eigenvalue is negative.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from slalom.errors import InputError
from slalom.tokens import FloatArray

Kind = Literal["semantic", "positional"]
Activation = Literal["relu", "gelu", "tanh"]
_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}


class Counter(nn.Module):
    """One tied attention layer over (token, position) in orthogonal coordinates, and a two-layer network.

    A = softmax(X M Mᵀ Xᵀ), counts = network(A X); M has rows for tokens, then rows for positions.

    Example:
        >>> counter = Counter(vocabulary=2, length=4, rank=4, hidden=8, kind="semantic")
        >>> counter.attention(torch.tensor([[0, 0, 0, 0]]))[0, 0].tolist()
        [0.25, 0.25, 0.25, 0.25]
    """

    free: Tensor
    """(V + L, 1) 1 where a row of M may move."""

    def __init__(
        self,
        vocabulary: int,
        length: int,
        rank: int,
        hidden: int,
        kind: Kind,
        activation: Activation = "relu",
    ):
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise InputError(f"an activation is one of {', '.join(_ACTIVATIONS)}; got {activation!r}")
        self.vocabulary, self.length = vocabulary, length
        width = vocabulary + length
        self.tied = nn.Parameter(torch.randn(width, rank) * rank**-0.5)
        between = _ACTIVATIONS[activation]()
        self.network = nn.Sequential(nn.Linear(width, hidden), between, nn.Linear(hidden, length))
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
    """(B, L) how often the token of every place occurs in its sequence.

    Example:
        >>> counts(torch.tensor([[5, 5, 7]])).tolist()
        [[2, 2, 1]]
    """
    return (tokens[:, :, None] == tokens[:, None, :]).sum(dim=-1)


@contextmanager
def _one_thread() -> Generator[None]:
    """The matrices are small: several threads wait for each other, for minutes where the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@_one_thread()
def solve(
    kind: Kind,
    *,
    vocabulary: int = 8,
    length: int = 8,
    rank: int = 8,
    hidden: int = 64,
    activation: Activation = "relu",
    steps: int = 1500,
    after: int = 300,
    seed: int = 0,
) -> Solution:
    """Train a counter of one kind, release its attention, descend `after` more steps, and look at it.

    Example:
        >>> solve("semantic", vocabulary=2, length=2, steps=200, after=0).accuracy
        1.0
    """
    if kind not in ("semantic", "positional"):
        raise InputError(f"a solution is 'semantic' or 'positional'; got {kind!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        counter = Counter(vocabulary, length, rank, hidden, kind, activation)
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
    """(L, L) the attention of a solution on one sequence.

    Example:
        >>> solution = solve("positional", vocabulary=2, length=2, steps=1)
        >>> pattern(solution, [0, 1]).sum(axis=1).round(4).tolist()
        [1.0, 1.0]
    """
    with torch.no_grad():
        return solution.counter.attention(torch.tensor([tokens]))[0].double().numpy()


_ALL = 20_000
"""Up to this many sequences all are used; otherwise as many at random."""


@dataclass(frozen=True, eq=False)
class LossCurvature:
    """The loss around a solution, on a fixed set of sequences."""

    loss: float
    gradient_norm: float
    eigenvalues: FloatArray
    """(P,) of the Hessian over all weights, ascending."""
    released: FloatArray
    """Those of its block for the rows of M that were frozen while the solution was found."""

    def negative(self, tolerance: float = 1e-6) -> int:
        """How many eigenvalues are below −tolerance times the largest."""
        return int(np.count_nonzero(self.eigenvalues < -tolerance * self.eigenvalues[-1]))

    @property
    def is_minimum(self) -> bool:
        """No slope and no way down, up to rounding."""
        return self.gradient_norm < 1e-6 * max(self.eigenvalues[-1], 1.0) and self.negative() == 0


def _sequences(vocabulary: int, length: int, seed: int = 0) -> Tensor:
    """All sequences, or a fixed random set where they are too many."""
    if vocabulary**length <= _ALL:
        return torch.tensor(list(product(range(vocabulary), repeat=length)))
    return torch.randint(vocabulary, (_ALL, length), generator=torch.Generator().manual_seed(seed))


def _loss_of(counter: Counter, tokens: Tensor, ridge: float) -> Tensor:
    """Mean cross-entropy of the counts, plus ridge/2 times the sum of squares of all weights."""
    logits = counter(tokens).flatten(0, 1)
    size = sum(weight.square().sum() for weight in counter.parameters())
    return nn.functional.cross_entropy(logits, counts(tokens).flatten() - 1) + ridge / 2 * size


@_one_thread()
def settle(solution: Solution, *, ridge: float = 1e-4, steps: int = 2000, most: int = _ALL) -> Solution:
    """The solution after so many steps of L-BFGS on the loss with this ridge, all weights free.

    Example:
        >>> solution = solve("semantic", vocabulary=2, length=2, hidden=4, activation="tanh", steps=50)
        >>> curvature(settle(solution)).is_minimum
        True
    """
    if not ridge > 0:
        raise InputError(f"without a ridge the loss has no minimum; ridge must be positive, got {ridge}")
    counter = deepcopy(solution.counter).double()
    tokens = _sequences(counter.vocabulary, counter.length)[:most]
    optimiser = torch.optim.LBFGS(
        counter.parameters(), max_iter=steps, history_size=50, tolerance_grad=1e-10,
        tolerance_change=0.0, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = _loss_of(counter, tokens, ridge)
        loss.backward()
        return loss

    optimiser.step(closure)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _look(solution.kind, counter)


@_one_thread()
def curvature(solution: Solution, *, ridge: float = 1e-4) -> LossCurvature:
    """Loss, gradient norm and the whole Hessian spectrum at a solution.

    Example:
        >>> solution = solve("semantic", vocabulary=2, length=2, rank=2, hidden=4, steps=1)
        >>> curvature(solution).eigenvalues.shape
        (38,)
    """
    counter = deepcopy(solution.counter).double()
    tokens = _sequences(counter.vocabulary, counter.length)
    loss = _loss_of(counter, tokens, ridge)
    slope, hessian = _slope_and_hessian(loss, list(counter.parameters()))
    frozen = _frozen(solution.kind, counter)
    return LossCurvature(
        loss.item(),
        float(np.linalg.norm(slope)),
        np.linalg.eigvalsh(hessian).astype(float),
        np.linalg.eigvalsh(hessian[frozen, frozen]).astype(float),
    )


@dataclass(frozen=True, eq=False)
class LossEdges:
    """The ends of the Hessian's spectrum where the whole of it is too large to be written down."""

    loss: float
    gradient_norm: float
    smallest: float
    """By Lanczos: the true one is at most this."""
    largest: float
    released: FloatArray
    """All eigenvalues of the block for the rows of M that were frozen, exactly."""


@_one_thread()
def edges(
    solution: Solution, *, ridge: float = 1e-4, steps: int = 100, most: int = 2000, seed: int = 0
) -> LossEdges:
    """Loss, gradient norm and the ends of the Hessian spectrum, from products of the Hessian with vectors.

    most: sequences of the loss; the first of those that `settle` descends on.

    Example:
        >>> solution = solve("semantic", vocabulary=2, length=2, rank=2, hidden=4, steps=1)
        >>> bool(np.isclose(edges(solution).largest, curvature(solution).eigenvalues[-1]))
        True
    """
    counter = deepcopy(solution.counter).double()
    weights = list(counter.parameters())
    loss = _loss_of(counter, _sequences(counter.vocabulary, counter.length)[:most], ridge)
    slope = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights, create_graph=True)])

    def product_with(vector: Tensor) -> Tensor:
        parts = torch.autograd.grad(slope, weights, vector, retain_graph=True)
        return torch.cat([part.flatten() for part in parts])

    one = torch.eye(len(slope), dtype=slope.dtype)
    frozen = _frozen(solution.kind, counter)
    block = torch.stack([product_with(row)[frozen] for row in one[frozen]]).numpy()
    low, high = _lanczos(product_with, len(slope), min(steps, len(slope)), seed)
    norm = _length(slope.detach())
    return LossEdges(loss.item(), norm, low, high, np.linalg.eigvalsh((block + block.T) / 2).astype(float))


def _lanczos(
    product_with: Callable[[Tensor], Tensor], size: int, steps: int, seed: int
) -> tuple[float, float]:
    """Smallest and largest Ritz value of a symmetric matrix; directions are kept orthogonal to all before."""
    vector = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    basis = [vector / _length(vector)]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(steps):
        image = product_with(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        known = torch.stack(basis)
        for _ in range(2):
            image = image - known.T @ (known @ image)
        length = _length(image)
        if length < 1e-10:
            break
        beside.append(length)
        basis.append(image / length)
    apart = np.array(beside[: len(diagonal) - 1])
    found = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(apart, 1) + np.diag(apart, -1))
    return float(found[0]), float(found[-1])


def _length(vector: Tensor) -> float:
    return float((vector @ vector).sqrt())


def _frozen(kind: Kind, counter: Counter) -> slice:
    """Where the attention's other half lies: `tied` is first among the weights, tokens before positions."""
    cut, end = counter.vocabulary * counter.tied.shape[1], counter.tied.numel()
    return slice(cut, end) if kind == "semantic" else slice(0, cut)


def _slope_and_hessian(loss: Tensor, weights: list[nn.Parameter]) -> tuple[FloatArray, FloatArray]:
    """(P,) and (P, P) of a loss over all weights, flattened in their order."""
    slope = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights, create_graph=True)])
    rows: list[Tensor] = []
    for one in torch.eye(len(slope), dtype=slope.dtype):
        row = torch.autograd.grad(slope, weights, one, retain_graph=True)
        rows.append(torch.cat([g.flatten() for g in row]))
    hessian = torch.stack(rows).numpy()
    return slope.detach().numpy(), (hessian + hessian.T) / 2
