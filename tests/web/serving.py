"""Real servers for tests: uvicorn on a free port, in a thread; models that take their time and count."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from slalom.models.function import FunctionModel
from slalom.models.hf import ModuleModel
from slalom.web import Limits, create_app
from slalom.web.server import listen

LABELS = {0: "negative", 1: "positive"}


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of the application, while it runs."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
    assert not thread.is_alive(), "the server did not end"


@contextmanager
def client(
    models: dict[str, Any], headers: dict[str, str] | None = None, **more: Any
) -> Iterator[httpx.Client]:
    """A client of a server with these models; `more` goes to create_app."""
    with (
        served(create_app(models, **more)) as address,
        httpx.Client(base_url=address, timeout=30, headers=headers) as http,
    ):
        yield http


def until(happens: Callable[[], bool], seconds: float = 20.0) -> None:
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
    return ModuleModel(module, tokenizer, name="tiny")


class Slow:
    """A function over texts that counts them, takes its time, and can be held back."""

    def __init__(self, seconds: float = 0.0):
        self.texts = 0
        self.seconds = seconds
        self.free = threading.Event()
        self.free.set()

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.texts += len(texts)
        self.free.wait(20)
        time.sleep(self.seconds)
        return [[1.0, float(len(text) % 7)] for text in texts]

    def model(self) -> FunctionModel:
        return FunctionModel(self, output="logits", labels=("short", "long"))


def still(count: Callable[[], int], seconds: float = 0.4) -> int:
    """The count, once it has not grown for a while."""
    known, since = count(), time.monotonic()
    end = since + 20
    while time.monotonic() - since < seconds:
        assert time.monotonic() < end, "it keeps growing"
        time.sleep(0.02)
        if count() != known:
            known, since = count(), time.monotonic()
    return known


def small(**changes: Any) -> Limits:
    """Limits with some of them changed."""
    return Limits(**changes)
