"""Running the application with uvicorn until somebody ends it."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from slalom.errors import InputError, MissingExtraError

GRACE = 3
"""Seconds for running requests to end when the server is told to."""


def run(app: Any, host: str, port: int, say: Callable[[str], None], *, guarded: bool) -> None:
    """Serve until SIGTERM or Ctrl-C, both of which are a normal end."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("uvicorn", "web", "a web server") from error
    with closing(listen(host, port)) as listener:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # addresses of reports are secrets
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=GRACE,
        )
        server = uvicorn.Server(config)
        say(f"slalom is at {address(host, listener.getsockname()[1])} (Ctrl-C ends it)")
        if not guarded and not _is_local(host):
            say("warning: whoever reaches this port can use the models; set SLALOM_TOKEN to ask for a token")
        # uvicorn ends in good order and then raises the signal again, for whoever handled it before.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            return


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises an InputError where it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --host or --port"
        ) from error


def address(host: str, port: int) -> str:
    """Where a browser on this machine finds the server."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
