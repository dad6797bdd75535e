"""Documents one after the other, or shared between processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from slalom.api import Explainer
from slalom.data.dataset import Document
from slalom.errors import InputError, SlalomError
from slalom.evaluate.document import Plan, Tick, work
from slalom.evaluate.results import Finished
from slalom.models.torch.batches import give_back

Job = tuple[Document, str, str]
"""A document, its name and its key."""


def run_all(
    explainer: Explainer,
    jobs: Sequence[Job],
    plan: Plan,
    workers: int,
    tick: Tick,
    done: Callable[[Finished], None],
) -> None:
    """Work through all documents; `done` is called in this process, whenever one is finished.

    Several workers are processes of their own, each with a copy of the model and its share of the threads.
    """
    if min(workers, len(jobs)) <= 1:
        for document, name, key in jobs:
            done(work(explainer, document, name, key, plan, tick))
            give_back()
        return
    parcel = _parcel(explainer, plan)
    threads = max(1, (os.cpu_count() or 1) // workers)
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _begin, (parcel, threads))
    try:
        for future in as_completed([pool.submit(_work, job) for job in jobs]):
            done(future.result())
    except BaseException as error:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()  # rather than wait for documents that nobody will keep
        if not isinstance(error, BrokenProcessPool):
            raise
        raise SlalomError(
            "a worker process ended unexpectedly (out of memory?); finished documents are kept, start again "
            "with fewer workers to continue"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass
class _Worker:
    """What a worker process holds between two documents."""

    explainer: Explainer | None = None
    plan: Plan | None = None


_HERE = _Worker()


def _parcel(explainer: Explainer, plan: Plan) -> bytes:
    try:
        return pickle.dumps((explainer, plan))
    except Exception as error:
        raise InputError(
            f"this model cannot be sent to other processes ({type(error).__name__}: {error}); use workers=1"
        ) from error


def _begin(parcel: bytes, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    _HERE.explainer, _HERE.plan = pickle.loads(parcel)


def _work(job: Job) -> Finished:
    if _HERE.explainer is None or _HERE.plan is None:
        raise SlalomError("this worker process was not prepared")
    document, name, key = job
    try:
        return work(_HERE.explainer, document, name, key, _HERE.plan, lambda _: None)
    finally:
        give_back()


def _end_with_parent() -> None:
    """A worker would otherwise wait for ever for a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
