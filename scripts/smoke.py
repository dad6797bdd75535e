"""Tries what one extra is for, in the environment that runs it: `python smoke.py web`.

`release_check.py` runs it where nothing but the wheel and that one extra is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

TEXT = "the food was great but the service was awful"
REVIEWS = "text,label\n" + "a great film,positive\nan awful film,negative\n" * 20


def command(*arguments: str, fails: bool = False) -> str:
    """What `slalom …` prints; it has to end well, or with `fails` in one line that is no traceback."""
    done = subprocess.run([sys.executable, "-m", "slalom", *arguments], capture_output=True, text=True)
    told = done.stdout + done.stderr
    if (done.returncode == 0) == fails or "Traceback" in told:
        raise SystemExit(f"slalom {' '.join(arguments)}: exit code {done.returncode}\n{told[-3000:]}")
    return told


def base() -> None:
    """Library and command line without any extra; what is missing says how to get it."""
    import slalom

    explanation = slalom.explain(TEXT)
    assert explanation.top(1)[0][0] == "awful", explanation.top(3)
    assert Path(slalom.__file__).is_relative_to(sys.prefix), "this is not the installed package"
    assert slalom.__version__ in command("--version")
    assert "awful" in command("explain", TEXT, "--html", "report.html", "--out", "saved.json")
    assert "awful" in command("show", "saved.json")
    assert "occlusion" in command("methods")
    for extra, package, arguments in (
        ("methods", "lime", ("explain", TEXT, "--method", "lime")),
        ("web", "fastapi", ("serve", "--port", "0")),
        ("onnx", "onnxruntime", ("explain", TEXT, "--engine", "onnx")),
    ):
        if importlib.util.find_spec(package) is None:
            assert f"slalom-xai[{extra}]" in command(*arguments, fails=True)


def methods() -> None:
    """The methods of others."""
    for name in ("lime", "kernel_shap", "partition_shap", "integrated_gradients"):
        assert "awful" in command("explain", TEXT, "--method", name, "--budget", "200")


def bench() -> None:
    """The authors' package is there to be measured beside."""
    methods()
    assert importlib.util.find_spec("slalom_explanations")
    assert "--data" in command("bench", "--help")


def frame() -> None:
    """Data frames."""
    import slalom

    assert "awful" in set(slalom.explain(TEXT).to_frame()["token"])


def plot() -> None:
    """Pictures."""
    import matplotlib

    matplotlib.use("agg")
    import slalom

    figure = slalom.explain(TEXT).plot("waterfall").get_figure(root=True)
    assert figure is not None
    figure.savefig("plot.png")
    assert Path("plot.png").stat().st_size > 1000


def data() -> None:
    """Parquet in, an evaluation out."""
    import pandas

    Path("reviews.csv").write_text(REVIEWS)
    pandas.read_csv("reviews.csv").to_parquet("reviews.parquet")
    command(
        "evaluate",
        "--data",
        "reviews.parquet",
        "--limit",
        "2",
        "--methods",
        "slalom,random",
        "--out",
        "out",
    )
    assert any(Path("out").iterdir())


def train() -> None:
    """A tiny classifier from nothing."""
    Path("reviews.csv").write_text(REVIEWS)
    small = ("--layers", "1", "--width", "32", "--epochs", "1")
    command("train", "--data", "reviews.csv", "--out", "model", *small)
    assert "film" in command("explain", "an awful film", "--model", "model")


class _Answers(BaseHTTPRequestHandler):
    """A model behind an address: 'yes' wherever “awful” stands."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sure = -0.1 if "awful" in json.dumps(asked) else -3.0
        top = [{"token": "yes", "logprob": sure}, {"token": "no", "logprob": -1.0}]
        content = [{"token": "yes", "logprob": sure, "top_logprobs": top}]
        message = {"role": "assistant", "content": "yes"}
        body: Any = {"choices": [{"index": 0, "message": message, "logprobs": {"content": content}}]}
        sent = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def endpoint() -> None:
    """A language model behind HTTP."""
    from slalom import Explainer

    server = HTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    explainer = Explainer(
        endpoint=f"http://127.0.0.1:{server.server_port}/v1",
        model="stub",
        prompt="Is it bad? Answer yes or no.\n\n{text}",
        labels=["yes", "no"],
    )
    assert explainer("the soup was awful", target="yes").top(1)[0][0] == "awful"
    server.shutdown()


def web() -> None:
    """The page answers."""
    arguments = [sys.executable, "-m", "slalom", "serve", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            address = next(_addresses(server.stdout))
            with urllib.request.urlopen(address, timeout=60) as page:
                assert b"<html" in page.read()
        finally:
            server.terminate()


def _addresses(lines: Any) -> Any:
    for line in lines:
        yield from (word.rstrip(".,") for word in line.split() if word.startswith("http://"))


def cluster() -> None:
    """A corpus in two processes."""
    Path("reviews.csv").write_text(REVIEWS)
    command("explain-corpus", "reviews.csv", "--out", "explained", "--workers", "2", "--limit", "4")
    assert list(Path("explained").rglob("*.parquet"))


def onnx() -> None:
    """ONNX Runtime."""
    assert "awful" in command("explain", TEXT, "--engine", "onnx")


def openvino() -> None:
    """OpenVINO."""
    assert "awful" in command("explain", TEXT, "--engine", "openvino")


def sentencepiece() -> None:
    """Its packages can be imported."""
    for package in ("sentencepiece", "google.protobuf", "tiktoken"):
        assert importlib.util.find_spec(package), package


def papers() -> None:
    """The experiments are listed, and one of theory alone runs."""
    assert "table2c" in command("reproduce", "list")
    command("reproduce", "attention_gradient", "--quick", "--out", "out")


def space() -> None:
    """The demo of examples/space starts and answers a request, as a visitor's page would send it."""
    from gradio_client import Client  # pyright: ignore[reportMissingImports]

    app = Path(__file__).parents[1] / "examples" / "space" / "app.py"
    settings = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, str(app)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=settings
    ) as server:
        assert server.stdout is not None
        try:
            address = next(_addresses(server.stdout))
            answer, report = Client(address, verbose=False).predict(TEXT, "words", api_name="/report")
        finally:
            server.terminate()
    assert "awful" in answer
    assert report.startswith("<iframe srcdoc=")


EXTRAS: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (
        methods,
        bench,
        frame,
        plot,
        data,
        train,
        endpoint,
        web,
        cluster,
        onnx,
        openvino,
        sentencepiece,
        papers,
    )
}

if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    base()
    {**EXTRAS, "space": space}.get(sys.argv[1], lambda: None)()
