"""A language model behind an endpoint, served: it is explained, and its key is nowhere to be read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoint_server import KEY
from serving import client
from slalom.models import open_model
from slalom.models.endpoint import Endpoint

TEXT = "the food was great but the soup was cold"


def test_a_served_endpoint_never_shows_its_key(
    llm_server: str,
    behave: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    behave(key=KEY)
    monkeypatch.setenv("SLALOM_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    asking = {"prompt": "Is the service good? {text}", "labels": {"good": "great", "bad": "awful"}}
    there = Endpoint(f"{llm_server}/v1", "tiny", cache=tmp_path / "answers.sqlite", backoff=0.01)
    monkeypatch.setenv("SLALOM_API_KEY", KEY + "x")  # of a model whose requests are refused
    wrong = Endpoint(f"{llm_server}/v1", "tiny", cache=tmp_path / "none.sqlite", backoff=0.01)
    refused = open_model(endpoint=wrong, **asking)
    monkeypatch.setenv("SLALOM_API_KEY", KEY)
    models = {"tiny": open_model(endpoint=there, **asking), "refused": refused}
    with client(models, reports=tmp_path / "reports") as http:
        asked = {"text": TEXT, "method": "occlusion"}
        explained = http.post("/api/explain", json={**asked, "model": "tiny"})
        failed = http.post("/api/explain", json={**asked, "model": "refused"})
        pages = [http.get(path) for path in ("/", "/api/models", "/api/models/tiny", "/openapi.json")]
        report = http.get(explained.json()["report"])
    assert explained.status_code == report.status_code == 200
    assert failed.status_code >= 400
    assert "SLALOM_API_KEY" in failed.text
    said = [answer.text for answer in (explained, failed, report, *pages)]
    assert not [text for text in (*said, caplog.text) if KEY in text]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [data for data in files if KEY.encode() in data]
