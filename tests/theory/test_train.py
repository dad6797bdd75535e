"""The training recipe, on a corpus small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slalom.errors import InputError
from slalom.theory.train import accuracy, main, read_imdb, train_layer, vocabulary

GOOD, BAD, PLAIN = ("great", "fine"), ("awful", "dull"), ("the", "film", "plot", "was", "a", "cast")


def corpus(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Plain words and one word that decides."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=count)
    texts = []
    for label in labels:
        words = [*rng.choice(PLAIN, size=rng.integers(3, 9)), rng.choice(GOOD if label else BAD)]
        texts.append(" ".join(rng.permutation(words)))
    return texts, labels.tolist()


def test_the_recipe_learns_which_words_decide() -> None:
    sizes = {"hidden_size": 16, "attention_size": 8, "value_size": 8, "num_attention_heads": 2}
    model, tokenizer = train_layer(
        *corpus(400, 0), epochs=8, learning_rate=1e-2, batch_size=32, max_position_embeddings=16, **sizes
    )
    assert not model.training
    assert accuracy(model, tokenizer, *corpus(200, 1)) > 0.95
    assert model.config.id2label == {0: "negative", 1: "positive"}


def test_vocabulary_is_the_most_frequent_words() -> None:
    assert vocabulary(["B a, a", "a b c"], 3) == ["a", "b", ","]


def test_the_command_trains_from_a_parquet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [corpus(60, 0), corpus(20, 1)]
    rows = [
        (t, y, s)
        for (ts, ys), s in zip(parts, ("train", "test"), strict=True)
        for t, y in zip(ts, ys, strict=True)
    ]
    pd.DataFrame(rows, columns=["text", "label", "split"]).to_parquet(tmp_path / "imdb.parquet")
    main(["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--epochs", "1", "--no-positions"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 0 <= result["test_accuracy"] <= 1
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="label 0 or 1"):
        train_layer(["a"], [2])
    with pytest.raises(InputError, match=r"imdb\.parquet"):
        read_imdb(tmp_path, "train")
