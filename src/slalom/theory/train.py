"""The training recipe of the one-layer classifier (maths 5).

    python -m slalom.theory.train --data DIR --out imdb-layer

DIR holds `imdb.parquet` with columns text, label (0 negative, 1 positive) and split (train, test). The
output is a Hugging Face directory; it opens with `AutoModelForSequenceClassification` once
`slalom.theory.attention_layer` is imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import (
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from slalom.errors import InputError, SlalomError
from slalom.theory.attention_layer import AttentionLayer, AttentionLayerConfig, word_tokenizer

LABELS = {0: "negative", 1: "positive"}


def vocabulary(texts: Sequence[str], size: int) -> list[str]:
    """The `size` most frequent words, split as the layer's tokenizer splits them."""
    split = BertPreTokenizer()
    counts = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text.lower()))
    return [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]]


def train_layer(
    texts: Sequence[str],
    labels: Sequence[int],
    *,
    words: int = 20_000,
    epochs: float = 3,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    batch_size: int = 64,
    seed: int = 0,
    **options: Any,
) -> tuple[AttentionLayer, PreTrainedTokenizerFast]:
    """A layer trained on texts with labels 0 and 1, and its tokenizer; `options` are those of the config."""
    if len(texts) != len(labels) or not set(labels) <= {0, 1}:
        raise InputError(f"every text needs a label 0 or 1; got {len(texts)} texts and {len(labels)} labels")
    if importlib.util.find_spec("accelerate") is None:
        raise SlalomError(
            "training uses the Trainer of transformers, which needs: pip install 'accelerate>=1.1'"
        )
    set_seed(seed)
    names = vocabulary(texts, words)
    config = AttentionLayerConfig(
        vocab_size=len(names) + 3,
        id2label=LABELS,
        label2id={name: i for i, name in LABELS.items()},
        **options,
    )
    tokenizer = word_tokenizer(names, config.max_position_embeddings)
    model = AttentionLayer(config)
    encoded = tokenizer(list(texts), truncation=True)["input_ids"]
    rows = [{"input_ids": ids, "labels": int(y)} for ids, y in zip(encoded, labels, strict=True)]  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            num_train_epochs=epochs,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            per_device_train_batch_size=batch_size,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=seed,
            use_cpu=True,
        )
        trainer = Trainer(model, arguments, DataCollatorWithPadding(tokenizer), train_dataset=rows)  # type: ignore[arg-type]
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model.eval(), tokenizer


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


def read_imdb(data: Path, split: str) -> tuple[list[str], list[int]]:
    """Reviews and labels of one split."""
    import pandas as pd

    path = data / "imdb.parquet"
    if not path.is_file():
        raise InputError(
            f"{path} does not exist; name the directory of imdb.parquet with --data or SLALOM_DATA"
        )
    reviews = pd.read_parquet(path)
    chosen = reviews[reviews["split"] == split]
    return chosen["text"].tolist(), chosen["label"].astype(int).tolist()


def main(argv: Sequence[str] | None = None) -> None:
    """Train on IMDB, save, and print the accuracy on the test split as JSON."""
    data = os.environ.get("SLALOM_DATA")
    parser = argparse.ArgumentParser(description="Train the one-layer attention classifier on IMDB.")
    parser.add_argument(
        "--data", type=Path, default=data, required=data is None, help="default: $SLALOM_DATA"
    )
    parser.add_argument("--out", type=Path, required=True, help="directory to save model and tokenizer to")
    parser.add_argument("--epochs", type=float, default=3, help="passes over the training reviews")
    parser.add_argument(
        "--pad-to-max", action="store_true", help="fill every text with <UNK>, as the paper does"
    )
    parser.add_argument("--no-positions", action="store_true", help="leave the positions out")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    start = time.perf_counter()
    model, tokenizer = train_layer(
        *read_imdb(args.data, "train"),
        epochs=args.epochs,
        seed=args.seed,
        pad_to_max=args.pad_to_max,
        positions=not args.no_positions,
    )
    seconds = round(time.perf_counter() - start)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    found = accuracy(model, tokenizer, *read_imdb(args.data, "test"))
    print(json.dumps({"test_accuracy": found, "train_seconds": seconds}))


if __name__ == "__main__":
    main()
