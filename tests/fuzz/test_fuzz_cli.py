"""Odd command lines: exit code 0, 1 with one sentence on stderr, or 2 with the usage; never a traceback."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest
import typer.main
from typer.testing import CliRunner

from fuzz.fuzz import draws, survives, text
from handmade import slalom_explanation
from slalom.cli import app

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
LIGHT = ("explain", "explain", "explain", "show", "show", "compare", "methods")
"""Commands that may succeed; the others, which take long, are given nothing that they could work with."""
DRAWN = {
    "--method": ("slalom", "occlusion", "random", "linear", "gradient", "attention", "slalom_ana"),
    "--methods": ("random", "occlusion,random", "slalom", "random,magic", "slalom:budget=9", ","),
    "--budget": ("3", "9", "20", "0", "9" * 23),
    "--seed": ("0", "7", "-1", "9" * 23),
    "--target": ("positive", "negative", "0", "1", "-1", "2"),
    "--side": ("first", "second", "both"),
    "--effort": ("fast", "balanced", "faithful"),
    "--engine": ("eager", "lean"),
    "--engine-tolerance": ("0.1", "0", "nan"),
    "--device": ("cpu", "cuda:99", "gpu"),
    "--model": ("./nowhere", "./folder", "./empty", "x" * 4000, "a/b/c", "~"),
    "--option": ("effort=fast", "gamma=1", "gamma=1e999", "length=[]", "reading=l1", "=", "a=b=c", "most=5"),
    "--data": ("./nowhere", "./folder", "./empty", "./damaged.csv", "./damaged.jsonl"),
    "--pair": ("and another text", "", "-"),
    "--file": ("./empty", "./saved.json", "./folder", "./binary", "./nowhere", "-"),
    "--port": ("70000",),
    "file": ("./saved.json", "./saved.json", "./empty", "./binary", "./folder", "./nowhere"),
    "source": ("./nowhere", "./folder", "./empty", "./damaged.csv", "./*.nothing"),
    "folder": ("./folder", "./nowhere", "./empty"),
    "names": ("no_such_experiment",),
}
WRITTEN = ("--html", "--csv", "--out", "--reports", "--cache", "--write")
REFUSED = ("--workers", "--address", "--gpus-per-worker")
"""They start a cluster where they are right."""
ALWAYS = {
    "compare": ["--methods", "random"],
    "serve": ["--port", "70000"],
    "train": ["--data", "./nowhere", "--out", "./new"],
    "bench": ["--data", "./nowhere"],
    "evaluate": ["--data", "./nowhere", "--out", "./new"],
}


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place with a few files, without the network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.delenv("SLALOM_DEBUG", raising=False)
    slalom_explanation().save("saved.json")
    Path("folder").mkdir()
    Path("empty").touch()
    Path("binary").write_bytes(bytes(range(256)))
    Path("damaged.csv").write_text('text,label\n"never closed,1\n', encoding="utf-8")
    Path("damaged.jsonl").write_text('{"text": 5}\n{"text"\n', encoding="utf-8")


def word(rng: random.Random) -> str:
    """What can stand on a command line: no NUL, no half characters but those that bytes become."""
    kept = "".join(c for c in text(rng) if c != "\0" and not 0xD800 <= ord(c) < 0xE000)
    return kept + "\udcff" * (rng.random() < 0.05)


def argument(rng: random.Random, name: str) -> str:
    if name in WRITTEN:
        return f"./{word(rng).lstrip('/').replace('..', '')[:300]}"
    if name in REFUSED:
        return rng.choice(("-1", "x", "nan"))
    if name in DRAWN and (rng.random() < 0.8 or name in ("names", "source", "output", "--port", "--data")):
        return rng.choice(DRAWN[name])
    return rng.choice((word(rng), "-1", "0", "3", "1e999", "nan", "true", "9" * 40))


def line(rng: random.Random) -> list[str]:
    """A command with arguments and some of its options."""
    name = rng.choice((*LIGHT, *COMMANDS))
    made = [name]
    for parameter in COMMANDS[name].params:
        option = parameter.opts[0]
        if not option.startswith("--"):
            if rng.random() < 0.9:
                made.append(argument(rng, option) if option in DRAWN else word(rng))
        elif rng.random() < 0.12:
            made += [option] if parameter.is_flag else [option, argument(rng, option)]
    made += [rng.choice(("--nonsense", "--", "-h", "-q", "-"))] * (rng.random() < 0.05)
    return made + ALWAYS.get(name, [])


def judge(code: int, output: str, error: str) -> None:
    assert code in (0, 1, 2), f"exit code {code}"
    assert "Traceback" not in output + error
    assert "error: unexpected" not in error
    if code == 1:
        last = error.strip().splitlines()[-1]
        assert last.startswith("error: "), error
        assert len(last) > len("error: ")


@pytest.mark.usefixtures("_folder")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(5))
def test_odd_command_lines(part: int):
    def run(rng: random.Random) -> None:
        words = line(rng)
        result = CliRunner().invoke(app, words, input=word(rng).encode("utf-8", "surrogateescape"))
        try:
            judge(result.exit_code, result.stdout, result.stderr)
        except (AssertionError, IndexError) as error:
            raise AssertionError(f"slalom {words}: {error}; {result.exception!r}") from result.exception

    survives(f"command line {part}", 100, run)


@pytest.mark.usefixtures("_folder")
def test_odd_command_lines_in_a_process_of_their_own():
    """As a shell starts them: bytes as arguments, streams that are closed."""
    for words, rng in draws("process", 4):
        given = [os.fsencode(one) for one in line(rng)]
        result = subprocess.run(
            [sys.executable, "-m", "slalom", *given],
            input=rng.randbytes(20),
            capture_output=True,
            timeout=280,
            check=False,
        )
        judge(
            result.returncode, result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        )
        assert words
