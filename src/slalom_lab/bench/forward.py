"""The bare forward passes of given queries, and the matrix products that they cannot do without."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from slalom.models.text.template import Sequences
from slalom.models.torch import groups
from slalom.models.torch.forward import Forward
from slalom.tokens import IntArray

BATCH_TOKENS = (512, 1024, 2048, 4096, 8192)
"""Sizes of batches, in tokens, of which the best is taken."""
Shape = tuple[int, int, int]
"""Rows, inner and outer width of a matrix product."""


def batches(sequences: Sequences, tokens: int) -> list[tuple[Any, Any]]:
    """The distinct sequences, of one length in a batch, in parts of equal size of at most so many tokens."""
    found: list[tuple[Any, Any]] = []
    for group in groups(sequences):
        count, length = group.ids.shape
        parts = -(-count // max(1, tokens // length))
        for part in range(parts):
            rows = slice(part * count // parts, (part + 1) * count // parts)
            found.append((group.ids[rows], group.types[rows]))
    return found


def bare(forward: Forward, sequences: Sequences, tokens: int) -> Callable[[], None]:
    """The module itself over tensors that are there already, in inference mode."""
    given = [
        (torch.from_numpy(ids).to(forward.device), torch.from_numpy(types).to(forward.device))
        for ids, types in batches(sequences, tokens)
    ]

    def run() -> None:
        with torch.inference_mode():
            for ids, types in given:
                forward.apply(ids, types)

    return run


def through(call: Callable[[Any, Any], object], sequences: Sequences, tokens: int) -> Callable[[], None]:
    """An engine over arrays that are there already."""
    given = batches(sequences, tokens)

    def run() -> None:
        for ids, types in given:
            call(ids, types)

    return run


def products(forward: Forward, sequences: Sequences, tokens: int) -> Callable[[], None]:
    """The matrix products of the module's linear layers for the same batches, in 32-bit floating point.

    Every layer has weights of its own, as in the module; inputs and results of one shape share their place.
    """
    wanted = [shapes(forward, ids, types) for ids, types in batches(sequences, tokens)]
    weights = [torch.randn(inner, outer) for _, inner, outer in wanted[0]]
    room = {
        (rows, wide): torch.randn(rows, wide) for batch in wanted for rows, *both in batch for wide in both
    }
    results = {place: torch.empty_like(given) for place, given in room.items()}
    given = [
        [
            (room[rows, inner], weight, results[rows, outer])
            for weight, (rows, inner, outer) in zip(weights, batch, strict=True)
        ]
        for batch in wanted
    ]

    def run() -> None:
        with torch.inference_mode():
            for batch in given:
                for left, right, out in batch:
                    torch.mm(left, right, out=out)

    return run


def operations(forward: Forward, sequences: Sequences) -> float:
    """Multiplications and additions in the linear layers, over all sequences."""
    found = [shapes(forward, ids, types) for ids, types in batches(sequences, BATCH_TOKENS[-1])]
    return float(sum(2 * rows * inner * outer for batch in found for rows, inner, outer in batch))


def shapes(forward: Forward, ids: IntArray, types: IntArray) -> list[Shape]:
    """The matrix products that the module's linear layers compute for one batch, seen as it runs."""
    found: list[Shape] = []

    def note(part: torch.nn.Module, given: tuple[torch.Tensor, ...], result: torch.Tensor) -> None:  # noqa: ARG001
        inner = int(given[0].shape[-1])
        found.append((given[0].numel() // inner, inner, int(result.shape[-1])))

    hooks = [part.register_forward_hook(note) for part in forward.module.modules() if _is_linear(part)]
    try:
        with torch.inference_mode():
            forward.apply(
                torch.from_numpy(ids).to(forward.device), torch.from_numpy(types).to(forward.device)
            )
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _is_linear(part: torch.nn.Module) -> bool:
    return isinstance(part, torch.nn.Linear) or type(part).__name__ == "Conv1D"  # GPT-2's linear layers


def best_size(make: Callable[[int], Callable[[], object]]) -> tuple[int, Callable[[], object]]:
    """The size of batches with which a call is fastest (best of two), and that call."""
    timed: dict[int, float] = {}
    calls: Mapping[int, Callable[[], object]] = {size: make(size) for size in BATCH_TOKENS}
    next(iter(calls.values()))()  # the first run of all pays for what is done once
    for _ in range(2):
        for size, call in calls.items():
            start = time.perf_counter()
            call()
            timed[size] = min(timed.get(size, float("inf")), time.perf_counter() - start)
    best = min(timed, key=lambda size: timed[size])
    return best, calls[best]
