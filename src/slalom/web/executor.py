"""Threads that do the work, a bounded queue in front of them, and an event loop that only waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request

from slalom.errors import SlalomError
from slalom.web.cancellation import Stopped, Watch

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
    def telling(self, tell: Callable[[], None]) -> Iterator[None]:
        """While it lasts, `tell` is called when the server is to end."""
        self._tell.add(tell)
        try:
            yield
        finally:
            self._tell.discard(tell)


@dataclass(frozen=True, eq=False)
class Job:
    """A piece of work that somebody waits for."""

    watch: Watch
    future: Future[Any]
    closing: Closing

    async def follow(self, request: Request) -> AsyncIterator[int]:
        """The number of queries so far, whenever it grew, until the work is done.

        Raises Stopped as soon as nobody wants the work any more, and tells it to end; it does so on its own.
        """
        done = asyncio.Event()
        self.future.add_done_callback(_setter(done))
        shown, silent = -1, 0.0
        with self.closing.telling(partial(self.watch.stop, "closing")):
            try:
                while not self.future.done():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(done.wait(), min(TICK, max(self.watch.left, 0.001)))
                    if await self._over(request):
                        return
                    silent += TICK
                    if self.watch.queries > shown or silent >= HEARTBEAT:
                        shown, silent = self.watch.queries, 0.0
                        yield shown
            finally:
                if not self.future.done():
                    self.watch.stop("left")
                    self.future.cancel()

    async def _over(self, request: Request) -> bool:
        if self.future.done():
            return True
        if await request.is_disconnected():
            self.watch.stop("left")
        self.watch.check()
        return False

    def result(self) -> Any:
        """What the work returned; raises what it raised."""
        try:
            return self.future.result(timeout=0)
        except CancelledError:
            raise Stopped("closing") from None

    async def wait(self, request: Request) -> Any:
        """Follows to the end."""
        async for _ in self.follow(request):
            pass
        return self.result()


class Desk:
    """A few threads, and a few places to wait for them."""

    def __init__(self, name: str, concurrent: int, waiting: int, closing: Closing):
        self._pool = ThreadPoolExecutor(concurrent, thread_name_prefix=f"slalom-{name}")
        self._room = concurrent + waiting
        self._closing = closing
        self._inside: set[Watch] = set()

    @property
    def inside(self) -> int:
        """How many pieces of work run or wait."""
        return len(self._inside)

    def start(self, watch: Watch, work: Callable[[], Any]) -> Job:
        """Hands in a piece of work; raises Full where even the places to wait are taken."""
        if self.inside >= self._room:
            raise Full("the server is busy and its queue is full; try again in a few seconds")

        def run() -> Any:
            watch.check()  # whoever left while waiting need not be served
            return work()

        self._inside.add(watch)
        try:
            future = self._pool.submit(run)
        except RuntimeError as error:
            self._inside.discard(watch)
            raise Stopped("closing") from error
        future.add_done_callback(lambda _: self._inside.discard(watch))
        return Job(watch, future, self._closing)

    def close(self) -> None:
        """Takes nothing more. What runs has been told to end, and is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _setter(done: asyncio.Event) -> Callable[[object], None]:
    loop = asyncio.get_running_loop()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(done.set)

    return tell
