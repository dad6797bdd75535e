from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import slalom.explainers
from handmade import HOSTILE, REVIEW, more_methods, slalom_explanation
from slalom import Explanation
from slalom.cli import app
from slalom.cli.run import guarded, say
from slalom.errors import InputError, SlalomWarning

LABELS = {0: "negative", 1: "positive"}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of a tiny random encoder that reads 64 tokens."""
    from zoo import tiny

    module, tokenizer = tiny("bert", id2label=LABELS, label2id={name: i for i, name in LABELS.items()})
    folder = tmp_path_factory.mktemp("model")
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slalom.explainers, "__path__", more_methods())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("SLALOM_DEBUG", raising=False)


def run(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(app, list(arguments), **more)


def explain(model: str, *arguments: str, **more: Any) -> Result:
    return run("explain", "-m", model, "--method", "leave_one_out", *arguments, **more)


def test_a_text_is_explained(model: str):
    result = explain(model, REVIEW)
    assert result.exit_code == 0, result.stderr
    assert "explaining" in result.stdout
    assert "attribution" in result.stdout
    assert result.stderr == ""


def test_json_is_one_document_and_nothing_else(model: str):
    result = explain(model, "--json", REVIEW)
    explanation = Explanation.from_dict(json.loads(result.stdout))
    assert explanation.text == REVIEW
    assert explanation.settings["model"] == Path(model).name
    assert result.stderr == ""


def test_text_from_a_file_from_stdin_and_as_argument(model: str):
    Path("review.txt").write_bytes(b"\xef\xbb\xbf" + REVIEW.encode() + b"\r\n")
    ways = [
        explain(model, "--json", REVIEW),
        explain(model, "--json", "--file", "review.txt"),
        explain(model, "--json", input=REVIEW + "\n"),
        explain(model, "--json", "-", input=REVIEW + "\n"),
        explain(model, "--json", REVIEW, input="something else"),
    ]
    documents = [json.loads(way.stdout) | {"cost": None} for way in ways]
    assert all(document == documents[0] for document in documents)


def test_target_seed_budget_and_options_reach_the_method(model: str):
    options = ["--target", "positive", "--seed", "4", "--budget", "77", "-o", "scale=2.5", "--every-class"]
    document = json.loads(explain(model, "--json", REVIEW, *options).stdout)
    assert document["target"] == "positive"
    assert list(document["classes"]) == ["negative"]
    settings = document["settings"]
    assert (settings["seed"], settings["budget"], settings["scale"]) == (4, 77, 2.5)
    plain = json.loads(explain(model, "--json", REVIEW, "--target", "1").stdout)
    assert document["scores"]["attribution"][0] == pytest.approx(2.5 * plain["scores"]["attribution"][0])


def test_words(model: str):
    document = json.loads(explain(model, "--json", "--words", "unwatchable and dull").stdout)
    assert document["tokens"]["strings"] == ["unwatchable", "and", "dull"]
    assert document["settings"]["granularity"] == "words"


def test_pairs(model: str):
    both = json.loads(explain(model, "--json", "dull food", "--pair", "long film").stdout)
    assert set(both["tokens"]["segments"]) == {0, 1}
    second = json.loads(
        explain(model, "--json", "dull food", "--pair", "long film", "--side", "second").stdout
    )
    assert set(second["tokens"]["segments"]) == {1}


def test_files_are_written_and_shown_again(model: str):
    result = explain(model, REVIEW, "--html", "a.html", "--out", "a.json")
    assert result.exit_code == 0
    assert result.stderr == "wrote a.json\nwrote a.html\n"
    assert Path("a.html").read_text().startswith("<!doctype html>")
    again = run("show", "a.json")
    assert again.exit_code == 0
    assert again.stdout == result.stdout
    assert json.loads(run("show", "a.json", "--json").stdout) == Explanation.load("a.json").to_dict()
    page = run("show", "a.json", "--html", "b.html", "--quiet")
    assert page.stderr == ""
    assert Path("b.html").read_bytes() == Path("a.html").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == ["a.html", "a.json", "b.html"]


def test_show_another_label():
    slalom_explanation(classes={"positive": slalom_explanation(target="positive")}).save("a.json")
    assert "explaining  positive" in run("show", "a.json", "--target", "positive").stdout
    wrong = run("show", "a.json", "--target", "neutral")
    assert (wrong.exit_code, wrong.stderr.startswith("error: no explanation of 'neutral'")) == (1, True)


def test_all_tokens(model: str):
    text = " ".join(["the food was great"] * 8)
    assert "the 15 strongest of" in explain(model, text).stdout
    assert "strongest" not in explain(model, text, "--all").stdout


def test_cut_texts_warn_on_one_line(model: str):
    long = "the food was great " * 40
    result = explain(model, "--json", long)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: ")
    assert result.stderr.count("\n") == 1
    document = json.loads(result.stdout)
    assert document["tokens"]["cut"] is not None
    assert "longer than the model reads" in document["notes"][-1]
    assert explain(model, "--json", "-q", long).stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "empty or blank"),
        (["  \n "], "empty or blank"),
        (["text", "--target", "neutral"], "no label 'neutral'; choose one of: negative, positive"),
        (["text", "--option", "colour=red"], "no option 'colour'; its options are: scale"),
        (["text", "--effort", "fast"], "no option 'effort'"),
        (["text", "--types"], "does not explain token types"),
        (["--file", "none.txt"], "cannot read 'none.txt': No such file"),
        (["text", "--html", "none/a.html"], "cannot write 'none/a.html'"),
        (["text", "--out", "."], "cannot write '.'"),
        (["text", "--device", "toaster"], "toaster"),
    ],
)
def test_errors_are_one_sentence(model: str, arguments: list[str], message: str):
    result = explain(model, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_unknown_method_and_model():
    unknown = run("explain", "text", "--method", "magic")
    assert (unknown.exit_code, "there is no method 'magic'; choose one of" in unknown.stderr) == (1, True)
    missing = run("explain", "text", "-m", "./nowhere", "--method", "leave_one_out")
    assert (missing.exit_code, missing.stdout, missing.stderr.count("\n")) == (1, "", 1)


def test_paths_are_checked_before_the_model_is_opened():
    result = run("explain", "text", "-m", "./nowhere", "--html", "none/a.html")
    assert "cannot write 'none/a.html'" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["text", "--file", "a.txt"],
        ["text", "--words", "--types"],
        ["text", "--json", "--all"],
        ["text", "--side", "first"],
        ["text", "--html", "a", "--out", "./a"],
        ["text", "--budget", "0"],
        ["text", "--budget", "many"],
        ["text", "--seed", "-1"],
        ["text", "--seed", "x"],
        ["text", "--effort", "heroic"],
        ["text", "-o", "scale"],
        ["text", "-o", "=3"],
        ["text", "-o", "seed=3"],
        ["text", "-o", "scale=1", "-o", "scale=2"],
        ["text", "--effort", "fast", "-o", "effort=fast"],
        ["text", "more"],
        ["text", "--nonsense"],
    ],
)
def test_wrong_usage(arguments: list[str]):
    result = run("explain", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage" in result.stderr


def test_other_wrong_usage():
    assert run("show").exit_code == 2
    assert run("show", "a.json", "--json", "--all").exit_code == 2
    assert run("nonsense").exit_code == 2


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_bytes_that_are_not_utf8(way: str):
    data = "caf\u00e9".encode("latin-1")
    Path("latin.txt").write_bytes(data)
    result = run("explain", "--file", "latin.txt") if way == "file" else run("explain", input=data)
    assert result.exit_code == 1
    source = "'latin.txt'" if way == "file" else "standard input"
    assert (
        result.stderr == f"error: {source} is not UTF-8: byte 0xe9 at offset 3; convert it to UTF-8 first\n"
    )


def test_show_refuses_other_files():
    Path("a.json").write_text('{"format": "other"}')
    result = run("show", "a.json")
    assert result.stderr == "error: 'a.json': this is no saved explanation: its format is 'other'\n"


def test_methods_are_listed():
    listed = run("methods")
    assert listed.exit_code == 0
    assert "leave_one_out logits Leave each token out once" in " ".join(listed.stdout.split())
    found = json.loads(run("methods", "--json").stdout)
    own = next(method for method in found if method["name"] == "leave_one_out")
    assert (own["summary"], own["needs"]) == ("Leave each token out once", "logits")


def test_version_and_help():
    from slalom import __version__

    assert run("--version").stdout == f"slalom {__version__}\n"
    for command in ([], ["explain"], ["show"], ["methods"]):
        assert run(*command, "--help").exit_code == 0
    shown = run("explain", "--help").stdout
    for option in (
        "--model",
        "--target",
        "--budget",
        "--words",
        "--types",
        "--every-class",
        "--html",
        "--out",
        "--quiet",
    ):
        assert option in shown


def guarded_run(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    import typer

    with pytest.raises(typer.Exit) as caught, guarded():
        raise error
    return caught.value.exit_code, capsys.readouterr().err


def test_errors_of_every_kind_become_one_line(capsys: pytest.CaptureFixture[str]):
    assert guarded_run(InputError("two\nlines \x1b[31m"), capsys) == (1, "error: two lines ␛[31m\n")
    code, line = guarded_run(ZeroDivisionError("by zero"), capsys)
    assert (code, line) == (1, "error: unexpected ZeroDivisionError: by zero (SLALOM_DEBUG=1 shows where)\n")
    assert guarded_run(KeyboardInterrupt(), capsys) == (130, "error: interrupted\n")


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLALOM_DEBUG", "1")
    with pytest.raises(InputError, match="here"), guarded():
        raise InputError("here")


def test_warnings_of_others_stay_away(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    with guarded():
        warnings.warn("ours", SlalomWarning, stacklevel=1)
        warnings.warn("theirs", FutureWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: ours\n"
    monkeypatch.setenv("SLALOM_DEBUG", "1")
    with guarded(quiet=True):
        warnings.warn("ours", SlalomWarning, stacklevel=1)
        warnings.warn("theirs", FutureWarning, stacklevel=1)
    shown = capsys.readouterr().err
    assert "FutureWarning: theirs" in shown
    assert "ours" not in shown


def test_lines_on_stderr_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]):
    say(HOSTILE["escape"])
    assert capsys.readouterr().err == "a ␛[31mred␛[0m ⟨U+009B⟩31m b\n"


def command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONWARNINGS": "default"} | more.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "slalom", *arguments],
        capture_output=True,
        env=environment,
        check=False,
        **more,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["methods"], ["explain", "--help"], ["show", "a.json"]])
def test_light_commands_do_not_load_torch(arguments: list[str]):
    slalom_explanation().save("a.json")
    code = (
        "import sys, slalom.cli\n"
        f"sys.argv = ['slalom', *{arguments!r}]\n"
        "try:\n    slalom.cli.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_closed_pipe_is_no_traceback():
    slalom_explanation("word " * 5000).save("a.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "slalom", "show", "a.json", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert b"Traceback" not in errors


def test_a_terminal_with_few_characters():
    slalom_explanation().save("a.json")
    result = command("show", "a.json", env={"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"})
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_argument_that_is_not_utf8(model: str):
    result = command("explain", b"caf\xe9".decode("utf-8", "surrogateescape"), "-m", model)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"error: ")
    assert result.stderr.count(b"\n") == 1
