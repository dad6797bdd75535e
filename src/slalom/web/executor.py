"""Threads that do the work, a bounded queue in front of them, and an event loop that only waits.

Work can be stopped: every batch of queries and every turn of a loop is a place to stop at.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, TypeVar

import numpy as np
from starlette.requests import Request

from slalom.errors import InputError, ModelError, SlalomError
from slalom.models import open_model
from slalom.models.protocol import Model, Text
from slalom.models.proxy import Proxy
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, IntArray, Tokens

T = TypeVar("T")

CHUNK = 4096
"""The least tokens that are asked about before the next look at whether anybody still wants the answer."""

_SPECIAL = 2
"""Tokens that models put around a query, more or less."""

Why = Literal["left", "late", "closing"]


class Stopped(Exception):  # noqa: N818 - not an error: somebody wanted it
    """Nobody waits for the answer any more."""

    def __init__(self, why: Why):
        super().__init__(why)
        self.why: Why = why


class Cancellation:
    """Shared by a piece of work and whoever waits for it: the queries so far one way, "stop" the other."""

    def __init__(self, seconds: float):
        self.queries = 0
        self._deadline = time.monotonic() + seconds
        self._why: Why | None = None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def stop(self, why: Why) -> None:
        """Ask the work to end the next time it looks."""
        self._why = self._why or why

    def check(self) -> None:
        """Raises where the work is to end."""
        if self.left < 0:
            self.stop("late")
        if self._why is not None:
            raise Stopped(self._why)

    def report(self, queries: int) -> None:
        """The `progress` of an explanation: notes the queries, and checks."""
        self.queries = max(self.queries, queries)
        self.check()


class CancellableModel(Proxy):
    """A model that looks at the watch between batches, so that a long set of queries can be stopped too."""

    def __init__(self, model: Model, cancellation: Cancellation, lock: threading.Lock):
        super().__init__(model)
        self._cancellation = cancellation
        self._lock = lock
        self._asked = 0

    def tokenize(self, text: Text, explain: Literal["both", "first", "second"] = "both") -> Tokens:
        with self._lock:
            return super().tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        answers = np.zeros((len(perturbations), len(self.labels)))
        for rows in self._watched(tokens, perturbations):
            answers[rows] = super().logits(tokens, perturbations[rows])
        return answers

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        answers = np.zeros((len(perturbations), len(self.labels)))
        slopes = np.zeros(len(perturbations.positions))
        for rows in self._watched(tokens, perturbations):
            answers[rows], part = super().gradients(tokens, perturbations[rows], weights)
            slopes[np.isin(perturbations.rows, rows)] = part
        return answers, slopes

    def _watched(self, tokens: Tokens, perturbations: Perturbations) -> Iterator[IntArray]:
        """The queries in chunks; the watch is looked at before and after each."""
        for rows in _chunks(tokens, perturbations, max(CHUNK, 2 * self.batch_tokens)):
            self._cancellation.report(self._asked)
            yield np.sort(rows)
            self._asked += len(rows)
        self._cancellation.report(self._asked)


def _chunks(tokens: Tokens, queries: Perturbations, size: int) -> Iterator[IntArray]:
    """The queries, shortest first, in chunks of about `size` tokens; batches hold queries of one length."""
    sizes = np.array([len(piece) for piece in tokens.pieces], dtype=np.int64)
    lengths = np.bincount(queries.rows, weights=sizes[queries.positions], minlength=len(queries)) + _SPECIAL
    order = np.argsort(lengths, kind="stable")
    waiting: list[IntArray] = []
    room = float(size)
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        step = max(1, int(size // lengths[group[:1]].sum())) if len(group) else 1
        for start in range(0, len(group), step):
            part = group[start : start + step]
            if waiting and lengths[part].sum() > room:
                yield np.concatenate(waiting)
                waiting, room = [], float(size)
            waiting.append(part)
            room -= lengths[part].sum()
    if waiting:
        yield np.concatenate(waiting)


TICK = 0.1
"""Seconds between two looks at the client and at the work."""
HEARTBEAT = 5.0
"""Seconds after which a follower is told the same number again, so that no proxy thinks the line is dead."""


class Full(SlalomError):  # noqa: N818 - a state of the server, not a mistake
    """Too many requests wait already."""


class Closing:
    """Whether the server is being shut down. Whoever waits for something registers here, and is told."""

    def __init__(self) -> None:
        self.begun = False
        self._tell: set[Callable[[], None]] = set()

    def begin(self) -> None:
        """Tells everybody; called in the event loop."""
        self.begun = True
        for tell in tuple(self._tell):
            tell()

    @contextmanager
    def telling(self, tell: Callable[[], None]) -> Generator[None]:
        """While it lasts, `tell` is called when the server is to end."""
        self._tell.add(tell)
        try:
            yield
        finally:
            self._tell.discard(tell)


@dataclass(frozen=True, eq=False)
class QueuedJob(Generic[T]):
    """A piece of work that somebody waits for."""

    cancellation: Cancellation
    future: Future[T]
    closing: Closing

    async def follow(self, request: Request) -> AsyncIterator[int]:
        """The number of queries so far, whenever it grew, until the work is done.

        Raises Stopped as soon as nobody wants the work any more, and tells it to end; it does so on its own.
        """
        done = asyncio.Event()
        self.future.add_done_callback(_setter(done))
        shown, silent = -1, 0.0
        with self.closing.telling(partial(self.cancellation.stop, "closing")):
            try:
                while not self.future.done():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(done.wait(), min(TICK, max(self.cancellation.left, 0.001)))
                    if await self._over(request):
                        return
                    silent += TICK
                    if self.cancellation.queries > shown or silent >= HEARTBEAT:
                        shown, silent = self.cancellation.queries, 0.0
                        yield shown
            finally:
                if not self.future.done():
                    self.cancellation.stop("left")
                    self.future.cancel()

    async def _over(self, request: Request) -> bool:
        if self.future.done():
            return True
        if await request.is_disconnected():
            self.cancellation.stop("left")
        self.cancellation.check()
        return False

    def result(self) -> T:
        """What the work returned; raises what it raised."""
        try:
            return self.future.result(timeout=0)
        except CancelledError:
            raise Stopped("closing") from None

    async def wait(self, request: Request) -> T:
        """Follows to the end."""
        async for _ in self.follow(request):
            pass
        return self.result()


class WorkQueue:
    """A few threads, and a few places to wait for them."""

    def __init__(self, name: str, concurrent: int, waiting: int, closing: Closing):
        self._pool = ThreadPoolExecutor(concurrent, thread_name_prefix=f"slalom-{name}")
        self._room = concurrent + waiting
        self._closing = closing
        self._inside: set[Cancellation] = set()

    @property
    def inside(self) -> int:
        """How many pieces of work run or wait."""
        return len(self._inside)

    def start(self, cancellation: Cancellation, work: Callable[[], T]) -> QueuedJob[T]:
        """Hands in a piece of work; raises Full where even the places to wait are taken."""
        if self.inside >= self._room:
            raise Full("the server is busy and its queue is full; try again in a few seconds")

        def run() -> T:
            cancellation.check()  # whoever left while waiting need not be served
            return work()

        self._inside.add(cancellation)
        try:
            future = self._pool.submit(run)
        except RuntimeError as error:
            self._inside.discard(cancellation)
            raise Stopped("closing") from error
        future.add_done_callback(lambda _: self._inside.discard(cancellation))
        return QueuedJob(cancellation, future, self._closing)

    def close(self) -> None:
        """Takes nothing more. What runs has been told to end, and is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _setter(done: asyncio.Event) -> Callable[[object], None]:
    loop = asyncio.get_running_loop()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(done.set)

    return tell


@dataclass(frozen=True, eq=False)
class ServedModel:
    """One model of the list."""

    name: str
    model: Model
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the model tokenizes: tokenizers are not made for several threads."""

    @property
    def described(self) -> dict[str, object]:
        """What the API says of it."""
        return {"name": self.name, "labels": self.model.labels or None}


class ModelRegistry:
    """The models by name."""

    def __init__(self, models: Mapping[str, object]):
        self.models = {name: ServedModel(name, _opened(name, source)) for name, source in models.items()}

    def __getitem__(self, name: str | None) -> ServedModel:
        """The place called `name`; without a name, the first."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise InputError(f"this server has no model {name!r}; choose one of: {', '.join(self.models)}")
        return self.models[name]


def _opened(name: str, source: object) -> Model:
    try:
        return open_model(source)
    except SlalomError as error:
        raise ModelError(f"the model {name!r} cannot be opened: {error}") from error
