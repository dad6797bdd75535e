"""Seconds of calls that take turns, so that a drift of the machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def in_turn(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every call in every round. Rounds alternate their direction: nobody is always the first."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(repeats):
        for name in calls if number % 2 == 0 else reversed(list(calls)):
            taken[name].append(seconds(calls[name]))
    return taken
