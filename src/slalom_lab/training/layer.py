"""The one-layer attention classifier (maths 5), trained on texts at hand.

On a data set: `slalom train -a attention-layer --data imdb --out imdb-layer`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from slalom.data import Document
from slalom.errors import InputError
from slalom_lab.training.run import train
from slalom_lab.training.settings import ONE_LAYER, Network, TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from slalom.theory.attention_layer import AttentionLayer

LABELS = ("negative", "positive")


def train_layer(
    texts: Sequence[str],
    labels: Sequence[int],
    *,
    words: int = 20_000,
    epochs: float = 3,
    rate: float = 1e-3,
    batch: int = 64,
    length: int = 256,
    width: int = 128,
    heads: int = 6,
    positions: bool = True,
    filled: bool = False,
    seed: int = 0,
) -> tuple[AttentionLayer, PreTrainedTokenizerFast]:
    """A layer trained on texts with labels 0 and 1, and its tokenizer."""
    from slalom.models.torch.load import load

    if len(texts) != len(labels) or not set(labels) <= {0, 1}:
        raise InputError(f"every text needs a label 0 or 1; got {len(texts)} texts and {len(labels)} labels")
    settings = TrainSettings(
        model=Network(ONE_LAYER, 1, width, heads, words, filled),
        epochs=epochs,
        batch=batch,
        rate=rate,
        length=length,
        positions=positions,
        seed=seed,
    )
    documents = [Document(text, int(label)) for text, label in zip(texts, labels, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        where = train(
            settings, Path(folder) / "layer", documents=documents, test=documents[:1], labels=LABELS
        )
        model, tokenizer = load(where)
    return model, tokenizer  # type: ignore[return-value]


@torch.inference_mode()
def accuracy(
    model: AttentionLayer, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], labels: Sequence[int]
) -> float:
    """The share of texts whose label the model predicts."""
    right = 0
    for start in range(0, len(texts), 64):
        batch = tokenizer(list(texts[start : start + 64]), truncation=True, padding=True, return_tensors="pt")
        predicted = model(**batch).logits.argmax(dim=-1).numpy()
        right += int((predicted == np.asarray(labels[start : start + 64])).sum())
    return right / len(texts)
