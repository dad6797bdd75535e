"""Explanations of many documents, on one machine or many: groups in, parts out, each exactly once."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import islice
from typing import Literal

from slalom.checks import at_least_one
from slalom.corpus import schema
from slalom.corpus.schema import GROUP, GROUP_CHARACTERS, MAX_CHARACTERS, DocumentGroup
from slalom.corpus.source import Columns, groups, model_identity, model_source, open_source
from slalom.corpus.store import MANIFEST, SUCCESS, CorpusFolder, Part, canonical, locked, part_number
from slalom.corpus.work import CorpusJob, Worker
from slalom.errors import InputError
from slalom.files import Record, plain
from slalom.models.endpoint import Endpoint
from slalom.models.prompt import Prompt
from slalom.models.torch import BATCH_TOKENS
from slalom.models.torch.engines import EngineName
from slalom.units import Units

Progress = Callable[["Totals"], None]


@dataclass(frozen=True)
class Totals:
    """What a run came to. `skipped` of the documents were explained before this call."""

    documents: int = 0
    errors: int = 0
    parts: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def plus(self, part: Part, seconds: float, before: bool = False) -> Totals:
        return Totals(
            self.documents + part.documents,
            self.errors + part.errors,
            self.parts + 1,
            self.skipped + part.documents * before,
            seconds,
        )

    @property
    def rate(self) -> float:
        """Documents explained per second of this call."""
        return (self.documents - self.skipped) / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Where:
    """On what a corpus is explained: this process, or workers of a Ray cluster."""

    workers: int = 1
    gpus_per_worker: float = 0.0
    address: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        at_least_one(workers=self.workers, threads=self.threads)
        if self.gpus_per_worker < 0:
            raise InputError(f"gpus_per_worker must not be negative; got {self.gpus_per_worker!r}")

    @property
    def alone(self) -> bool:
        """Whether this process does it all."""
        return self.workers == 1 and self.address is None and not self.gpus_per_worker


def explain_corpus(
    source: str,
    output: str,
    *,
    text: str | None = None,
    id: str | None = None,
    split: str | None = None,
    limit: int | None = None,
    model: str | None = None,
    device: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    engine: EngineName | None = None,
    engine_tolerance: float | None = None,
    prompt: Prompt | None = None,
    labels: Mapping[str, str] | Sequence[str] | None = None,
    endpoint: Endpoint | None = None,
    target: str | int | tuple[str | int, str | int] | None = None,
    method: str = "slalom",
    budget: int | Literal["auto"] = "auto",
    seed: int = 0,
    granularity: str = "positions",
    units: Units = "words",
    long: str = "cut",
    options: Record | None = None,
    where: Where | None = None,
    resume: bool | None = False,
    fresh: bool = False,
    keep_text: bool = False,
    tokens_table: bool = False,
    group: int = GROUP,
    max_characters: int = MAX_CHARACTERS,
    progress: Progress | None = None,
) -> Totals:
    """Explain every document of a corpus; the explanations go to a directory of Parquet files.

    Args:
        source: a Parquet, CSV or JSON lines file, a folder of them or of .txt files, a pattern with `*`, or
            a data set of the hub. Paths are local or any address that fsspec knows.
        output: the directory.
        text, id, split: columns, see docs/corpus.md.
        limit: the first documents only.
        model: a directory or hub id; by default the bundled model.
        device, batch_tokens, engine, engine_tolerance: as an Explainer takes them, but that batches have a
            fixed size: batches that tune themselves round differently from run to run.
        prompt, labels, endpoint: of a language model, as an Explainer takes them. Where an endpoint's limit
            is reached, the run stops with a StoppedError. It goes on with `resume`, and nothing is asked
            twice.
        target, method, budget, seed, granularity, units, long, options: as an Explainer is called with.
        where: this process, or how many workers of which Ray cluster.
        resume: go on with an unfinished run of the same corpus and settings; damaged parts are made anew.
        fresh: begin again where the directory holds another run.
        keep_text, tokens_table: also write the texts, or a table with a row for each token.
        group: documents of a part.
        max_characters: longer texts become rows that say so.
        progress: called with the totals so far.

    Returns:
        How many documents were explained, failed and kept from before, and how fast.

    Raises:
        InputError: for a corpus or settings that cannot be used.
        StoppedError: where an endpoint's limit is reached.

    Example:
        >>> import pathlib, tempfile
        >>> from slalom.corpus import explain_corpus
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     reviews = pathlib.Path(folder, "reviews.csv")
        ...     _ = reviews.write_text("text" + chr(10) + "a great film" + chr(10) + "an awful film")
        ...     totals = explain_corpus(str(reviews), f"{folder}/explained", target="positive")
        ...     len(list(pathlib.Path(folder, "explained").rglob("*.parquet"))) > 0
        True
    """
    at_least_one(limit=limit, group=group, max_characters=max_characters, batch_tokens=batch_tokens)
    call = {"target": target, "method": method, "budget": budget, "seed": seed, "granularity": granularity}
    call |= {"units": plain(units), "long": long} | dict(options or {})
    _check_call(call)
    access: Record = {"device": device, "batch_tokens": batch_tokens}
    access |= {"engine": engine, "engine_tolerance": engine_tolerance}
    if endpoint is not None:
        access |= {"batch_tokens": None, "endpoint": endpoint}
    if prompt is not None:
        access |= {"prompt": prompt, "labels": labels}
    where = where or Where()
    store = CorpusFolder(output)
    corpus = open_source(source, Columns(text, id, split), max_characters)
    settings = {
        "call": call,
        "columns": {"text": text, "id": id, "split": split},
        "limit": limit,
        "keep_text": keep_text,
        "tokens_table": tokens_table,
        "group": [group, GROUP_CHARACTERS],
        "max_characters": max_characters,
        "access": access if endpoint is None else {**access, "endpoint": endpoint.identity},
        "threads": where.threads,
    }
    known = model_identity(model) if endpoint is None else {"name": endpoint.model}
    manifest = _manifest(corpus.identity(), known, settings)
    job = CorpusJob(
        store.address,
        manifest["fingerprint"],
        model_source(model),
        access,
        call,
        keep_text=keep_text,
        tokens=tokens_table,
        threads=where.threads,
    )
    cut = groups(islice(corpus.documents(), limit), group)
    if fresh:
        _clear(store)
    return _prepare(store, manifest, resume) or _locked(store, manifest, job, where, cut, resume, progress)


def _clear(store: CorpusFolder) -> None:
    if MANIFEST in store.names():
        with locked(store):
            store.clear()


def _locked(
    store: CorpusFolder,
    manifest: Record,
    job: CorpusJob,
    where: Where,
    cut: Iterator[DocumentGroup],
    resume: bool | None,
    progress: Progress | None,
) -> Totals:
    store.create(job.tokens)
    with locked(store):
        finished = _prepare(store, manifest, resume)  # again: another run may have ended a moment ago
        if finished is not None:
            return finished
        store.write_json(MANIFEST, manifest)
        done = store.parts(job.fingerprint)
        finished = _finished(store)
        if finished is not None and len(done) == finished.parts:
            return finished
        store.remove(SUCCESS)
        return _run(store, job, where, cut, done, progress)


def _run(
    store: CorpusFolder,
    job: CorpusJob,
    where: Where,
    cut: Iterator[DocumentGroup],
    done: dict[int, Part],
    progress: Progress | None,
) -> Totals:
    start = time.perf_counter()
    totals = Totals()

    def count(part: Part, before: bool = False) -> None:
        nonlocal totals
        totals = totals.plus(part, time.perf_counter() - start, before)
        if progress is not None:
            progress(totals)

    def missing() -> Iterator[DocumentGroup]:
        for group in cut:
            if group.number in done:
                count(done.pop(group.number), before=True)
            else:
                yield group

    if where.alone:
        _alone(job, missing(), count)
    else:
        from slalom.corpus.cluster import explain_groups

        explain_groups(job, where, missing(), count)
    if totals.documents == 0:
        raise InputError("the corpus holds no document")
    store.tidy()
    store.write_json(SUCCESS, asdict(totals) | {"fingerprint": job.fingerprint})
    return totals


def _alone(job: CorpusJob, missing: Iterator[DocumentGroup], count: Callable[[Part], None]) -> None:
    worker = None
    for group in missing:
        worker = worker or Worker(job)
        count(worker(group))


def _manifest(source: Record, model: Record, settings: Record) -> Record:
    what = {
        "slalom": version("slalom-xai"),
        "schema": schema.VERSION,
        "input": source,
        "model": model,
        "settings": settings,
    }
    return what | {"fingerprint": hashlib.sha256(canonical(what).encode()).hexdigest()}


def _prepare(store: CorpusFolder, manifest: Record, resume: bool | None) -> Totals | None:
    """The totals of a run that is finished already; raises where the output belongs to another run.

    Who resumes has the parts checked, also those of a finished run: then there are no totals yet.
    """
    names = store.names()
    there = store.read_json(MANIFEST) if MANIFEST in names else None
    parts = [name for name in names if part_number(name) is not None]
    if there is None:
        if any(name.endswith(".parquet") for name in names):
            raise InputError(f"{store.given!r} holds Parquet files of something else; choose another output")
        return None
    if there.get("fingerprint") != manifest["fingerprint"]:
        raise InputError(
            f"{store.given!r} belongs to another run: {_difference(there, manifest)}; "
            "repeat the command as it was, choose another output, or begin again there (--fresh)"
        )
    if resume:
        return None
    finished = _finished(store)
    if finished is None and parts and resume is False:
        raise InputError(
            f"{store.given!r} holds an unfinished run ({len(parts)} parts): go on with it (--resume), "
            "or choose another output"
        )
    return finished


def _finished(store: CorpusFolder) -> Totals | None:
    """What the run in the directory came to, if it ended well; its parts may be damaged since."""
    success = store.read_json(SUCCESS)
    if success is None:
        return None
    found = {name: success[name] for name in ("documents", "errors", "parts")}
    return Totals(**found, skipped=success["documents"])


def _difference(there: object, here: object, where: str = "") -> str:
    """The first thing in which two manifests differ, in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in [*here, *(key for key in there if key not in here)]:
            if key != "fingerprint" and there.get(key) != here.get(key):
                return _difference(there.get(key), here.get(key), f"{where} {key}".strip())
    return f"{where} is {there!r:.200} there and {here!r:.200} here"


def _check_call(call: Record) -> None:
    """Refuse wrong settings before a model is loaded."""
    from slalom.request import Request

    named = ("target", "method", "budget", "seed", "granularity")
    more = {"units": call["units"], "long": call["long"]}
    options = {key: value for key, value in call.items() if key not in (*named, *more)}
    Request(
        *(call[name] for name in named),
        every_class=False,
        side="both",
        progress=None,
        options=options,
        **more,
    )
