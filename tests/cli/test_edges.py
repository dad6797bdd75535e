"""The command line where things go wrong: one line on stderr, an exit code, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slalom.cli import app
from zoo import tiny

TEXT = "the food was great but the service was awful"


def run(*given: str) -> Any:
    return CliRunner().invoke(app, ["explain", TEXT, "--method", "occlusion", "-q", *given])


def one_line(result: Any, code: int, *parts: str) -> None:
    assert result.exit_code == code
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert all(part in " ".join(result.stderr.split()) for part in parts), result.stderr


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_links_that_lead_in_a_circle(option: str, tmp_path: Path) -> None:
    loop, inside = tmp_path / "loop", tmp_path / "a"
    loop.symlink_to(loop)
    inside.symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(inside)
    for path in (loop, inside, loop / "x.json"):
        one_line(run(option, str(path)), 1, "error: cannot write", "symbolic links")
    assert loop.is_symlink()


def test_a_link_is_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    assert run("--out", str(link)).exit_code == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["method"] == "occlusion"


@pytest.mark.parametrize("budget", ["9" * 23, "9" * 5000, "1000001", "0", "-3", "1e3", "²", "many"])
def test_budgets_that_cannot_be(budget: str) -> None:
    one_line(run(f"--budget={budget}"), 2, "whole number from 1 to", "1000000, not")


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5000, "{", "NaN"])
def test_values_that_are_no_option(value: str) -> None:
    result = CliRunner().invoke(
        app, ["explain", TEXT, "--method", "lime", "-q", "-o", f"kernel_width={value}"]
    )
    one_line(result, 1, "error: ", "kernel_width must be a number")
    assert len(result.stderr) < 400


@pytest.mark.parametrize("model", ["a" * 4000, "./" + "b" * 4000, "nobody/" + "c" * 4000])
def test_a_model_with_a_very_long_name(model: str) -> None:
    result = run("--model", model)
    one_line(result, 1, "error: ")
    assert len(result.stderr) < 400


def test_a_corpus_and_a_model_with_a_very_long_name(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\na great film\n")
    words = [str(tmp_path / "texts.csv"), "--out", str(tmp_path / "out"), "--model", "a" * 4000]
    result = CliRunner().invoke(app, ["explain-corpus", *words])
    one_line(result, 1, "error: ")
    assert len(result.stderr) < 400


def test_a_config_of_absurd_size(tmp_path: Path) -> None:
    for part in tiny("bert"):
        part.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**7}))
    one_line(run("--model", str(tmp_path)), 1, "num_hidden_layers is 10000000")


def test_what_does_not_match_is_said_and_no_report_that_nobody_sees(tmp_path: Path) -> None:
    for part in tiny("bert"):
        part.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": 48}))
    result = run("--model", str(tmp_path))
    one_line(result, 1, "in the weights and")
    assert "report" not in result.stderr


_INTERRUPTED = """
import os, signal, sys

class Ctrl_C:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # the background of a shell ignores it
sys.meta_path.insert(0, Ctrl_C())
sys.argv = ["slalom", "explain", "the food was great", "--quiet", "--method", {method!r}]
from slalom.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "numpy", "torch", "transformers"])
def test_an_interruption_during_imports(module: str) -> None:
    """The bundled model needs transformers for its gradients only."""
    method = "gradient" if module == "transformers" else "slalom"
    script = _INTERRUPTED.format(module=module, method=method)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


_PEAK = """
import resource, sys
from typer.testing import CliRunner
from slalom.cli import app
for file in sys.argv[1:]:
    found = CliRunner().invoke(app, ["explain", "--method", "occlusion", "--file", file])
    assert found.exit_code == 0, found.stderr
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(found.stderr)
"""


def test_a_text_of_fifty_megabytes_takes_little_memory(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    long, usual = tmp_path / "long.txt", tmp_path / "usual.txt"
    words = "the food was great but the service was awful, and the waiter never came back. "
    usual.write_text(words * 40)  # more than the model reads
    long.write_text(words * (50_000_000 // len(words)) + "\N{GRINNING FACE}")
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(usual), str(long)], capture_output=True, text=True, check=True
    )
    few, many, said = done.stdout.split("\n", 2)
    assert int(many) - int(few) < 200 * 1024  # kilobytes at most, after one text and after the other
    assert "is longer than 2,097,152 bytes; only its beginning is read" in said
    assert "tokens, only the first" in said
