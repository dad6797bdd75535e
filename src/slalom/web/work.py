"""Threads that do the work, a bounded queue in front of them, and an event loop that only waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from slalom.errors import SlalomError
from slalom.web.watch import Stopped, Watch

TICK = 0.1
"""Seconds between two looks at the client and at the work."""
HEARTBEAT = 5.0
"""Seconds after which a follower is told the same number again, so that no proxy thinks the line is dead."""


class Full(SlalomError):  # noqa: N818 - a state of the server, not a mistake
    """Too many requests wait already."""


@dataclass(frozen=True, eq=False)
class Job:
    """A piece of work that somebody waits for."""

    watch: Watch
    future: Future[Any]

    async def follow(self, request: Request) -> AsyncIterator[int]:
        """The number of queries so far, whenever it grew, until the work is done.

        Raises Stopped at the deadline or once the client is gone, and tells the work to stop.
        """
        done = asyncio.Event()
        self.future.add_done_callback(_setter(done))
        shown, silent = -1, 0.0
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
        if self.watch.left < 0:
            self.watch.stop("late")
            raise Stopped("late")
        if await request.is_disconnected():
            raise Stopped("left")
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

    def __init__(self, name: str, concurrent: int, waiting: int):
        self._pool = ThreadPoolExecutor(concurrent, thread_name_prefix=f"slalom-{name}")
        self._room = concurrent + waiting
        self._inside: set[Watch] = set()

    def start(self, watch: Watch, work: Callable[[], Any]) -> Job:
        """Hands in a piece of work; raises Full where even the places to wait are taken."""
        if len(self._inside) >= self._room:
            raise Full("the server is busy and its queue is full; try again in a few seconds")

        def run() -> Any:
            watch.report(0)  # whoever left while waiting need not be served
            return work()

        self._inside.add(watch)
        try:
            future = self._pool.submit(run)
        except RuntimeError as error:
            self._inside.discard(watch)
            raise Stopped("closing") from error
        future.add_done_callback(lambda _: self._inside.discard(watch))
        return Job(watch, future)

    def close(self) -> None:
        """Stops what runs, drops what waits, and waits for the threads."""
        for watch in tuple(self._inside):
            watch.stop("closing")
        self._pool.shutdown(wait=True, cancel_futures=True)


def _setter(done: asyncio.Event) -> Callable[[object], None]:
    loop = asyncio.get_running_loop()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(done.set)

    return tell
