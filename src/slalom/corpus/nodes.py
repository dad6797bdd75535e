"""Watching the nodes of a cluster: workers of a lost node that find no room elsewhere are given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_LOOK, GRACE = 2.0, 20.0
"""Seconds between two looks, and until a worker whose node is gone must have started elsewhere."""


class Register:
    """Where each worker runs. It lives on the driver's node, as an actor."""

    def __init__(self) -> None:
        self._workers: dict[str, tuple[Any, str]] = {}

    def add(self, worker: str, handle: Any, node: str) -> None:
        self._workers[worker] = (handle, node)

    def workers(self) -> dict[str, tuple[Any, str]]:
        return self._workers


@contextmanager
def watched(ray: Any) -> Iterator[Any]:
    """Inside, workers that register are watched; one that finds no room is ended, and so is its task."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    register = ray.remote(Register).options(num_cpus=0, scheduling_strategy=here).remote()
    stop = threading.Event()
    watch = threading.Thread(target=_watch, args=(ray, register, stop), name="corpus-nodes", daemon=True)
    watch.start()
    try:
        yield register
    finally:
        stop.set()
        watch.join()
        ray.kill(register)


def _watch(ray: Any, register: Any, stop: threading.Event) -> None:
    homeless: dict[str, float] = {}
    while not stop.wait(_LOOK):
        with suppress(ray.exceptions.RayError):
            alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            for worker, (handle, node) in ray.get(register.workers.remote()).items():
                if node in alive:
                    homeless.pop(worker, None)
                elif time.monotonic() - homeless.setdefault(worker, time.monotonic()) > GRACE:
                    ray.kill(handle, no_restart=True)
