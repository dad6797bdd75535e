"""Converted models are kept by their content, and shared by processes."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slalom.models import bundled, open_model
from slalom.models.torch.engines import export
from slalom.models.torch.load import load
from slalom.perturb import whole
from zoo import TEXT, tiny


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path))
    return tmp_path / "converted"


def _asked(module: Any, own: Any) -> Any:
    model = open_model(module, own, engine="onnx")
    tokens = model.tokenize(TEXT)
    return model.logits(tokens, whole(len(tokens)))


def test_a_second_engine_uses_what_the_first_converted(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module, own = tiny("bert")
    first = _asked(module, own)
    monkeypatch.setattr(export, "_export", None)  # any further export would fail
    np.testing.assert_array_equal(_asked(module, own), first)
    assert len(list(kept.iterdir())) == 1


def _write(path: Path) -> None:
    path.write_text("converted")


def _forbidden(path: Path) -> None:
    raise AssertionError("it was converted before")


def test_other_weights_are_another_model(kept: Path) -> None:
    module, _ = tiny("bert")
    with export.converted(module, _write) as first:
        assert first.parent.parent == kept
    with export.converted(module, _forbidden) as again:
        assert again == first
    with torch.no_grad():
        module.classifier.bias += 1.0
    with export.converted(module, _write) as other:
        assert other != first


def test_code_of_its_own_is_not_kept(kept: Path) -> None:
    class Own(torch.nn.Module):
        pass

    hooked, _ = tiny("bert")
    hooked.register_forward_hook(lambda *_: None)
    for module in (Own(), hooked):
        with export.converted(module, _write) as path:
            assert path.read_text() == "converted"
        assert not path.exists()
    assert not kept.exists()


def test_a_cache_that_cannot_be_written_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path / "file"))
    with export.converted(tiny("bert")[0], _write) as path:
        assert path.read_text() == "converted"


def test_two_at_once_keep_one(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=600)
    found: list[str] = []

    def convert(path: Path) -> None:
        both.wait()
        _write(path)

    def run() -> None:
        where = export._kept(tmp_path / "key", convert)
        found.append((where / "model.onnx").read_text() if where else "nothing")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["converted"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_those_used_last_are_kept(tmp_path: Path) -> None:
    for number in range(export.MOST + 3):
        export._kept(tmp_path / str(number), _write)
    assert len(list(tmp_path.iterdir())) == export.MOST
    assert (tmp_path / str(export.MOST + 2)).is_dir()


def test_processes_know_a_model_by_the_same_key() -> None:
    code = (
        "from slalom.models import bundled; from slalom.models.torch.engines import export; "
        "from slalom.models.torch.load import load; print(export._key(load(bundled())[0]))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert there.stdout.strip() == export._key(load(bundled())[0]), there.stderr[-2000:]
