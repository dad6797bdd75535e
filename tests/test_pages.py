"""Every page runs: its commands, then its Python, from top to bottom, in a folder with the files it names."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slalom.cli import app
from slalom.models import bundled

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
NOT_RUN = {
    r"^slalom serve\b": "runs until it is ended: tests/web/test_serve_command.py",
    r"^slalom bench\b": "takes minutes: tests/bench/test_bench_run.py",
    r"^slalom league\b": "takes an hour: tests/bench/test_league.py",
    r"^slalom train .*--from\b": "wants an encoder: tests/training/test_training_run.py",
    r"s3://": "wants a bucket: tests/corpus/test_corpus_source.py reads from other storage",
    r"\bINPUT\b": "stands for the others",
}
"""Commands that are read but not run here (tests/test_docs.py checks their options), and why."""
SMALLER = {
    " --workers 8": "",  # Ray has tests of its own
    " --limit 100": " --limit 1 --protocols deletion",
    "evaluate --data reviews.csv ": "evaluate --data reviews.csv --limit 1 --protocols deletion ",
    "deletion --out results": "deletion --methods slalom,random --out results",
    " --layers 4 --width 256": " --layers 1 --width 32",
    "limit=4000": "limit=20",
    'parts=("overhead", "limits")': 'parts=("limits",)',
    "documents=3)": 'documents=1, repeats=1, samples=50, engines=("eager",))',
}
"""What is made smaller, so that the suite does not wait."""


def commands(text: str) -> list[str]:
    """The lines of the command line in a page, fenced or indented, with those that go on joined."""
    fenced = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    \S.*(?:\\\n.*)*", text, flags=re.MULTILINE)
    blocks = [block.replace("\\\n", " ") for block in (*fenced, *indented)]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("slalom ")]


def python(text: str) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def runs(line: str) -> bool:
    """Whether a command is run here."""
    return not any(re.search(pattern, line) for pattern in NOT_RUN)


WITH_COMMANDS = [name for name, text in PAGES.items() if any(map(runs, commands(text)))]
WITH_PYTHON = [name for name, text in PAGES.items() if python(text)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the pages name."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    import prompts

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "my-model").symlink_to(bundled())
    texts = [
        "a great film with a wonderful cast",
        "an awful film and a waste of time",
        "great music and a rather dull story",
        "not bad at all if you like it slow",
    ]
    words = [text.split() for text in texts]
    marks = [[int(word in ("great", "awful", "dull", "bad")) for word in line] for line in words]
    table = pandas.DataFrame({"text": texts, "label": [1, 0, 0, 1], "words": words, "consensus": marks})
    table = pandas.concat([table] * 10, ignore_index=True)
    for split, name in (("test", "imdb"), ("test", "yelp_hat")):
        table.assign(split=split).to_parquet(f"{name}.parquet")
    plain = table[["text", "label"]]
    halves = pandas.concat([plain.assign(split="train"), plain[:4].assign(split="validation")])
    halves.to_parquet("sst2.parquet")
    plain[:4].to_parquet("reviews.parquet")
    plain[:4].to_csv("reviews.csv", index=False)
    monkeypatch.setenv("SLALOM_DATA", str(tmp_path))
    Path("review.txt").write_text("I had hoped for more. It was not bad, just a little dull.\n")
    Path("prompt.txt").write_text("Is this review positive? Answer yes or no.\n\n{text}")
    for name in ("soup", "cake", "parking"):
        Path(f"{name}.txt").write_text(f"The {name} was great.\n")
    Path("path/to").mkdir(parents=True)
    for part in prompts.causal("qwen2", max_position_embeddings=256):
        part.save_pretrained("path/to/causal-model")
    Path("my-language-model").symlink_to("path/to/causal-model")
    return tmp_path


@pytest.fixture
def small(folder: Path, behave: Callable[..., None], llm_server: str) -> Callable[[str], str]:
    """The text of a page as it is run."""
    del folder, behave

    def shorten(text: str) -> str:
        for old, new in (*SMALLER.items(), ("http://localhost:8000", llm_server)):
            text = text.replace(old, new)
        return text

    return shorten


def run_commands(text: str) -> None:
    for line in filter(runs, commands(text)):
        words = shlex.split(line, comments=True)
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, (line, done.output[-2000:], done.exception)


@pytest.mark.filterwarnings("ignore::slalom.errors.SlalomWarning")
@pytest.mark.parametrize("name", sorted({*WITH_COMMANDS, *WITH_PYTHON}))
def test_a_page_runs(name: str, small: Callable[[str], str]) -> None:
    for package in ("captum", "duckdb", "httpx", "lime", "matplotlib", "polars", "shap"):
        pytest.importorskip(package)
    text = small(PAGES[name])
    run_commands(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in python(text):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, name, "exec"), names)


def test_no_block_hides_behind_another_spelling() -> None:
    """Python that these tests would not see: fences that are indented, or named otherwise."""
    known = {"python", "sh", "console", "text", "json", "toml", "html", "mermaid"}
    for name, text in PAGES.items():
        fences = re.findall(r"^( *)```(\w*)[^\n]*\n.*?^ *```", text, flags=re.MULTILINE | re.DOTALL)
        assert not [mark for indent, mark in fences if indent or mark not in known], name


def test_what_is_not_run_is_still_written() -> None:
    everything = [line for text in PAGES.values() for line in commands(text)]
    for pattern in NOT_RUN:
        assert any(re.search(pattern, line) for line in everything), pattern


def test_requests_of_the_page_for_the_server_are_answered() -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from slalom.web import create_app

    requests = re.findall(
        r"curl -sN? http://127\.0\.0\.1:8000(\S+) .*?-d '(.*?)'$",
        PAGES["serve.md"],
        flags=re.MULTILINE | re.DOTALL,
    )
    assert len(requests) == 4
    with TestClient(create_app({"bundled": str(bundled())}), base_url="http://localhost") as client:
        for address, body in requests:
            answer = client.post(address, json=json.loads(body))
            assert answer.status_code == 200, (address, answer.text[:500])
