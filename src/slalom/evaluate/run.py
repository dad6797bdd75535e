"""The runner: methods × documents × protocols, one finished document after the other, resumable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from slalom import evaluate as package
from slalom import explainers
from slalom.api import Explainer, Target
from slalom.data.dataset import Document
from slalom.errors import InputError
from slalom.evaluate import identity, specs
from slalom.evaluate.document import Plan
from slalom.evaluate.pool import run_all
from slalom.evaluate.results import Finished, Results, check_pyarrow
from slalom.evaluate.specs import Variant
from slalom.evaluate.store import Store
from slalom.label_counts import label_counts
from slalom.models.target import choose_target
from slalom.models.two_labels import two_labels
from slalom.request import Request
from slalom.units import Units

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all (documents × methods) and what is being done."""

CUT = 256


def evaluate(
    explainer: Explainer,
    documents: Iterable[Document],
    methods: Sequence[str] | None = None,
    protocols: Sequence[str] | None = None,
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

    methods: names with options, `"lime:budget=500"`, `"slalom:score=importance"`; by default all that the
    model allows. protocols: likewise; by default those that apply and do not explain texts again.
    out: a directory. Finished documents stay in it whatever happens; the same call continues there.
    units: what is scored, removed and kept (docs/units.md).
    cut: texts are cut to this many tokens. corpus: labelled documents, for Naive Bayes and agreement with it.
    source: what the documents are called. workers: processes that share the documents.

    What a method or a protocol cannot do becomes a row that says why; the run goes on.
    """
    check_pyarrow()
    chosen, labelled = tuple(documents), None if corpus is None else tuple(corpus)
    _check(chosen, cut, workers)
    explainer, target = _between(explainer, target, chosen[0])
    call = {"target": target, "budget": budget, "seed": seed, "units": units}
    plan = _plan(explainer, chosen, methods, protocols, labelled, call, cut)
    names = identity.names(chosen)
    keys = [identity.key(name, document) for name, document in zip(names, chosen, strict=True)]
    with Store(out, identity.settings(explainer.model, plan, source, labelled), fresh=fresh) as store:
        jobs = [job for job in zip(chosen, names, keys, strict=True) if job[2] not in store.finished]
        steps = _Steps(progress, len(plan.variants), len(chosen), len(chosen) - len(jobs))

        def keep(finished: Finished) -> None:
            store.add(finished)
            steps.finished()

        run_all(explainer, jobs, plan, workers, steps.tick, keep)
        results = Results(store.settings, tuple(store.finished[key] for key in keys))
    results.write(out)
    return results


def _between(explainer: Explainer, target: Any, first: Document) -> tuple[Explainer, Any]:
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
    for name, given in (("cut", cut), ("workers", workers)):
        if type(given) is not int or given < 1:
            raise InputError(f"{name} must be a positive whole number; got {given!r}")


def _plan(
    explainer: Explainer,
    documents: Sequence[Document],
    methods: Sequence[str] | None,
    protocols: Sequence[str] | None,
    corpus: Sequence[Document] | None,
    call: Mapping[str, Any],
    cut: int,
) -> Plan:
    """What is done with every document; refuses what no document could bring about."""
    model, labelled = explainer.model, corpus is not None
    if methods is None:
        methods = specs.every_method(inside=hasattr(model, "module"), labelled=labelled)
    if protocols is None:
        rationales = any(document.maps for document in documents)
        protocols = specs.every_protocol(rationales=rationales, labelled=labelled)
    chosen, judges = specs.methods(methods), specs.protocols(protocols)
    for variant in chosen:
        _orderly(variant, call)
    if call["target"] is not None and model.labels:
        choose_target(model, call["target"], np.zeros(len(model.labels)))
    counts = label_counts(model, corpus) if corpus is not None and _counted(chosen, judges) else None
    return Plan(chosen, judges, dict(call), cut, counts)


def _counted(chosen: Iterable[Variant], judges: Iterable[str]) -> bool:
    """Whether a method or a protocol asks how often tokens stand in texts of every label."""
    known = package.protocols()
    return any(known[name].needs == "label counts" for name in judges) or any(
        "data" in explainers.options(variant.method) and "data" not in variant.call for variant in chosen
    )


def _orderly(variant: Variant, call: Mapping[str, Any]) -> None:
    """Raise now what every single explanation would raise."""
    given = {"granularity": "positions", **call, **variant.call}
    general = (given.pop(name) for name in ("target", "budget", "seed", "granularity", "units"))
    target, budget, seed, granularity, units = general
    Request(target, variant.method, budget, seed, granularity, False, "both", None, given, units)
