"""Clients that keep the server waiting: they are let go, and shut nobody out."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import h11
import httpx
import pytest

from serving import HANGS, Slow, dial, post, rest, running, served, until
from slalom.web import Limits, create_app, middleware
from slalom.web import server as connections
from slalom.web.server import HEADER_BYTES

WORDS = "one two three four five six seven eight nine ten"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def refuses(line: socket.socket, more: bytes) -> bool:
    """Whether the server does not take any more of what is said."""
    try:
        line.sendall(more)
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /healthz HT", GET[:-2], GET + GET[:-2], b"\r\n"],
    ids=["", "word", "head", "next", "line"],
)
def test_who_does_not_finish_a_head_is_let_go(monkeypatch: pytest.MonkeyPatch, sent: bytes):
    # On a busy machine even a head that is sent at once takes its time to be read.
    monkeypatch.setattr(connections, "HEADER_SECONDS", 5.0 if GET in sent else 0.3)
    with served(create_app({"fast": Slow().model()})) as address:
        answers = rest(dial(address, sent))
        assert answers.count(b'{"status":"ok"') == sent.count(GET)


def test_a_head_that_comes_in_drops_is_let_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    drops = b"X: y\r\n" * 3
    with served(create_app({"fast": Slow().model()})) as address, dial(address, GET[:-2]) as line:
        sent = 0
        while not refuses(line, drops):
            sent += len(drops)
            time.sleep(0.1)
    assert sent < HEADER_BYTES / 2  # its time was over before its size


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.3)
    with served(create_app({"fast": Slow().model()})) as address:
        answer = rest(dial(address, post("/api/explain", {"text": WORDS})[:-1]))
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_who_does_not_read_his_answers_is_let_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    with running(create_app({"fast": Slow().model()})) as (server, address), dial(address) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(0.2)
        page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        until(lambda: refuses(line, page * 100))
        until(lambda: not server.server_state.connections)


def test_a_crowd_that_says_nothing_shuts_nobody_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(connections, "YOUNG", 0.0)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 10 * HANGS)  # only the crowd itself makes room
    app = create_app({"fast": Slow().model()}, limits=Limits(connections=20))
    with running(app) as (server, address):
        crowd = [dial(address, *[GET[:9]] * (turn % 2)) for turn in range(60)]
        for _ in range(20):
            assert httpx.get(f"{address}/healthz", timeout=HANGS).status_code == 200
        until(lambda: len(server.server_state.connections) <= 20)
        assert rest(crowd[0]) == b""
        for line in crowd:
            line.close()
    assert capsys.readouterr().err == ""


def test_who_is_being_served_makes_no_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "YOUNG", 0.0)
    slow = Slow()
    app = create_app({"slow": slow.model()}, limits=Limits(connections=6))
    with served(app) as address:
        slow.free.clear()
        order = {"text": WORDS, "method": "occlusion", "save": False}
        asked = [dial(address, post("/api/explain", order, Connection="close")) for _ in range(4)]
        until(lambda: app.state.slalom.explanations.inside == 4)
        crowd = [dial(address) for _ in range(12)]
        for line in crowd[:-2]:
            assert rest(line) == b""
        slow.free.set()
        for line in asked:
            assert rest(line).startswith(b"HTTP/1.1 200 ")
        for line in crowd:
            line.close()


def test_who_may_ask_again_stays_longer_than_who_never_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "YOUNG", 0.0)
    app = create_app({"fast": Slow().model()}, limits=Limits(connections=6))
    with served(app) as address:
        asked = dial(address, GET)
        assert asked.recv(15).startswith(b"HTTP/1.1 200 ")
        crowd = [dial(address) for _ in range(12)]
        for line in crowd[:-6]:
            assert rest(line) == b""
        asked.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert b"HTTP/1.1 200 " in rest(asked)
        for line in crowd:
            line.close()


def connection_over(own: socket.socket) -> connections.Connection:
    line = object.__new__(connections.Connection)
    line.transport = SimpleNamespace(get_extra_info=lambda name: own)  # pyright: ignore
    line.conn = h11.Connection(h11.SERVER)
    return line


def test_what_a_busy_server_has_not_read_yet_is_no_silence():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = connection_over(ours)
        assert not line._unread()
        theirs.sendall(b"GET")
        assert line._unread()


def test_who_has_asked_and_was_not_begun_with_yet_is_not_silent():
    """Its request is whole, and the application is not called before the next turn of the loop."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = connection_over(ours)
        line.conn.receive_data(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n")
        line.conn.next_event()
        assert not line._unread()  # half of a request: the server waits for its client
        line.conn.receive_data(b"{}")
        line.conn.next_event()
        line.conn.next_event()
        assert line._unread()


def test_beyond_what_the_system_can_hold_nobody_comes_in(monkeypatch: pytest.MonkeyPatch):
    """All are new here, and none of them may be pushed out yet."""
    monkeypatch.setattr(connections, "YOUNG", HANGS)
    app = create_app({"fast": Slow().model()}, limits=Limits(connections=2))
    with running(app) as (server, address):
        keywords = server.config.http_protocol_class.keywords  # pyright: ignore
        keywords["at_all"] = 4
        crowd = [dial(address) for _ in range(12)]
        until(lambda: len(server.server_state.connections) == 4)
        for line in crowd:
            line.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there the system sets no limit")
@pytest.mark.parametrize("wanted", [1, 500, 10**6])
def test_the_limit_fits_the_system(monkeypatch: pytest.MonkeyPatch, wanted: int):
    import resource

    limits = {"now": (256, 2048)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.update(now=pair))
    most, at_all, at_a_stroke = connections.room(wanted)
    assert 1 <= most <= wanted
    assert most < at_all + 3 * at_a_stroke <= limits["now"][0] <= 2048


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        GET + b"\x00garbage\r\n\r\n",
        post("/api/explain", {"text": WORDS}) + b"\xff" * 70_000,
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=["tls", "hosts", "long", "http2", "behind", "during", "chunk", "upgrade"],
)
def test_what_is_no_request_is_answered_once_and_not_logged(
    sent: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with served(create_app({"fast": Slow().model()})) as address:
        heard = rest(dial(address, sent))
        assert heard == b"" or heard.startswith(b"HTTP/1.1 ")
        assert b" 500 " not in heard
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("error", [OSError(107, "not connected"), RuntimeError("closed")])
def test_a_client_that_hung_up_in_between_is_no_error(error: Exception, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "LINGER_SECONDS", 0.0)

    async def hang_up() -> None:
        aborted, transport = asyncio.Event(), Mock(is_closing=lambda: False, can_write_eof=lambda: True)
        transport.write_eof.side_effect, transport.abort = error, aborted.set
        connections._Line(transport, lambda: True).close()
        await asyncio.wait_for(aborted.wait(), HANGS)

    asyncio.run(hang_up())
