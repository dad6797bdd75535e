"""The runner: methods × documents × protocols, one finished document after the other, resumable."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slalom import explainers
from slalom.api import Explainer, Target
from slalom.checks import at_least_one
from slalom.data.dataset import Document
from slalom.errors import InputError, SlalomError
from slalom.evaluate import (
    Judge,
    Variant,
    every_method,
    every_protocol,
    parse_methods,
    parse_protocols,
    store,
)
from slalom.evaluate.document import EvaluationPlan, Tick, work
from slalom.evaluate.protocol import Measure
from slalom.evaluate.results import Finished, Results, check_pyarrow
from slalom.evaluate.store import EvaluationFolder
from slalom.files import Record
from slalom.label_counts import label_counts
from slalom.models.target import choose_target, two_labels
from slalom.models.torch import give_back
from slalom.request import Request
from slalom.units import Units

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all (documents × methods) and what is being done."""

CUT = 256


def evaluate(
    explainer: Explainer,
    documents: Iterable[Document],
    methods: Sequence[str] | None = None,
    protocols: Sequence[str | Measure] | None = None,
    out: str | os.PathLike[str] = "evaluation",
    *,
    target: Target = None,
    budget: int | Literal["auto"] = "auto",
    seed: int = 0,
    units: Units = "tokens",
    cut: int = CUT,
    corpus: Iterable[Document] | None = None,
    source: str = "given",
    workers: int = 1,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Results:
    """Explain every document by every method and judge every explanation by every protocol.

    What a method or a protocol cannot do becomes a row that says why; the run goes on.

    Args:
        explainer: the model.
        documents: what to explain (`slalom.data.read` reads them).
        methods: names with options, `"lime:budget=500"`, `"slalom:score=importance"`; by default all that
            the model allows.
        protocols: likewise, or functions that are declared protocols; by default those that apply and do
            not explain texts again.
        out: a directory. Finished documents stay in it whatever happens; the same call continues there.
        target: the label to explain; by default the one that is predicted.
        budget: the most queries of a method that has no budget in its name.
        seed: the same seed gives the same result.
        units: what is scored, removed and kept (docs/units.md).
        cut: texts are cut to this many tokens.
        corpus: labelled documents, for Naive Bayes and agreement with it.
        source: what the documents are called.
        workers: processes that share the documents.
        fresh: begin again where `out` holds a run with other settings.
        progress: called with what is done and what there is to do.

    Returns:
        All measurements; `to_frame()` makes a table of them, `slalom.evaluate.table.Table` the means.

    Raises:
        InputError: for documents, methods or settings that cannot be used.

    Example:
        >>> import tempfile
        >>> from slalom import Explainer
        >>> from slalom.data import Document
        >>> from slalom.evaluate.run import evaluate
        >>> reviews = [Document("an honest, moving film"), Document("dull and far too long")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     results = evaluate(Explainer(), reviews, ["occlusion", "random"], ["deletion"], folder)
        >>> sorted({row.method for row in results.measurements})
        ['occlusion', 'random']
    """
    check_pyarrow()
    chosen, labelled = tuple(documents), None if corpus is None else tuple(corpus)
    _check(chosen, cut, workers)
    explainer, target = _between(explainer, target, chosen[0])
    call = {"target": target, "budget": budget, "seed": seed, "units": units}
    plan = _plan(explainer, chosen, methods, protocols, labelled, call, cut)
    names = store.names(chosen)
    keys = [store.key(name, document) for name, document in zip(names, chosen, strict=True)]
    with EvaluationFolder(
        out, store.settings(explainer.model, plan, source, labelled), fresh=fresh
    ) as folder:
        jobs = [job for job in zip(chosen, names, keys, strict=True) if job[2] not in folder.finished]
        steps = _Steps(progress, len(plan.variants), len(chosen), len(chosen) - len(jobs))

        def keep(finished: Finished) -> None:
            folder.add(finished)
            steps.finished()

        run_all(explainer, jobs, plan, workers, steps.tick, keep)
        results = Results(folder.settings, tuple(folder.finished[key] for key in keys))
    results.write(out)
    return results


def _between(explainer: Explainer, target: Target, first: Document) -> tuple[Explainer, Target]:
    """For a pair of labels, the model of these two alone: protocols then judge by them, too."""
    if target is not None and not explainer.labels:
        explainer.model.tokenize(first.text)  # a function's labels are known from its first text on
    model, label = two_labels(explainer.model, target)
    return (explainer if model is explainer.model else Explainer(model)), label


class _Steps:
    """Tells a caller how far the run is."""

    def __init__(self, progress: Progress | None, methods: int, documents: int, done: int):
        self._progress, self._methods, self._documents, self._done = progress, methods, documents, done
        self._here = 0
        self.tick("")

    def tick(self, label: str) -> None:
        """A method begins."""
        if self._progress is not None:
            steps = self._done * self._methods + self._here
            self._progress(steps, self._documents * self._methods, label)
        self._here += bool(label)

    def finished(self) -> None:
        """A document is finished."""
        self._done, self._here = self._done + 1, 0
        self.tick("")


def _check(documents: Sequence[Document], cut: int, workers: int) -> None:
    if not documents:
        raise InputError("no documents to evaluate on")
    at_least_one(cut=cut, workers=workers)


def _plan(
    explainer: Explainer,
    documents: Sequence[Document],
    methods: Sequence[str] | None,
    protocols: Sequence[str | Measure] | None,
    corpus: Sequence[Document] | None,
    call: Record,
    cut: int,
) -> EvaluationPlan:
    """What is done with every document; refuses what no document could bring about."""
    model, labelled = explainer.model, corpus is not None
    if methods is None:
        methods = every_method(inside=model.torch is not None, labelled=labelled)
    if protocols is None:
        rationales = any(document.maps for document in documents)
        protocols = every_protocol(rationales=rationales, labelled=labelled)
    chosen, judges = parse_methods(methods), parse_protocols(protocols)
    for variant in chosen:
        _orderly(variant, call)
    if call["target"] is not None and model.labels:
        choose_target(model, call["target"], np.zeros(len(model.labels)))
    counts = label_counts(model, corpus) if corpus is not None and _counted(chosen, judges.values()) else None
    return EvaluationPlan(chosen, judges, dict(call), cut, call["seed"], counts)


def _counted(chosen: Iterable[Variant], judges: Iterable[Judge]) -> bool:
    """Whether a method or a protocol asks how often tokens stand in texts of every label."""
    return any(judge.protocol.needs == "label counts" for judge in judges) or any(
        "data" in explainers.options(variant.method) and "data" not in variant.call for variant in chosen
    )


def _orderly(variant: Variant, call: Record) -> None:
    """Raise now what every single explanation would raise."""
    Request.of({**call, **variant.call, "method": variant.method})


Job = tuple[Document, str, str]
"""A document, its name and its key."""


def run_all(
    explainer: Explainer,
    jobs: Sequence[Job],
    plan: EvaluationPlan,
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
    plan: EvaluationPlan | None = None


_HERE = _Worker()


def _parcel(explainer: Explainer, plan: EvaluationPlan) -> bytes:
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
