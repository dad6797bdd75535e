"""Train the bundled sentiment classifier from scratch on IMDB and SST-2.

    python scripts/train_bundled.py --data DIR

DIR holds `imdb.parquet` and `sst2.parquet` with columns text, label (0 negative, 1 positive) and split.
Steps: a lower-case WordPiece vocabulary from the training texts; then classification of SST-2 phrases and of
passages of reviews, with random tokens masked. The result is an ordinary Hugging Face directory with float16
weights; its model card holds the accuracies measured on that directory, read back as float32.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from tokenizers import BertWordPieceTokenizer
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    set_seed,
)

from slalom_lab.training.run import descend
from slalom_lab.training.texts import MaskingCollator

LABELS = {0: "negative", 1: "positive"}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MAX_LENGTH = 512
CARD = """\
---
language: en
pipeline_tag: text-classification
library_name: transformers
---

# Small sentiment classifier

A {layers}-layer BERT (hidden size {hidden}, {heads} heads, intermediate size {intermediate},
{parameters:,} parameters) with its own lower-case WordPiece vocabulary of {vocabulary:,} entries.
It says whether an English text is `negative` (0) or `positive` (1).
Inputs are cut after {length} tokens. Weights are stored as float16 and load as float32:

    AutoModelForSequenceClassification.from_pretrained(directory, dtype=torch.float32)

## Training

From scratch, no pretrained weights, on the training splits of IMDB (Maas et al. 2011; {imdb:,} reviews)
and SST-2 (Socher et al. 2013; {sst2:,} phrases): {epochs} passes over the phrases and
over passages of the reviews, the beginning or a random one, with {token_dropout:.0%} of the tokens masked.
It took {minutes:.0f} minutes on {threads} CPU threads:

    {command}

## Accuracy

Measured by the same script on this directory, loaded as float32; the tokenizer cuts texts at
{length} tokens.

| data | texts | accuracy |
|---|---|---|
{rows}

## Limits

For demonstrations and tests only: the model is small, knows film reviews best, and misses irony, context
and world knowledge. Do not use it to judge people or to make decisions.

## Licence

IMDB and SST-2 were released for research, without an explicit open licence. The data are not part of this
directory; the weights are given for demonstration.
"""


def parse_args() -> argparse.Namespace:
    root = Path(__file__).parents[1]
    data = os.environ.get("SLALOM_DATA")
    parser = argparse.ArgumentParser(description="Train the bundled sentiment classifier from scratch.")
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        default=data,
        required=data is None,
        help="directory with imdb.parquet and sst2.parquet (default: $SLALOM_DATA)",
    )
    add("--out", type=Path, default=root / "src/slalom/bundled", help="directory to write the model to")
    add("--vocabulary", type=int, default=10_000, help="size of the WordPiece vocabulary")
    add("--hidden", type=int, default=128, help="hidden size; the intermediate size is four times as large")
    add("--layers", type=int, default=2, help="number of transformer layers")
    add("--heads", type=int, default=4, help="number of attention heads")
    add("--dropout", type=float, default=0.1, help="hidden dropout")
    add("--token-dropout", type=float, default=0.15, help="share of tokens masked in training")
    add("--smoothing", type=float, default=0.05, help="label smoothing")
    add("--epochs", type=int, default=6, help="passes over the training texts")
    add("--learning-rate", type=float, default=1e-3, help="peak learning rate")
    add("--batch-size", type=int, default=32, help="texts per step")
    add("--seed", type=int, default=0, help="seed of everything random")
    return parser.parse_args()


def read(data: Path, name: str, split: str) -> pd.DataFrame:  # noqa: ARG001
    table = pd.read_parquet(data / f"{name}.parquet")
    return table.query("split == @split").reset_index(drop=True)


def train_tokenizer(texts: list[str], size: int) -> Any:
    """A fast, lower-casing BERT tokenizer with a vocabulary trained on `texts`.

    The vocabulary is sorted, since the trainer orders pieces differently from run to run.
    """
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(
        texts, vocab_size=size, limit_alphabet=100, special_tokens=SPECIAL, show_progress=False
    )
    with tempfile.TemporaryDirectory() as folder:
        ordinary = sorted(set(pieces.get_vocab()) - set(SPECIAL))
        Path(folder, "vocab.txt").write_text("\n".join(SPECIAL + ordinary) + "\n", encoding="utf-8")
        fast: Any = getattr(transformers, "BertTokenizerFast")  # noqa: B009 (hidden from type checkers)
        return fast.from_pretrained(folder, do_lower_case=True, model_max_length=MAX_LENGTH)


def token_ids(tokenizer: Any, texts: Any) -> list[np.ndarray]:
    """The ids of each text, without special tokens and uncut."""
    encoded = tokenizer.backend_tokenizer.encode_batch(texts.tolist(), add_special_tokens=False)
    return [np.array(text.ids, dtype=np.int32) for text in encoded]


def wrap(tokenizer: Any, ids: np.ndarray) -> list[int]:
    return [tokenizer.cls_token_id, *ids.tolist(), tokenizer.sep_token_id]


def passage(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The beginning of a review or, as often, a random passage of it; at most as long as the model takes."""
    room = MAX_LENGTH - 2
    if rng.random() < 0.5 or len(ids) <= 64:
        return ids[:room]
    length = int(rng.integers(64, min(len(ids), room) + 1))
    start = int(rng.integers(0, len(ids) - length + 1))
    return ids[start : start + length]


def model_config(args: argparse.Namespace, tokenizer: Any) -> BertConfig:
    """The architecture. Attention dropout is off, since it keeps PyTorch from its fused CPU attention."""
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        intermediate_size=4 * args.hidden,
        max_position_embeddings=MAX_LENGTH,
        hidden_dropout_prob=args.dropout,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
        id2label=LABELS,
        label2id={name: i for i, name in LABELS.items()},
    )


def classification_rows(
    args: argparse.Namespace, tokenizer: Any, reviews: tuple, phrases: tuple
) -> list[dict[str, object]]:
    """The examples of all passes: each pass has every phrase and, newly drawn, a passage of every review."""
    rng = np.random.default_rng(args.seed)
    rows = []
    for _ in range(args.epochs):
        rows += [(passage(ids, rng), label) for ids, label in zip(*reviews, strict=True)]
        rows += zip(*phrases, strict=True)
    return [{"input_ids": wrap(tokenizer, ids), "labels": label} for ids, label in rows]


def classify(args: argparse.Namespace, tokenizer: Any, rows: Any) -> BertForSequenceClassification:
    """Train the classifier from random weights. `rows` hold all passes, so the trainer makes one."""
    model = BertForSequenceClassification(model_config(args, tokenizer))
    descend(
        model,
        rows,
        MaskingCollator(tokenizer, args.token_dropout),
        epochs=1,
        batch=args.batch_size,
        rate=args.learning_rate,
        seed=args.seed,
        warmup=0.06,
        smoothing=args.smoothing,
    )
    return model


def save(model: BertForSequenceClassification, tokenizer: Any, out: Path) -> None:
    """Write weights as float16 under a float32 configuration, so that loading gives float32."""
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    half = {name: weight.half() for name, weight in model.state_dict().items()}
    model.save_pretrained(out, state_dict=half)
    tokenizer.save_pretrained(out)


def measure(out: Path, texts: pd.DataFrame) -> float:
    """Accuracy of the saved directory, loaded as float32, on texts cut by the tokenizer."""
    model = AutoModelForSequenceClassification.from_pretrained(out, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    texts = texts.sort_values("text", key=lambda text: text.str.len())
    hits = 0
    for start in range(0, len(texts), 64):
        batch = texts.iloc[start : start + 64]
        inputs = tokenizer(batch["text"].tolist(), truncation=True, padding=True, return_tensors="pt")
        with torch.inference_mode():
            predicted = model(**inputs).logits.argmax(-1).numpy()
        hits += int((predicted == batch["label"].to_numpy()).sum())
    return hits / len(texts)


def command_line(args: argparse.Namespace) -> str:
    """The command as given, with the data and output directories left general."""
    general = {str(args.data): "DIR", str(args.out): "OUT"}
    return shlex.join(
        ["python", "scripts/train_bundled.py", *(general.get(word, word) for word in sys.argv[1:])]
    )


def write_card(args: argparse.Namespace, tokenizer: Any, facts: dict) -> None:
    scores = facts.pop("scores")
    rows = "\n".join(f"| {name} | {count:,} | {score:.4f} |" for name, count, score in scores)
    text = CARD.format(
        layers=args.layers,
        hidden=args.hidden,
        heads=args.heads,
        intermediate=4 * args.hidden,
        vocabulary=len(tokenizer),
        length=MAX_LENGTH,
        epochs=args.epochs,
        token_dropout=args.token_dropout,
        threads=torch.get_num_threads(),
        command=command_line(args),
        rows=rows,
        **facts,
    )
    (args.out / "README.md").write_text(text, encoding="utf-8")


def main() -> None:
    args = parse_args()
    set_seed(args.seed)
    began = time.perf_counter()
    imdb, sst2 = read(args.data, "imdb", "train"), read(args.data, "sst2", "train")
    tokenizer = train_tokenizer([*imdb["text"], *sst2["text"]], args.vocabulary)
    reviews, phrases = token_ids(tokenizer, imdb["text"]), token_ids(tokenizer, sst2["text"])
    rows = classification_rows(
        args, tokenizer, (reviews, imdb["label"].tolist()), (phrases, sst2["label"].tolist())
    )
    model = classify(args, tokenizer, rows)
    minutes = (time.perf_counter() - began) / 60
    save(model, tokenizer, args.out)
    held_out = {
        "SST-2 validation": read(args.data, "sst2", "validation"),
        "IMDB test": read(args.data, "imdb", "test"),
    }
    scores = [(name, len(texts), measure(args.out, texts)) for name, texts in held_out.items()]
    print(scores, f"{minutes:.1f} minutes")
    facts = {"parameters": model.num_parameters(), "minutes": minutes, "scores": scores}
    write_card(args, tokenizer, {**facts, "imdb": len(imdb), "sst2": len(sst2)})


if __name__ == "__main__":
    main()
