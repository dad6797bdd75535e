"""Real servers for tests: on a free port, in a thread; models that take their time and count."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from slalom.models.function import FunctionModel
from slalom.models.torch.module import ModuleModel
from slalom.web import create_app
from slalom.web.server import Server, listening

LABELS = {0: "negative", 1: "positive"}
HANGS = 240.0
"""Seconds after which something will never happen, however busy the machine is."""


@contextmanager
def running(app: Any) -> Iterator[tuple[Server, str]]:
    """A server of the application, and its address, while it runs."""
    server = Server(app)
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started)
            yield server, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(HANGS)
    assert not thread.is_alive(), "the server did not end"


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of the application, while it runs."""
    with running(app) as (_, address):
        yield address


@contextmanager
def client(
    models: dict[str, Any], headers: dict[str, str] | None = None, **more: Any
) -> Iterator[httpx.Client]:
    """A client of a server with these models; `more` goes to create_app."""
    with (
        served(create_app(models, **more)) as address,
        httpx.Client(base_url=address, timeout=HANGS, headers=headers) as http,
    ):
        yield http


def until(happens: Callable[[], bool], seconds: float = HANGS) -> None:
    """Waits for something to happen."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def tiny_model(**options: Any) -> ModuleModel:
    """A random encoder with two named labels."""
    from zoo import tiny

    names = {"id2label": LABELS, "label2id": {name: i for i, name in LABELS.items()}}
    module, tokenizer = tiny("bert", **(names | options))
    return ModuleModel(module, tokenizer, name="tiny")  # pyright: ignore[reportArgumentType]


class Slow:
    """A function over texts that counts them, takes its time, and can be held back."""

    def __init__(self, seconds: float = 0.0):
        self.texts = 0
        self.seconds = seconds
        self.free = threading.Event()
        self.free.set()

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.texts += len(texts)
        self.free.wait(HANGS)
        time.sleep(self.seconds)
        return [[1.0, float(len(text) % 7)] for text in texts]

    def model(self) -> FunctionModel:
        return FunctionModel(self, output="logits", labels=("short", "long"))


def ended(app: Any) -> bool:
    """Whether no thread of the server works any more."""
    return not app.state.slalom.busy


def dial(address: str, *sent: bytes) -> socket.socket:
    """A connection to the server, on which this was said."""
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    line = socket.create_connection((host, int(port)), timeout=HANGS)
    for part in sent:
        line.sendall(part)
    return line


def post(path: str, order: object, accept: str = "application/json", **headers: object) -> bytes:
    """A request as it goes over the line."""
    body = json.dumps(order).encode()
    named = {
        "Host": "localhost",
        "Accept": accept,
        "Content-Type": "application/json",
        "Content-Length": len(body),
    }
    lines = [f"{name}: {value}" for name, value in (named | headers).items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode() + body


def rest(line: socket.socket) -> bytes:
    """What still comes until the server hangs up; a reset is an end too."""
    heard = b""
    with suppress(ConnectionResetError), line:
        while more := line.recv(65536):
            heard += more
    return heard
