"""Odd requests over a real line: answers that say what was wrong, never a 500, words in the log or a hang."""

from __future__ import annotations

import json
import logging
import random
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import h11
import pytest

from fuzz.fuzz import survives, text, value
from serving import HANGS, Slow, served, tiny_model
from slalom.explanation import Explanation
from slalom.web import Limits, create_app
from slalom.web.schemas import ranges, served_methods

TOKEN = "a-long-secret"
BODY = 100_000
REFUSALS = {400, 401, 404, 405, 413, 415, 422, 503}
ADDRESSES = ("/api/explain", "/api/predict", "/api/models", "/api/methods", "/", "/healthz", "/openapi.json")
PATHS = (
    *ADDRESSES,
    "/static/page.js",
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/api/models/tiny",
    "/api/models/",
    "/api/explain/",
    "//api/explain",
    "/reports/",
    "/reports/" + "A" * 22,
    "/reports/../../etc/passwd",
    "/reports/%00/fragment",
    "/docs",
    "*",
    "http://localhost/healthz",
    "http://evil.example/api/models",
)
METHODS = (
    "GET",
    "GET",
    "POST",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
)
HOSTS = (
    "localhost",
    "LOCALHOST:80",
    "127.0.0.1:1",
    "[::1]",
    "[::1].evil",
    "evil",
    "",
    "localhost:x",
    "a b",
    "[",
)
HEADERS = (
    "Accept",
    "Range",
    "Cookie",
    "Origin",
    "X-Odd",
    "If-None-Match",
    "Accept-Encoding",
    "Upgrade",
    "Expect",
)
KINDS = (
    "application/json",
    "application/json; charset=utf-16",
    "text/plain",
    "multipart/form-data",
    "JSON",
    "",
)


def document(rng: random.Random, explains: bool) -> dict[str, Any]:
    """A request that may be fine, or have something wrong in it."""
    made: dict[str, Any] = {"text": text(rng), "model": rng.choice(("tiny", "function", None))}
    if rng.random() < 0.2:
        made["pair"] = text(rng)
        made["explain"] = rng.choice(("both", "first", "second"))
    if explains:
        made |= {"method": rng.choice(list(served_methods())), "budget": rng.choice((1, 5, 20))}
        made["options"] = {
            name: option(rng, known) for name, known in ranges(made["method"]).items() if rng.random() < 0.1
        }
        if rng.random() < 0.2:
            made["target"] = rng.choice((0, 1, -1, 7, 10**30, "positive", "0"))
    elif rng.random() < 0.6:
        made[rng.choice(("kept", "counts"))] = [
            rng.choice((0, 1, 2, 2000, 10**30)) for _ in range(rng.randint(0, 4))
        ]
    for name in rng.choices(
        (*made, "granularity", "every_class", "effort", "seed", "save", "efort"),
        k=rng.choice((0, 0, 0, 1, 2)),
    ):
        made[name] = value(rng)
    return made


def option(rng: random.Random, known: Any) -> Any:
    bounds = known.whole or known.number
    if bounds and rng.random() < 0.7:
        return rng.choice((bounds.least, bounds.least - 1, bounds.least + 1, bounds.most + 1, 1e300))
    return rng.choice(known.choices) if known.choices and rng.random() < 0.7 else value(rng)


def body(rng: random.Random, path: str) -> bytes:
    kind = rng.random()
    if kind < 0.05:
        return rng.randbytes(rng.randint(0, 50))
    if kind < 0.08:
        return rng.choice((b"[", b'{"a":', b'"', b"9")) * rng.choice((1, 5000, BODY // 4, BODY + 1))
    asked = value(rng) if kind < 0.15 else document(rng, "explain" in path)
    try:
        said = json.dumps(asked, default=repr, ensure_ascii=rng.random() < 0.8)
    except ValueError:  # a whole number that Python does not write
        said = "1" + "0" * 5000
    data = said.encode(rng.choice(("utf-8",) * 9 + ("utf-16",)), "surrogatepass")
    place = rng.randrange(len(data))
    return data if rng.random() < 0.95 else data[:place] + rng.randbytes(1) + data[place + 1 :]


def request(rng: random.Random) -> tuple[bytes, str]:
    """A whole request and its method; mostly one that reaches the application."""
    asks = rng.random() < 0.6
    method, path = ("POST", rng.choice(ADDRESSES[:2])) if asks else (rng.choice(METHODS), rng.choice(PATHS))
    if rng.random() < 0.1:
        path += rng.choice(("?", "/", "?key=", "#")) + quote(text(rng)[:300], errors="surrogatepass")
    if rng.random() < 0.02:
        method, path = rng.choice(((text(rng), path), (method, text(rng)), ("X" * 300, path)))
    content = body(rng, path) if asks or rng.random() < 0.3 else b""
    named = [("Host", "localhost"), ("Content-Type", KINDS[0]), ("Authorization", f"Bearer {TOKEN}")]
    if rng.random() < 0.1:
        named[0] = ("Host", rng.choice(HOSTS))
    if rng.random() < 0.1:
        named[1] = ("Content-Type", rng.choice((*KINDS, text(rng))))
    if rng.random() < 0.1:
        named[2] = ("Authorization", rng.choice(("", "Bearer", "bearer  x", "Basic eDp5", text(rng))))
    named += [("Accept", "application/x-ndjson")] * (rng.random() < 0.2)
    named += [(rng.choice(HEADERS), text(rng)) for _ in range(rng.choice((0, 0, 1, 2)))]
    named += [("Expect", "100-continue")] * (rng.random() < 0.05)
    rng.shuffle(named)
    chunked = rng.random() < 0.1
    named.append(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(content))))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {said}" for name, said in named), "", ""]
    head = "\r\n".join(lines).encode("utf-8", "surrogatepass")
    if chunked:
        content = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (content[:9], content[9:]) if part)
        content += b"0\r\n\r\n"
    return head + content, method


def answers(line: socket.socket, methods: list[str], torn: bool) -> Iterator[tuple[h11.Response, bytes]]:
    """The whole ones, at most one for each request; raises where one of them is malformed.

    Only who tore his requests, and so left, may have to do with half of an answer.
    """
    reader = h11.Connection(h11.CLIENT)
    for method in methods:
        asked = "HEAD" if method == "HEAD" else "GET"
        reader.send(h11.Request(method=asked, target="/", headers=[("host", "localhost")]))
        reader.send(h11.EndOfMessage())
        answer, said = None, b""
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                more = heard(line)
                if not more and (answer is None or torn):
                    return
                reader.receive_data(more)
            elif isinstance(event, h11.Response):
                answer = event
            elif isinstance(event, h11.Data):
                said += event.data
        assert answer is not None
        yield answer, said
        if reader.their_state is not h11.DONE:
            return
        reader.start_next_cycle()


def heard(line: socket.socket) -> bytes:
    """What comes next; nothing at the end, which a reset is too."""
    try:
        return line.recv(65536)
    except ConnectionResetError:
        return b""


def judge(answer: h11.Response, said: bytes, method: str) -> None:
    """Whether it is a proper answer: an error is JSON with a sentence, and a result is complete."""
    assert answer.status_code in (200, *REFUSALS), (answer.status_code, said[:300])
    kind = dict(answer.headers)[b"content-type"].decode().partition(";")[0]
    if method == "HEAD":
        assert said == b""
    elif kind == "text/plain":  # it was no HTTP
        assert (answer.status_code, said) == (400, b"Invalid HTTP request received.")
    elif kind == "application/x-ndjson":
        *_, last = [json.loads(one) for one in said.decode().splitlines()]
        assert last["event"] == "result" or (last["event"] == "error" and last["status"] in REFUSALS), last
    elif kind == "application/json":
        document = json.loads(said)
        if answer.status_code != 200:
            assert set(document) == {"detail"}
            assert document["detail"]
        elif "explanation" in document:
            Explanation.from_dict(document["explanation"])
    else:
        assert answer.status_code == 200
        assert kind in ("text/html", "text/css", "text/javascript", "image/svg+xml")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_odd_requests(part: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    statuses: list[int] = []

    def ask(rng: random.Random) -> None:
        sent, methods = b"", []
        for _ in range(rng.choice((1, 1, 1, 2))):
            one, method = request(rng)
            sent, methods = sent + one, [*methods, method]
        torn = rng.random() < 0.1
        with socket.create_connection(place, timeout=HANGS) as line:
            line.sendall(sent[: rng.randrange(len(sent))] if torn else sent)
            if torn:
                line.shutdown(socket.SHUT_WR)
            found = list(answers(line, methods, torn))
        assert found or torn, sent[:500]
        for (answer, said), method in zip(found, methods, strict=False):
            statuses.append(answer.status_code)
            judge(answer, said, method)

    models = {"tiny": tiny_model(), "function": Slow().model()}
    with served(create_app(models, token=TOKEN if part == 0 else None, limits=Limits(body=BODY))) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        place = host, int(port)
        survives(f"requests {part}", 500, ask)
    print(sorted(Counter(statuses).items()))
    assert statuses.count(200) > 40
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert capsys.readouterr().err == ""
