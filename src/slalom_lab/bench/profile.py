"""Where the time of a call goes, in a few lines."""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from slalom.files import Record

TOP = 8
Entry = Record


def of_functions(call: Callable[[], object]) -> list[Entry]:
    """The Python functions with the most time of their own; what they call in C is theirs."""
    profiler = cProfile.Profile(builtins=False)
    profiler.runcall(call)
    stats: Any = pstats.Stats(profiler)
    own = {key: (entry[2], entry[0]) for key, entry in stats.stats.items()}
    total = sum(seconds for seconds, _ in own.values()) or 1.0
    longest = sorted(own, key=lambda key: -own[key][0])[:TOP]
    return [
        {
            "what": f"{PurePath(file).stem}.{name}:{line}" if line else name,
            "share": own[file, line, name][0] / total,
            "calls": own[file, line, name][1],
        }
        for file, line, name in longest
    ]


def of_operators(call: Callable[[], object]) -> list[Entry]:
    """The torch operators with the most time of their own."""
    from torch.profiler import ProfilerActivity, profile

    with _still(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    events: Any = profiler.key_averages()
    total = sum(event.self_cpu_time_total for event in events) or 1.0
    longest = sorted(events, key=lambda event: -event.self_cpu_time_total)[:TOP]
    return [{"what": e.key, "share": e.self_cpu_time_total / total, "calls": e.count} for e in longest]


@contextmanager
def _still() -> Iterator[None]:
    """The profiler writes past Python's own streams; nothing of it reaches the terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
