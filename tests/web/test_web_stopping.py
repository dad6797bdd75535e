"""Work that nobody waits for any more ends, and whoever waits when the server ends is told."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving import HANGS, Slow, dial, ended, post, rest, running, served, tiny_model, until
from slalom.fit import sgd
from slalom.web import Limits, create_app, executor

WORDS = "one two three four five six seven eight nine ten"
LINES = "application/x-ndjson"
ACCEPT = pytest.mark.parametrize("accept", ["application/json", LINES])


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "CHUNK", 500)


@ACCEPT
def test_an_explanation_that_takes_too_long_is_stopped(accept: str):
    slow = Slow(0.05)
    app = create_app({"slow": slow.model()}, limits=Limits(seconds=0.6))
    with served(app) as address:
        order = {"text": WORDS, "budget": 8000}
        response = httpx.post(f"{address}/api/explain", json=order, headers={"accept": accept}, timeout=HANGS)
        assert "took longer than this server allows" in response.text
        assert response.status_code == 504 if accept != LINES else '"status": 504' in response.text
        until(lambda: ended(app))
    assert slow.texts < 8000


def test_a_fit_is_stopped_too(monkeypatch: pytest.MonkeyPatch):
    """Adam would make 109,000 steps for this; each takes a while, or a fast machine would be done in time."""
    steps, gradient = count(), sgd._gradient

    def slowly(*given: Any) -> Any:
        next(steps)
        time.sleep(1e-4)
        return gradient(*given)

    monkeypatch.setattr(sgd, "_gradient", slowly)
    order = {"text": WORDS, "method": "slalom_sgd", "budget": 5000, "granularity": "types"}
    order["options"] = {"epochs": 200, "batch_size": 8}
    app = create_app({"fast": Slow().model()}, limits=Limits(seconds=3.0, concurrent=1, waiting=0))
    with served(app) as address:
        assert httpx.post(f"{address}/api/explain", json=order, timeout=HANGS).status_code == 504
        until(lambda: ended(app))
    assert next(steps) < 100_000


@ACCEPT
def test_the_work_stops_when_the_client_leaves(accept: str):
    slow = Slow(0.05)
    app = create_app({"slow": slow.model()})
    with served(app) as address:
        line = dial(address, post("/api/explain", {"text": WORDS, "budget": 8000}, accept))
        until(lambda: slow.texts > 100)
        line.close()
        until(lambda: ended(app))
    assert slow.texts < 8000


def test_who_left_the_queue_is_never_served():
    slow = Slow()
    app = create_app({"slow": slow.model()}, limits=Limits(concurrent=1, waiting=1))
    with served(app) as address:
        slow.free.clear()
        first = dial(address, post("/api/explain", {"text": WORDS, "method": "occlusion"}))
        until(lambda: slow.texts > 0)
        second = dial(address, post("/api/explain", {"text": WORDS, "budget": 8000}))
        until(lambda: app.state.slalom.explanations.inside == 2)
        second.close()
        until(lambda: app.state.slalom.explanations.inside == 1)
        slow.free.set()
        until(lambda: ended(app))
        first.close()
    assert slow.texts < 30


def test_a_slow_method_does_not_keep_the_others_waiting():
    """While an explanation by each method waits for its model, all of them explain another model."""
    slow = Slow()
    names = ("slalom_sgd", "kernel_shap")
    limits = Limits(concurrent=2)
    app = create_app({"slow": slow.model(), "tiny": tiny_model()}, limits=limits)
    with served(app) as address, httpx.Client(base_url=address, timeout=HANGS) as http:
        slow.free.clear()
        orders = [{"text": WORDS, "method": name, "granularity": "words"} for name in names]
        lines = [dial(address, post("/api/explain", order)) for order in orders]
        until(lambda: app.state.slalom.explanations.inside + app.state.slalom.single.inside == len(names))
        for name in ("slalom_sgd", "shapley_sampling", "attention"):
            order = {"text": WORDS, "method": name, "model": "tiny"}
            assert http.post("/api/explain", json=order).status_code == 200
        assert app.state.slalom.explanations.inside + app.state.slalom.single.inside == len(names)
        slow.free.set()
        for line in lines:
            line.close()


def test_when_the_server_ends_everybody_is_told(caplog: pytest.LogCaptureFixture):
    """Running, waiting, streaming, sending: and the model does not come back before all of them are told."""
    slow = Slow()
    app = create_app({"slow": slow.model()}, limits=Limits(concurrent=2, waiting=8))
    order = {"text": WORDS, "budget": 8000}
    with caplog.at_level(logging.WARNING), running(app) as (server, address):
        slow.free.clear()
        plain = [dial(address, post("/api/explain", order)) for _ in range(4)]
        plain += [dial(address, post("/api/predict", {"text": WORDS})) for _ in range(4)]
        streams = [dial(address, post("/api/explain", order, LINES)) for _ in range(4)]
        half = dial(address, post("/api/explain", order)[:-5])
        until(lambda: app.state.slalom.explanations.inside == 8)
        until(lambda: app.state.slalom.quick.inside == 4)
        for line in streams:
            while b"progress" not in line.recv(65536):
                pass
        server.should_exit = True
        for answer in map(rest, [*plain, half]):
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert answer.endswith(b'{"detail":"the server is being shut down"}')
        for line in streams:
            last = json.loads(rest(line).split(b"\r\n")[-4])
            assert last == {"event": "error", "status": 503, "detail": "the server is being shut down"}
        slow.free.set()
    assert caplog.records == []


def test_who_comes_while_the_server_ends_is_told():
    app = create_app({"fast": Slow().model()})
    app.state.slalom.closing.begin()
    with served(app) as address:
        answer = httpx.get(f"{address}/healthz", timeout=HANGS)
    assert (answer.status_code, answer.headers["connection"]) == (503, "close")


def test_a_server_ends_although_somebody_waits():
    slow = Slow(0.05)
    answers: list[bytes] = []
    app = create_app({"slow": slow.model()})
    with served(app) as address:
        line = dial(address, post("/api/explain", {"text": WORDS, "budget": 8000}))
        thread = threading.Thread(target=lambda: answers.append(rest(line)))
        thread.start()
        until(lambda: slow.texts > 100)
    thread.join()
    assert answers[0].startswith(b"HTTP/1.1 503 ")
    assert slow.texts < 8000


HANGING = """
import time
from slalom.web import create_app
from slalom.web.server import ending, listening, run

def hangs(texts):
    print("asked", flush=True)
    time.sleep(3600)

with ending(), listening("127.0.0.1", 0) as listener:
    run(create_app({"hangs": hangs}), listener, "127.0.0.1", lambda line: print(line, flush=True))
"""


def test_a_model_that_does_not_come_back_does_not_keep_the_server(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HANGING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            found = re.search(r"http://\S+:\d+", process.stdout.readline())
            assert found
            line = dial(found.group(), post("/api/explain", {"text": WORDS}))
            assert process.stdout.readline() == "asked\n"
            process.send_signal(signal.SIGTERM)
            assert rest(line).startswith(b"HTTP/1.1 503 ")
            assert process.wait(HANGS) == 0
            assert process.stderr.read() == "a model has not come back in time; the server ends without it\n"
        finally:
            process.kill()
