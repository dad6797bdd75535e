"""Groups on a Ray cluster: Ray Data with a pool of actors, each of which holds a model and writes its parts.

Ray restarts a worker that died and gives it its group again. When a node is lost and there is no room for its
workers elsewhere, Ray would wait for a new node; here the groups that are not finished start anew on what is
left.

Watching the nodes of a cluster: workers of a lost node that find no room elsewhere are given up.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from types import ModuleType
from typing import TYPE_CHECKING

from slalom.corpus.schema import CorpusDocument, DocumentGroup, arrow
from slalom.corpus.store import CorpusFolder, Part
from slalom.corpus.work import CorpusJob, Worker
from slalom.errors import MissingExtraError, ModelError, SlalomError
from slalom.files import Record

if TYPE_CHECKING:
    import pyarrow
    from ray.actor import ActorHandle

    from slalom.corpus import Where


_LOOK, GRACE = 2.0, 20.0
"""Seconds between two looks, and until a worker whose node is gone must have started elsewhere."""


class Register:
    """Where each worker runs. It lives on the driver's node, as an actor."""

    def __init__(self) -> None:
        self._workers: dict[str, tuple[ActorHandle[object], str]] = {}

    def add(self, worker: str, handle: ActorHandle[object], node: str) -> None:
        self._workers[worker] = (handle, node)

    def workers(self) -> dict[str, tuple[ActorHandle[object], str]]:
        return self._workers


@contextmanager
def watched(ray: ModuleType) -> Generator[ActorHandle[object]]:
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


def _watch(ray: ModuleType, register: ActorHandle[object], stop: threading.Event) -> None:
    homeless: dict[str, float] = {}
    while not stop.wait(_LOOK):
        with suppress(ray.exceptions.RayError):
            alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            for worker, (handle, node) in ray.get(register.workers.remote()).items():
                if node in alive:
                    homeless.pop(worker, None)
                elif time.monotonic() - homeless.setdefault(worker, time.monotonic()) > GRACE:
                    ray.kill(handle, no_restart=True)


Wave = dict[int, "pyarrow.Table"]
"""Groups by their number."""

_WAVE_BYTES, _WAVE_GROUPS = 32 << 20, 2048
"""What is given to Ray at a time; it bounds the memory, whatever the size of the corpus."""
_STORE_BYTES = 256 << 20
"""Ray's shared memory on this machine. Texts alone go through it: workers write their parts themselves."""
_FRUITLESS = 5
"""How often in a row the cluster may fail without a single group being finished."""


def explain_groups(
    job: CorpusJob, where: Where, missing: Iterator[DocumentGroup], count: Callable[[Part], None]
) -> None:
    """Explain groups on the workers of a cluster; `count` hears of each of them once."""
    ray = _ray()
    wave: Wave = {}
    size = 0
    with _connected(ray, where):
        for group in missing:
            wave[group.number] = to_table(group)
            size += group.size
            if size >= _WAVE_BYTES or len(wave) >= _WAVE_GROUPS:
                _finish(ray, job, where, wave, count)
                wave, size = {}, 0
        _finish(ray, job, where, wave, count)


def _finish(ray: ModuleType, job: CorpusJob, where: Where, wave: Wave, count: Callable[[Part], None]) -> None:
    """Explain all groups of a wave, through the loss of workers and nodes."""
    fruitless = 0
    while wave:
        before = len(wave)
        try:
            for number, part in _stream(ray, job, where, list(wave.values())):
                _strike(wave, number, part, count)
        except Exception as error:
            if not _lost(ray, error):
                raise
            _take_stock(job, wave, count)
            fruitless = fruitless + 1 if len(wave) == before else 0
            if fruitless >= _FRUITLESS:
                raise ModelError(f"the cluster failed {fruitless} times in a row: {error}") from error


def _strike(wave: Wave, number: int, part: Part, count: Callable[[Part], None]) -> None:
    if wave.pop(number, None) is not None:
        count(part)


def _take_stock(job: CorpusJob, wave: Wave, count: Callable[[Part], None]) -> None:
    """Strike out what was written by workers that could not tell of it any more."""
    store = CorpusFolder(job.output)
    for number in list(wave):
        part = store.part(number, job.fingerprint)
        if part is not None:
            _strike(wave, number, part, count)


def _stream(
    ray: ModuleType, job: CorpusJob, where: Where, tables: list[pyarrow.Table]
) -> Iterator[tuple[int, Part]]:
    with watched(ray) as register:
        results = (
            ray.data.from_arrow(tables)
            .map_batches(
                GroupWorker,
                fn_constructor_args=(job, register),
                batch_size=None,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(
                    size=_pool(ray, where, len(tables)),
                    max_tasks_in_flight_per_actor=1,  # a worker that is free takes the next group
                ),
                num_cpus=where.threads,
                num_gpus=where.gpus_per_worker or None,
            )
            .iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        )
        for batch in results:
            for row in batch.to_pylist():
                if row["fatal"] is not None:
                    raise SlalomError(row["fatal"])
                yield row["number"], Part(row["documents"], row["errors"])


class GroupWorker:
    """A worker as Ray Data calls it. The model is opened with the first group, so that its error is told."""

    def __init__(self, job: CorpusJob, register: ActorHandle[object]):
        import ray

        context = ray.get_runtime_context()
        ray.get(register.add.remote(context.get_actor_id(), context.current_actor, context.get_node_id()))
        self._job, self._worker = job, None

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        group = from_table(table)
        try:
            self._worker = self._worker or Worker(self._job)
            part, fatal = self._worker(group), None
        except SlalomError as error:
            part, fatal = Part(0, 0), str(error)
        pa = arrow()
        fields = [(name, pa.int64()) for name in ("number", "documents", "errors")] + [("fatal", pa.string())]
        row = {"number": group.number, "documents": part.documents, "errors": part.errors, "fatal": fatal}
        return pa.Table.from_pylist([row], schema=pa.schema(fields))


def _pool(ray: ModuleType, where: Where, groups: int) -> int:
    """As many workers as were asked for, as there is work for, and as the cluster has room for now."""
    have = ray.cluster_resources()
    room = [have.get("CPU", 0) / where.threads]
    if where.gpus_per_worker:
        room.append(have.get("GPU", 0) / where.gpus_per_worker)
    return max(1, min(where.workers, groups, int(min(room))))


def _lost(ray: ModuleType, error: BaseException) -> bool:
    """Whether a part of the cluster failed, not the work."""
    lost = (
        ray.exceptions.RayActorError,
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.ObjectLostError,
        ray.exceptions.OutOfMemoryError,
        ray.exceptions.RaySystemError,
    )
    return isinstance(error, lost)


@contextmanager
def _connected(ray: ModuleType, where: Where) -> Generator[None]:
    """The cluster at the address, or one on this machine that ends with the run."""
    if ray.is_initialized():  # the caller's own
        yield
        return
    quiet: Record = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if where.address is not None:
            _knock(where.address)
            ray.init(where.address, **quiet)
        else:
            _start(ray, num_cpus=where.workers * where.threads, object_store_memory=_STORE_BYTES, **quiet)
    except Exception as error:  # Ray raises a bare one where a node is slow to start
        at = "on this machine" if where.address is None else f"at {where.address!r}"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"no Ray cluster could be reached {at}: {reason}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _start(ray: ModuleType, **settings: object) -> None:
    """A cluster of this machine alone: Ray's servers listen on the loopback interface and on no other."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # as Ray itself has it on macOS and on Windows
    try:
        ray.init("local", include_dashboard=False, **settings)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
    host = ray.util.get_node_ip_address()
    if not ip_address(host).is_loopback:
        ray.shutdown()
        raise RuntimeError(
            f"Ray {ray.__version__} would listen on {host}, for the whole network; start a cluster that is "
            "guarded, and give its address (docs/corpus.md)"
        )


def _knock(address: str) -> None:
    """Ray waits for many minutes where nobody answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray writes past the terminal otherwise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Ray tells itself of its own settings is not the user's
            import ray
            import ray.data

            ray.data.DataContext.get_current().enable_progress_bars = False
    except ImportError as error:
        raise MissingExtraError("ray", "cluster", "explaining with several workers") from error
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    return ray


def to_table(group: DocumentGroup) -> pyarrow.Table:
    """A group as a table, to be sent to a worker."""
    pa = arrow()
    columns = {
        "number": pa.array([group.number] * len(group.documents), pa.int64()),
        "row": pa.array([one.row for one in group.documents], pa.int64()),
        "id": pa.array([one.id for one in group.documents], pa.string()),
        "text": pa.array([one.text for one in group.documents], pa.large_binary()),
        "digest": pa.array([one.digest for one in group.documents], pa.string()),
        "problem": pa.array([one.problem for one in group.documents], pa.string()),
    }
    return pa.table(columns)


def from_table(table: pyarrow.Table) -> DocumentGroup:
    """The group in a table made by `to_table`."""
    rows = table.to_pylist()
    number = rows[0]["number"]
    return DocumentGroup(
        number, tuple(CorpusDocument(**{k: v for k, v in r.items() if k != "number"}) for r in rows)
    )
