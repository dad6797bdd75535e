"""The door: who may come in, with what, and what a browser may do with the answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slalom.errors import ModelError, SlalomError
from slalom.web import LOCAL, ServerSettings
from slalom.web.executor import Closing, Full, Stopped
from slalom.web.tasks import TooLong

BODY_SECONDS = 30.0
"""A request has to arrive within this time."""
CLOSING = "the server is being shut down"
LINKED = ("/reports/", "/corpora/")
"""Pages that a link opens; each has a key of its own where the server has a token."""
GUARDED = ("/api/", *LINKED)

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]]+)(:\d{0,5})?")
_log = logging.getLogger("slalom.web")


class _Refused(Exception):  # noqa: N818 - a control signal of this module
    def __init__(self, status: int, detail: str, **headers: str):
        # The rest of the request, if there is one, stays unread: the line cannot be used again.
        self.response = problem(status, detail, connection="close", **headers)


class _Gone(Exception):  # noqa: N818 - a control signal of this module
    """The client left before its request was complete."""


def problem(status: int, detail: str, **headers: str) -> JSONResponse:
    """An error as the API gives it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sayable = detail.encode("utf-8", "backslashreplace").decode()  # it may quote what was no valid text
    return JSONResponse({"detail": sayable}, status, headers=named)


def unexpected(error: BaseException) -> str:
    """Writes an error to the log, and gives the sentence that says so without telling what it was."""
    reference = secrets.token_hex(4)
    _log.error("unexpected error %s", reference, exc_info=error)
    return f"something unexpected went wrong; the server's log has it under {reference}"


def report_key(token: str | None, path: str) -> str | None:
    """What opens one page in place of the token: a link in a browser carries no headers."""
    return None if token is None else hmac.new(token.encode(), path.encode(), hashlib.sha256).hexdigest()


_STOPPED = {
    "late": (504, "the explanation took longer than this server allows; ask with a smaller budget or text"),
    "closing": (503, CLOSING),
    "left": (499, "the client left"),
}


@dataclass(frozen=True)
class Failure:
    """What a client is told."""

    status: int
    detail: str
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def response(self) -> JSONResponse:
        return problem(self.status, self.detail, **self.headers)


def answer_to(error: BaseException) -> Failure:
    """The answer to a request that ended with this error."""
    if isinstance(error, Stopped):
        return Failure(*_STOPPED[error.why])
    if isinstance(error, Full):
        return Failure(503, str(error), {"retry_after": "5"})
    if isinstance(error, TooLong):
        return Failure(413, str(error))
    # A model's own failure carries the words of whatever failed in it, which are for the log alone.
    broken = isinstance(error, ModelError) and error.__cause__ is not None
    if isinstance(error, SlalomError) and not broken:
        return Failure(422, str(error))
    return Failure(500, unexpected(error))


def invalid(error: Exception) -> str:
    """What is wrong with the fields of a request, in one sentence for each of them."""
    if not isinstance(error, RequestValidationError):
        return str(error)
    said: dict[str, list[str]] = {}
    for entry in error.errors():
        if entry["type"] == "json_invalid":
            return f"the request is not JSON: {entry.get('ctx', {}).get('error', entry['msg'])}"
        where = [str(part) for part in entry["loc"][1:2]]
        message = str(entry["msg"]).removeprefix("Value error, ")
        messages = said.setdefault(".".join(where) or "the request", [])
        if message not in messages:
            messages.append(message)
    return "; ".join(f"{name}: {' or '.join(messages)}" for name, messages in said.items())


class AccessMiddleware:
    """ASGI middleware: host, token, content type and size before the application; headers after it."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, closing: Closing):
        self._app = app
        self._settings = settings
        self._closing = closing
        self._hosts = {_bracketed(host.lower()) for host in (*LOCAL, *settings.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def dressed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _dress(MutableHeaders(scope=message), scope["path"])
            await send(message)

        try:
            await self._app(scope, await self._admitted(scope, receive), dressed)
        except _Refused as refused:
            await refused.response(scope, receive, dressed)
        except _Gone:
            return
        except Exception as error:  # noqa: BLE001
            detail = unexpected(error)
            if not started:
                await problem(500, detail)(scope, receive, dressed)

    async def _admitted(self, scope: Scope, receive: Receive) -> Receive:
        """What the application reads its request from; raises where it shall not see the request at all."""
        if self._closing.begun:
            raise _Refused(503, CLOSING)
        headers = Headers(scope=scope)
        self._check_host(headers.get("host", ""))
        if scope["path"].startswith(GUARDED):
            self._check_token(headers, scope)
        if scope["method"] not in ("POST", "PUT", "PATCH"):
            return receive
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise _Refused(415, f"the request must be application/json; its content type is {kind!r:.60}")
        return await self._body(headers.get("content-length", ""), receive)

    def _check_host(self, given: str) -> None:
        # Another site's name that points here (DNS rebinding) would make its scripts same-origin.
        parts = _HOST.fullmatch(given.lower())
        if "*" not in self._hosts and not (parts and parts["name"] in self._hosts):
            raise _Refused(
                400,
                f"this server is not called {given!r:.80}; to allow the name, start it with --allowed-host",
            )

    def _check_token(self, headers: Headers, scope: Scope) -> None:
        token = self._settings.token
        if token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), token):
            return
        path = scope["path"]
        if path.startswith(LINKED) and path.count("/") == 2:
            key = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
            if _same(key, report_key(token, path) or ""):
                return
        raise _Refused(
            401,
            "this server wants its token: send the header 'Authorization: Bearer TOKEN'",
            www_authenticate="Bearer",
        )

    async def _body(self, declared: str, receive: Receive) -> Receive:
        """Reads the body, but never more of it than is allowed."""
        most = self._settings.limits.body
        too_long = _Refused(413, f"the request is longer than the {most:,} bytes that this server takes")
        if declared.isdecimal() and int(declared[:20]) > most:
            raise too_long
        body, more = bytearray(), True
        try:
            async with self._patience():
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_long
                    more = message.get("more_body", False)
        except TimeoutError:
            if self._closing.begun:
                raise _Refused(503, CLOSING) from None
            raise _Refused(408, f"the request did not arrive within {BODY_SECONDS:.0f} seconds") from None
        return _replay(bytes(body), receive)

    @asynccontextmanager
    async def _patience(self) -> AsyncGenerator[None]:
        """TimeoutError where a request takes too long to arrive, or the server is to end before it has."""
        async with asyncio.timeout(BODY_SECONDS) as limit:
            with self._closing.telling(lambda: limit.reschedule(0)):
                yield


def _replay(body: bytes, receive: Receive) -> Receive:
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _dress(headers: MutableHeaders, path: str) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("content-security-policy", NOTHING)
    # Explanations hold what people wrote: no cache may keep them.
    headers.setdefault("cache-control", "no-store" if path.startswith(GUARDED) else "no-cache")


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
