"""Running the application with uvicorn until somebody ends it.

How many connections there may be, and how long one may keep the server waiting: uvicorn waits for ever for a
client that says nothing or half of a request, or does not read its answer. Here each of these has an end, and
where there are too many connections those that wait make room: those that have never asked before those that
may ask again, oldest first.
"""

from __future__ import annotations

import asyncio
import heapq
import ipaddress
import logging
import math
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from slalom.errors import InputError, MissingExtraError

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("uvicorn", "web", "a web server") from error
import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE = 3
"""Seconds for answers to be read when the server is told to end."""
LAST_CALL = 10
"""Whoever is just asking is still told that the server ends, until nobody has asked for so many turns …"""
TURN = 0.1
"""… of so many seconds each, which are longer where the machine is busy."""
LAST_SECONDS = 5.0
"""But no longer than this."""
HEADER_BYTES = 16_384

_log = logging.getLogger("slalom.web")


class Server(uvicorn.Server):
    """uvicorn, with bounds for its connections and an end at which everybody who waits gets an answer."""

    def __init__(self, app: FastAPI):
        self._state = app.state.slalom
        most, at_all, at_a_stroke = room(self._state.settings.limits.connections)
        protocol: Any = partial(Connection, most=most, at_all=at_all)
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                backlog=at_a_stroke,
                h11_max_incomplete_event_size=HEADER_BYTES,
                timeout_graceful_shutdown=GRACE,
                log_level="error",  # warnings are about what clients send: as many lines as they like
                access_log=False,  # addresses of reports are secrets
                server_header=False,
                proxy_headers=False,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.closing.begin()
        await self._last_call()
        latecomers = asyncio.create_task(self._close_latecomers())
        try:
            await super().shutdown(sockets)
        finally:
            latecomers.cancel()

    async def _last_call(self) -> None:
        state, end, quiet = self.server_state, time.monotonic() + LAST_SECONDS, 0
        while state.connections and quiet < LAST_CALL and time.monotonic() < end:
            asked = state.total_requests
            await asyncio.sleep(TURN)
            quiet = quiet + 1 if state.total_requests == asked else 0

    async def _close_latecomers(self) -> None:
        """uvicorn closes the connections it knows; a busy one hears of some that were accepted only later."""
        while True:
            await asyncio.sleep(TURN)
            for connection in list(self.server_state.connections):
                if not connection.transport.is_closing():
                    connection.shutdown()


def run(app: FastAPI, listener: socket.socket, host: str, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, and end the process."""
    server = Server(app)
    with suppress(KeyboardInterrupt):
        say(f"slalom is at {address(host, listener.getsockname()[1])} (Ctrl-C ends it)")
        if app.state.slalom.settings.token is None and not _is_local(host):
            say("warning: whoever reaches this port can use the models; set SLALOM_TOKEN to ask for a token")
        server.run(sockets=[listener])
    if app.state.slalom.busy:
        _log.error("a model has not come back in time; the server ends without it")
    sys.stdout.flush()
    sys.stderr.flush()
    # Python would wait for that model, and takes long to put all libraries away on a busy machine.
    os._exit(0)


@contextmanager
def ending() -> Generator[None]:
    """While it lasts, SIGTERM does what Ctrl-C does, and both are a normal end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def listening(host: str, port: int) -> Generator[socket.socket]:
    """A socket that listens there; raises an InputError where it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --host or --port"
        ) from error
    with listener:
        yield listener


def address(host: str, port: int) -> str:
    """Where a browser on this machine finds the server."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


HEADER_SECONDS = 10.0
"""For the head of a request to arrive, from the connection or the last answer on."""
READ_SECONDS = 30.0
"""For a client to make room for more of its answer."""
LINGER_SECONDS = 2.0
"""For a client to stop talking after its answer."""
YOUNG = 4.0
"""Seconds in which a new connection is left alone, so that a crowd does not push out who is about to ask."""
_WITH_BODY = ("POST", "PUT", "PATCH")


class _Line:
    """A transport that is closed gently: to hang up on a client that still talks would destroy its answer."""

    def __init__(self, transport: asyncio.Transport, talks: Callable[[], bool]):
        self._transport, self._talks = transport, talks
        self.lingers = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing() or not self._talks() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.lingers = True
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)
        with suppress(OSError, RuntimeError):  # the client may have hung up in between
            self._transport.write_eof()
            self._transport.resume_reading()


class Connection(H11Protocol):
    """uvicorn's connection, which ends when its client keeps it waiting.

    `most` connections may stay, `at_all` of them may exist for a moment.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        most: int,
        at_all: int,
    ):
        super().__init__(config, server_state, app_state, _loop)
        self._most, self._at_all = most, at_all
        self._application: ASGIApp = self.app  # pyright: ignore[reportAttributeAccessIssue]
        self.app = self._answer  # pyright: ignore[reportAttributeAccessIssue]
        self._requests = 0
        self._answered = False
        self._limit: asyncio.TimerHandle | None = None
        self.since: float | None = None
        """When it began to wait for its client; None while the client waits for it."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._line = _Line(transport, lambda: self.conn.their_state in (h11.SEND_BODY, h11.ERROR))
        super().connection_made(self._line)  # pyright: ignore[reportArgumentType]
        self._wait()
        if len(self.connections) > self._most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        try:
            if not self._line.lingers:
                super().data_received(data)
        except h11.ProtocolError:  # no HTTP, at a moment when uvicorn cannot say so
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        # Whatever the application may still say, the client has its answer.
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        super().send_400_response(msg)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.ProtocolError:
            self.transport.abort()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, with an eye on whether its client keeps it waiting."""

        async def heard() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                self.since = None
            return message

        async def told(message: Message) -> None:
            self.since = self.loop.time()
            try:
                async with asyncio.timeout(READ_SECONDS):
                    await send(message)
            except TimeoutError:
                self.transport.abort()
            self.since = None

        self._requests += 1
        self._stop_waiting()
        if scope.get("method") in _WITH_BODY:
            self.since = self.loop.time()
        try:
            await self._application(scope, heard, told)
        except asyncio.CancelledError:  # the server ends, and this client did not read what it was told
            self.transport.abort()
            await asyncio.sleep(0)  # until uvicorn knows
        finally:
            self._requests -= 1
            self._answered = True
            if self._requests == 0:  # the next request may have begun already
                self._wait()

    def _wait(self) -> None:
        self._stop_waiting()
        self.since = self.loop.time()
        self._limit = self.loop.call_later(HEADER_SECONDS, self._late, math.inf)

    def _stop_waiting(self) -> None:
        self.since = None
        if self._limit is not None:
            self._limit.cancel()

    def _late(self, unread: float) -> None:
        """Ends the connection, unless the client is still reading what there was to read."""
        left = self.transport.get_write_buffer_size()
        if 0 < left < unread or self._unread():
            self._limit = self.loop.call_later(HEADER_SECONDS, self._late, left)
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """Ends connections that keep the server waiting; young ones only where no more can be held."""
        before = self.loop.time() - YOUNG
        excess = len(self.connections) - self._most
        ours: list[Connection] = [one for one in self.connections if isinstance(one, Connection)]  # pyright: ignore[reportUnknownVariableType]
        waiting = [one for one in ours if one.since is not None]
        first = heapq.nsmallest(2 * excess, waiting, key=lambda one: (one._answered, one.since))
        silent = [one for one in first if not one._unread()]
        ended = [one for one in silent if (one.since or 0.0) <= before][:excess]
        if not ended and len(self.connections) > self._at_all:
            ended = silent[:1] or [self]
        for one in ended:
            self.connections.discard(one)
            one.transport.abort()

    def _unread(self) -> bool:
        """Whether its client has said something that a busy server has not looked at or begun with yet."""
        if self.conn.their_state is h11.DONE:
            return True
        own = self.transport.get_extra_info("socket")
        if own is None or own.fileno() < 0:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(own.fileno(), selectors.EVENT_READ)
            return bool(selector.select(0))


def room(wanted: int) -> tuple[int, int, int]:
    """How many connections may stay, how many may exist, and how many may be accepted at a stroke.

    All of them are files of this process: where those run out nobody is accepted any more. The system counts
    a connection when it is accepted, two turns of the event loop before it is counted here.
    """
    files = _files(4 * wanted + 256)
    at_a_stroke = max(1, min(128, files // 16))
    at_all = max(2, min(4 * wanted, files - 64 - 3 * at_a_stroke))
    return min(wanted, max(1, 3 * at_all // 4)), at_all, at_a_stroke


def _files(wanted: int) -> int:
    """How many files this process may have open, raised to `wanted` where that is allowed."""
    try:
        import resource
    except ImportError:  # Windows, where only memory sets a limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return max(soft, wanted)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
