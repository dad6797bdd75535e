"""Are the two solutions of the histogram task local minima? Gradient norm and Hessian spectrum, by autograd.

The cross-entropy of a counter that is always right has no minimum (its weights grow for ever), so a ridge on
all weights belongs to the loss. `settle` descends with it on all sequences at once, in double precision, as
far as the steps go; `curvature` gives the slope and every eigenvalue of the Hessian there, and apart those of
the attention's other half, which was frozen while the solution was found: whether the loss rises towards the
other kind of attention is a matter of that block alone.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from slalom.errors import InputError
from slalom.theory.histogram import Counter, Solution, counts
from slalom.tokens import FloatArray

_ALL = 20_000
"""Up to this many sequences all are used; otherwise as many at random."""


@dataclass(frozen=True, eq=False)
class Curvature:
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


def sequences(vocabulary: int, length: int, seed: int = 0) -> Tensor:
    """All sequences, or a fixed random set where they are too many."""
    if vocabulary**length <= _ALL:
        return torch.tensor(list(product(range(vocabulary), repeat=length)))
    return torch.randint(vocabulary, (_ALL, length), generator=torch.Generator().manual_seed(seed))


def loss_of(counter: Counter, tokens: Tensor, ridge: float) -> Tensor:
    """Mean cross-entropy of the counts, plus ridge/2 times the sum of squares of all weights."""
    logits = counter(tokens).flatten(0, 1)
    size = sum(weight.square().sum() for weight in counter.parameters())
    return nn.functional.cross_entropy(logits, counts(tokens).flatten() - 1) + ridge / 2 * size


def settle(solution: Solution, *, ridge: float = 1e-4, steps: int = 2000) -> Solution:
    """The solution after so many steps of L-BFGS on the loss with this ridge, all weights free."""
    if not ridge > 0:
        raise InputError(f"without a ridge the loss has no minimum; ridge must be positive, got {ridge}")
    counter = deepcopy(solution.counter).double()
    tokens = sequences(counter.vocabulary, counter.length)
    optimiser = torch.optim.LBFGS(
        counter.parameters(), max_iter=steps, history_size=50, tolerance_grad=1e-10,
        tolerance_change=0.0, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = loss_of(counter, tokens, ridge)
        loss.backward()
        return loss

    optimiser.step(closure)  # type: ignore[arg-type]
    return replace(solution, counter=counter)


def curvature(solution: Solution, *, ridge: float = 1e-4) -> Curvature:
    """Loss, gradient norm and the whole Hessian spectrum at a solution."""
    counter = deepcopy(solution.counter).double()
    tokens = sequences(counter.vocabulary, counter.length)
    loss = loss_of(counter, tokens, ridge)
    slope, hessian = slope_and_hessian(loss, list(counter.parameters()))
    # `tied` comes first among the weights, its rows for tokens before those for positions.
    cut, end = counter.vocabulary * counter.tied.shape[1], counter.tied.numel()
    frozen = slice(cut, end) if solution.kind == "semantic" else slice(0, cut)
    return Curvature(
        loss.item(),
        float(np.linalg.norm(slope)),
        np.linalg.eigvalsh(hessian).astype(float),
        np.linalg.eigvalsh(hessian[frozen, frozen]).astype(float),
    )


def slope_and_hessian(loss: Tensor, weights: list[nn.Parameter]) -> tuple[FloatArray, FloatArray]:
    """(P,) and (P, P) of a loss over all weights, flattened in their order."""
    slope = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights, create_graph=True)])
    rows = []
    for one in torch.eye(len(slope), dtype=slope.dtype):
        row = torch.autograd.grad(slope, weights, one, retain_graph=True)
        rows.append(torch.cat([g.flatten() for g in row]))
    hessian = torch.stack(rows).numpy()
    return slope.detach().numpy(), (hessian + hessian.T) / 2
