"""The Gradio demo of examples/space: its answers, and its page where Gradio is installed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SPACE = Path(__file__).parents[1] / "examples" / "space"


def test_it_answers_with_words_and_a_report() -> None:
    app = runpy.run_path(str(SPACE / "app.py"))
    answer, frame = app["report"]("the food was great but the service was awful", "words")
    assert "awful" in answer
    assert frame.startswith("<iframe srcdoc=")
    assert "<script" not in frame  # inside of the frame, all is escaped
    answer, frame = app["report"]("  ", "words")
    assert answer
    assert frame == ""


def test_its_page_is_built() -> None:
    pytest.importorskip("gradio")
    page = runpy.run_path(str(SPACE / "app.py"))["demo"]()
    assert page.get_config()["components"]


def test_it_is_ready_to_be_hosted() -> None:
    head = (SPACE / "README.md").read_text(encoding="utf-8").split("---")[1]
    assert "sdk: gradio" in head
    assert "app_file: app.py" in head
    assert "slalom-xai>=0.2" in (SPACE / "requirements.txt").read_text(encoding="utf-8")
