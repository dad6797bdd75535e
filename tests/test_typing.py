"""What editors and type checkers know of the front door."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slalom import Explainer, explainers
from slalom.errors import SlalomWarning
from slalom.models import Access
from slalom.request import CallOptions, MethodOptions, Request

SNIPPET = """
from typing import assert_type

from slalom import Explainer, Explanation, explain
from slalom.explanations import Explanations

explainer = Explainer(device="cpu")
assert_type(explainer("a text", budget=10, effort="fast"), Explanation)
assert_type(explainer(["a", "b"], target=["x", "y"], units="sentences"), Explanations)
assert_type(explain("a text", engine="eager", side="both"), Explanation)
explainer("a text", bugdet=10)
explainer("a text", effort="fats")
explain("a text", method="lime", sed=3)
Explainer(devise="cpu")
"""
WRONG = (10, 11, 12, 13)
"""Lines of the snippet that have a typo."""


def test_pyright_sees_typos_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    (tmp_path / "snippet.py").write_text(SNIPPET, encoding="utf-8")
    source = Path(__file__).parents[1] / "src"
    settings = {"include": ["snippet.py"], "extraPaths": [str(source)], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run([*command, "-p", tmp_path], capture_output=True, text=True, check=False)
    found = json.loads(run.stdout)["generalDiagnostics"]
    assert {entry["range"]["start"]["line"] for entry in found} == set(WRONG), found


def test_every_option_of_a_method_is_known() -> None:
    own = {option for name in explainers.names() for option in explainers.options(name)}
    assert set(MethodOptions.__annotations__) == own - {"granularity"}


def test_no_word_means_two_things() -> None:
    assert not set(Access.__annotations__) & set(CallOptions.__annotations__)


def test_the_old_name_of_a_side_is_warned_of() -> None:
    with pytest.warns(SlalomWarning, match="side= now"):
        assert Request.of({"explain": "second"}).side == "second"
    explainer = Explainer(lambda texts: [0.5 for _ in texts], output="probabilities")
    with pytest.warns(SlalomWarning, match="side= now"):
        explainer(("a", "b"), explain="second", method="occlusion")


def test_scores_of_types_are_recorded_as_such() -> None:
    assert Request(method="linear").given_granularity == "types"
    assert Request(method="linear", granularity="words").given_granularity == "words"
    assert Request(method="lime").given_granularity == "positions"
    assert Request(method="lime", granularity="types").given_granularity == "types"
