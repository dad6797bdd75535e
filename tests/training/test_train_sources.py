"""Training from files, and the cache of trained models."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planted_texts import planted
from slalom.data import Document
from slalom.errors import InputError
from slalom_lab.training import Network, TrainSettings, cached, default_cache, fingerprint, train
from slalom_lab.training.texts import from_source

QUICK = TrainSettings(model=Network("distilbert", 1, 16, vocabulary=100), epochs=0.3, length=16)


def write(path: Path, documents: list[Document], **more: Any) -> Path:
    rows = [{"text": one.text, "label": ("bad", "good")[one.label or 0], **more} for one in documents]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def report(where: Path) -> dict[str, Any]:
    return json.loads((where / "training.json").read_text())


def test_a_split_of_the_file_is_measured_on(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", planted(60), split="train")
    write(path, planted(20, 1), split="validation")
    write(path, planted(30, 2), split="test")
    found = report(train(replace(QUICK, data=str(path), limit=40, test_limit=25), tmp_path / "m"))
    assert (found["train_texts"], found["test_texts"], found["measured_on"]) == (40, 25, "test")
    assert found["labels"] == ["bad", "good"]
    assert found["data"] == "a"


def test_an_unlabelled_test_split_is_passed_over(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", planted(60), split="train")
    write(path, planted(20, 1), split="validation")
    with path.open("a") as file:
        file.write('{"text": "no label", "label": null, "split": "test"}\n')
    material = from_source(replace(QUICK, data=str(path)), None)
    assert (material.measured_on, len(material.test)) == ("validation", 20)


def test_another_file_is_measured_on_with_the_same_labels(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", planted(60))
    other = write(tmp_path / "b.jsonl", [one for one in planted(20, 1) if one.label == 1])
    material = from_source(replace(QUICK, data=str(path), test=str(other)), None)
    assert (material.measured_on, len(material.test), len(material.train)) == ("b", 10, 60)
    assert {one.label for one in material.test} == {1}
    wrong = tmp_path / "c.jsonl"
    wrong.write_text('{"text": "x", "label": "great"}\n')
    with pytest.raises(InputError, match="'great' is not one of bad, good"):
        from_source(replace(QUICK, data=str(path), test=str(wrong)), None)


def test_without_a_split_a_tenth_is_kept_out(tmp_path: Path):
    path = write(
        tmp_path / "a.jsonl", [replace(one, label=int(i < 30)) for i, one in enumerate(planted(100))]
    )
    material = from_source(replace(QUICK, data=str(path), balanced=True), None)
    assert (len(material.test), material.measured_on) == (10, "10 texts kept out of the training")
    assert not {one.id for one in material.train} & {one.id for one in material.test}
    labels = [one.label for one in material.train]
    assert labels.count(0) == labels.count(1) > 20


def test_bad_rows_stop_or_are_left_out(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", planted(60))
    with path.open("a") as file:
        file.write('{"text": null, "label": "bad"}\n')
    with pytest.raises(InputError, match="a, row 61: the text is null"):
        from_source(replace(QUICK, data=str(path)), None)
    material = from_source(replace(QUICK, data=str(path), skip_bad=True), None)
    assert (len(material.train) + len(material.test), material.skipped) == (60, 1)


def test_data_and_documents_exclude_each_other(tmp_path: Path):
    with pytest.raises(InputError, match="not both"):
        train(replace(QUICK, data="sst2"), tmp_path / "m", documents=planted(20))
    with pytest.raises(InputError, match="say what to train on"):
        train(QUICK, tmp_path / "m")
    with pytest.raises(InputError, match="go with documents"):
        train(replace(QUICK, data="sst2"), tmp_path / "m", test=planted(20))


def test_the_cache_trains_once(tmp_path: Path):
    steps: list[int] = []

    def get(settings: TrainSettings, documents: list[Document]) -> Path:
        return cached(settings, tmp_path, documents=documents, progress=lambda step, _: steps.append(step))

    first = get(QUICK, planted(40))
    assert steps
    assert first.name.startswith("distilbert-1x16-documents-")
    steps.clear()
    assert get(QUICK, planted(40)) == first
    assert get(replace(QUICK, rate=5e-4), planted(40)) == first  # the default, said aloud
    assert not steps
    assert get(replace(QUICK, seed=1), planted(40)) != first
    assert get(QUICK, planted(41)) != first
    assert len(list(tmp_path.iterdir())) == 3


def test_the_fingerprint_follows_the_files(tmp_path: Path):
    path = write(tmp_path / "a.jsonl", planted(10))
    settings = replace(QUICK, data=str(path))
    before = fingerprint(settings)
    assert fingerprint(settings) == before
    write(path, planted(1))
    assert fingerprint(settings) != before
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    (encoder / "config.json").write_text("{}")
    tuned = replace(settings, model=str(encoder))
    before = fingerprint(tuned)
    (encoder / "config.json").write_text('{"a": 1}')
    assert fingerprint(tuned) != before


def test_the_cache_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    assert cached(QUICK, documents=planted(40)).parent == tmp_path / "models"
    monkeypatch.delenv("SLALOM_CACHE")
    if os.name == "posix":
        assert default_cache().name == "slalom"
        assert default_cache() != tmp_path
