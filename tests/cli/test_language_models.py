"""Language models on the command line: a directory with a prompt, and a model behind an endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner, Result

from endpoint_server import KEY
from prompts import causal
from slalom.cli import app

TEXT = "the food was great but the soup was cold"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("SLALOM_API_KEY", KEY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("prompt.txt").write_text("Is the service good? {text}\n", encoding="utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def there(llm_server: str, behave: Callable[..., None]) -> list[str]:
    """The options of the endpoint, whose server wants the key."""
    behave(key=KEY)
    return [
        *("--endpoint", f"{llm_server}/v1", "--llm", "tiny", "--prompt-file", "prompt.txt"),
        *("--labels", "good=great,bad=awful", "-e", "backoff=0.01"),
    ]


def asked(server: str) -> dict[str, Any]:
    return httpx.get(f"{server}/counts", timeout=600).json()


def test_a_directory_with_a_prompt(tmp_path: Path) -> None:
    module, own = causal("llama")
    module.save_pretrained(tmp_path / "model")
    own.save_pretrained(tmp_path / "model")
    Path("short.txt").write_text("{text} is", encoding="utf-8")
    options = ["-m", "model", "--prompt-file", "short.txt", "--labels", "great,awful", "--json", "-q"]
    result = run("explain", TEXT, *options, "--method", "occlusion", "--target", "great:awful")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["labels"] == ["awful", "great"]


def test_explain_through_an_endpoint(there: list[str], llm_server: str) -> None:
    result = run("explain", TEXT, *there, "--effort", "fast", "--estimate")
    assert result.exit_code == 0, result.stderr
    assert "at most about" in result.stderr
    assert result.stdout == ""
    assert asked(llm_server)["asked"] == 0
    told = int(result.stderr.split("at most about ")[1].split(" times")[0].replace(",", ""))
    result = run("explain", TEXT, *there, "--effort", "fast", "--out", "saved.json", "--html", "page.html")
    assert result.exit_code == 0, result.stderr
    assert 10 < asked(llm_server)["asked"] <= told + 2
    everything = [path.read_bytes() for path in Path().rglob("*") if path.is_file()]
    assert not [data for data in everything if KEY.encode() in data]
    assert KEY not in result.output


def test_a_limit_and_what_comes_after(there: list[str], llm_server: str) -> None:
    result = run("explain", TEXT, *there, "--effort", "fast", "--max-requests", "5")
    assert result.exit_code == 1
    assert "the limit of 5 requests is reached" in result.stderr
    assert asked(llm_server)["asked"] == 5
    assert run("explain", TEXT, *there, "--effort", "fast", "-q").exit_code == 0
    assert set(asked(llm_server)["answered"].values()) == {1}


def test_compare_and_evaluate_through_an_endpoint(there: list[str]) -> None:
    result = run("compare", TEXT, *there, "--methods", "occlusion,random", "--json")
    assert result.exit_code == 0, result.stderr
    assert "at most about" in result.stderr
    Path("few.csv").write_text(f"text,label\n{TEXT},0\na little cake in town,1\n", encoding="utf-8")
    arguments = [
        "evaluate",
        "--data",
        "few.csv",
        "--out",
        "out",
        "--methods",
        "occlusion,random",
        "-q",
        *there,
    ]
    limited = run(*arguments, "--protocols", "deletion:step=2", "--max-requests", "4", "--no-figures")
    assert limited.exit_code == 1
    assert "limit of 4 requests" in limited.stderr
    result = run(*arguments, "--protocols", "deletion:step=2", "--no-figures", "--json")
    assert result.exit_code == 0, result.stderr


def test_a_corpus_stops_at_a_limit_and_goes_on(there: list[str], llm_server: str) -> None:
    words = ["the", "food", "was", "great", "but", "soup", "cold", "and", "staff", "friendly", "here"]
    texts = [" ".join([*words[i % 5 : i % 5 + 4], words[i % 11]]) for i in range(12)]
    Path("texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    arguments = ["explain-corpus", "texts.jsonl", "out", *there, "--effort", "fast", "--budget", "20"]
    result = run(*arguments, "--group", "4", "--max-requests", "60")
    assert result.exit_code == 1, result.stderr
    assert "limit of 60 requests" in result.stderr
    told = int(result.stderr.split("at most about ")[1].split(" times")[0].replace(",", ""))
    assert 60 < told <= 22 * len(texts)
    assert asked(llm_server)["asked"] == 60
    result = run(*arguments, "--group", "4", "--resume", "--max-requests", "5000")
    assert result.exit_code == 0, result.stderr
    assert set(asked(llm_server)["answered"].values()) == {1}
    rows = [
        row for path in sorted(Path("out").glob("*.parquet")) for row in parquet.read_table(path).to_pylist()
    ]
    assert len(rows) == len(texts)
    assert not [row for row in rows if row["error"]]
    assert not [path for path in Path().rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--llm", "x"], "needs an endpoint"),
        (["--endpoint", "http://x/v1"], "--llm NAME"),
        (["--endpoint", "http://x/v1", "--llm", "m"], "--prompt-file FILE and --labels"),
        (["--prompt-file", "prompt.txt"], "--prompt-file FILE and --labels"),
        (["--prompt-file", "prompt.txt", "--labels", "a,a"], "twice"),
        (
            [
                "--endpoint",
                "http://x/v1",
                "--llm",
                "m",
                "--prompt-file",
                "prompt.txt",
                "--labels",
                "a,b",
                "-e",
                "no=1",
            ],
            "no setting 'no'",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = run("explain", TEXT, *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_an_estimate_is_for_endpoints() -> None:
    result = run("explain", TEXT, "--estimate")
    assert result.exit_code == 1
    assert "--endpoint URL" in result.stderr
