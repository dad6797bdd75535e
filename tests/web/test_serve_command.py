from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from serving import HANGS
from slalom.cli import app
from slalom.web.executor import ModelRegistry


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`slalom serve` as a process of its own, and where it says it is."""
    command = [sys.executable, "-m", "slalom", "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"http://\S+:\d+/", said)
            assert found, said
            yield process, found.group()
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_and_ends_cleanly(tmp_path: Path, how: signal.Signals):
    folder = tmp_path / "reports"
    with serving("--reports", str(folder), SLALOM_TOKEN="a-long-secret") as (process, address):
        with httpx.Client(base_url=address, timeout=HANGS) as http:
            assert http.get("/healthz").json()["status"] == "ok"
            assert http.get("/api/models").status_code == 401
            headers = {"authorization": "Bearer a-long-secret"}
            listed = http.get("/api/models", headers=headers).json()
            assert listed["models"] == [{"name": "bundled", "labels": ["negative", "positive"]}]
            assert http.get("/healthz", headers={"host": "evil.example"}).status_code == 400
        process.send_signal(how)
        assert process.wait(HANGS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert folder.is_dir()


def test_the_bundled_model_goes_by_its_name():
    assert ModelRegistry({"sentiment": "bundled"})["sentiment"].model.labels == ("negative", "positive")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["serve", "--port", "0", *arguments])
    return result.exit_code, " ".join(result.stderr.split())


def test_a_port_in_use_is_an_error_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = run("--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "cannot listen on 127.0.0.1 port" in said
    assert "choose another --host or --port" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-m", "./model"), 2, "NAME=DIR_OR_HUB_ID"),
        (("-m", "a=x", "-m", "a=y"), 2, "'a' is given twice"),
        (("-m", "a b=x"), 1, "cannot be the name of a model"),
        (("-m", "gone=./nowhere"), 1, "the model 'gone' cannot be opened: there is no directory"),
        (("--token", "short"), 1, "8 to 256 visible ASCII"),
        (("--concurrent", "0"), 2, "--concurrent"),
        (("--host", "256.0.0.1"), 1, "cannot listen on 256.0.0.1"),
    ],
)
def test_wrong_options_are_said_before_anything_starts(arguments: tuple[str, ...], code: int, said: str):
    got, line = run(*arguments)
    assert got == code
    assert said in line


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_without_the_extra_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, package: str):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "slalom.web.server", raising=False)
    code, said = run()
    assert code == 1
    assert f"needs {package}; install it with: pip install 'slalom-xai[web]'" in said
