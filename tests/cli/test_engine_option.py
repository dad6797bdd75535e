from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from slalom.cli import app
from slalom.models.torch.engines import engine_names

TEXT = "the food was great"


def test_the_command_line_names_every_engine() -> None:
    told = CliRunner().invoke(app, ["explain", "--help"], env={"COLUMNS": "400"}).output
    assert f"{', '.join(engine_names())}, or one of another package" in told
    refused = CliRunner().invoke(app, ["explain", TEXT, "--engine", "steam"])
    assert refused.exit_code != 0
    assert "'bf16' or None; got 'steam'" in " ".join(refused.stderr.split())


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
def test_explain_with_an_engine() -> None:
    result = CliRunner().invoke(
        app, ["explain", TEXT, "--method", "occlusion", "--engine", "onnx", "--json", "-q"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["settings"]["engine"]["name"] == "onnx"


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_a_tolerance_without_an_engine_is_an_error(command: str) -> None:
    result = CliRunner().invoke(app, [command, TEXT, "--engine-tolerance", "0.1"])
    assert result.exit_code != 0
    assert "engine" in result.stderr
