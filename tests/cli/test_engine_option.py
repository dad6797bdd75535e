from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from slalom.cli import app
from slalom.cli.options import EngineChoice
from slalom.models.torch.engines import ENGINES

TEXT = "the food was great"


def test_the_command_line_offers_every_engine() -> None:
    assert [choice.value for choice in EngineChoice] == list(ENGINES)


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
