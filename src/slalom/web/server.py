"""Running the application with uvicorn until somebody ends it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from slalom.errors import InputError, MissingExtraError

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("uvicorn", "web", "a web server") from error
from slalom.web.connections import Connection, room

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

    def __init__(self, app: Any):
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


def run(app: Any, listener: socket.socket, host: str, say: Callable[[str], None]) -> None:
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
def ending() -> Iterator[None]:
    """While it lasts, SIGTERM does what Ctrl-C does, and both are a normal end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
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
