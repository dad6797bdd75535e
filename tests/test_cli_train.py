"""`slalom train` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planted_texts import planted
from slalom import Explainer
from slalom.cli import app

QUICK = ["--layers", "1", "--width", "16", "--vocabulary", "200", "--length", "16"]


@pytest.fixture
def reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "reviews.csv"
    lines = [f"{one.text},{('bad', 'good')[one.label or 0]}" for one in planted(300)]
    path.write_text("\n".join(["review,mood", *lines]) + "\n")
    return path


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["train", *words])
    return result.exit_code, result.stdout, result.stderr


def test_from_a_file_to_an_explained_model(reviews: Path):
    code, out, err = run(
        "--data",
        "reviews.csv",
        "--label",
        "mood",
        "--out",
        "m/mood",
        "--epochs",
        "8",
        "--rate",
        "3e-3",
        *QUICK,
    )
    assert (code, err) == (0, "")
    report = json.loads(Path("m/mood/training.json").read_text())
    assert report["accuracy"] > 0.9
    assert f"accuracy {report['accuracy']:.3f} on 30 texts (30 texts kept out of the training)" in out
    assert "trained on 270 texts of reviews" in out
    assert out.rstrip().endswith("written to m/mood")
    assert Explainer("m/mood").labels == ("bad", "good")

    code, _, err = run("--data", "reviews.csv", "--label", "mood", "--out", "m/mood")
    assert (code, err.count("\n")) == (1, 1)
    assert "is not empty; give a new directory" in err

    shorter = ["--limit", "50", "--test-limit", "20", "--epochs", "0.1", "--length", "16", "--dropout", "0"]
    start = ["--data", "reviews.csv", "--label", "mood", "--from", "m/mood", "--out", "again"]
    code, out, err = run(*start, "--balanced", "--no-positions", *shorter)
    assert code == 0, err
    settings = json.loads(Path("again/training.json").read_text())["settings"]
    assert (settings["model"], settings["positions"], settings["dropout"]) == ("m/mood", False, 0.0)
    assert "on 20 texts" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--from", "x", "--layers", "2"], 2, "leave out"),
        (["--pair", "b"], 2, "name the first with"),
        (["--architecture", "rnn"], 2, "rnn"),
        (["--epochs", "0"], 1, "error: epochs must be a positive number; got 0.0"),
        (["--label", "stars"], 1, "error: reviews has no column 'stars'; its columns are review, mood"),
        (["--text", "mood", "--label", "review", "--heads", "3", "--width", "16"], 1, "a multiple of heads"),
        (["--from", "./nowhere", "--label", "mood"], 1, "error: there is no directory ./nowhere"),
    ],
)
def test_wrong_use_is_one_sentence(reviews: Path, words: list[str], code: int, message: str):
    got, _, err = run("--data", str(reviews), "--out", "m", *words)
    assert (got, message in " ".join(err.split())) == (code, True), err
    assert not Path("m").exists()
