"""The table of the README: slalom beside lime, shap and the authors' package, on the bundled model.

    python benchmarks/beside.py --data imdb.parquet --documents 100 --out docs/results/beside.json

Reviews of 30 to 120 tokens from the split test, drawn by a seed; each is explained for the label that the
model predicts. Measured as in `benchmarks/all_scales.py`: R² of the predictions for 300 fresh copies of all
sizes; squared error under 1 to 10 removals, relative to predicting no change, summed over texts; deletion
AOPC; tokens read (special tokens apart) and processor seconds of one thread. A method without a surrogate
adds its scores up; for R² it gets the best shift and gain, which favours it.

The authors' package (slalom-explanations) runs with the settings of its authors' experiments: 20 epochs,
three tokens. It takes every model for one whose special tokens are 101 and 102; here it is told the true
ones, in its favour.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import all_scales as scales
import slalom
import slalom.errors
from slalom.evaluate.protocols.deletion import deletion
from slalom.models.ask import Ask
from slalom.models.target import choose_target
from slalom.perturb import from_keep
from slalom.surrogate import Slalom

LENGTHS = (30, 120)
METHODS: dict[str, dict[str, Any]] = {
    "slalom": {},
    "lime": {"method": "lime", "budget": 1000},
    "kernel_shap": {"method": "kernel_shap", "budget": 1000},
    "partition_shap": {"method": "partition_shap", "budget": 1000},
}
AUTHORS = "slalom-explanations"
SAMPLES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--seed", type=int, default=60731)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", slalom.errors.SlalomWarning)
    torch.set_num_threads(1)
    explainer = slalom.Explainer()
    arguments.longest = None
    scales.LENGTHS = (LENGTHS,)
    texts = scales.documents(explainer, arguments)
    rows: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        rows += [{"document": number, **row} for row in measured(explainer, text, number)]
        if number % 10 == 9:
            print(f"{number + 1} of {len(texts)}", flush=True)
    arguments.out.write_text(json.dumps(summary(rows, arguments), indent=1) + "\n", encoding="utf-8")


def measured(explainer: slalom.Explainer, text: str, number: int) -> list[dict[str, Any]]:
    """Every method on one text, judged by the same copies."""
    rows = scales.measured(explainer, text, METHODS, number)
    ask = Ask(explainer.model, explainer.model.tokenize(text))
    target = choose_target(explainer.model, None, ask.whole())
    n, rng = len(ask.tokens), np.random.default_rng([number, 77])
    copies, near = scales.all_scales(n, scales.FRESH, rng), scales.removed(n, rng)
    said, left = (target.score(ask(from_keep(keep))) for keep in (copies, near))
    answer = float(target.score(ask.whole()[None])[0])
    model, start = Told(explainer), time.process_time()
    values, importances = authors(model, ask.tokens, number)
    row: dict[str, Any] = {"method": AUTHORS, "seconds": time.process_time() - start, "read": model.read}
    sign = 1.0 if target.index == 1 else -1.0
    surrogate = Slalom(values=sign * values, importances=importances)
    scored = explainer(
        text, target=target.index, method=lambda ask, target: sign * values * np.exp(importances)
    )
    row |= {"queries": SAMPLES, "deletion": deletion(ask, scored)}
    row["no_change"] = float(((left - answer) ** 2).sum())
    told, whole = surrogate.predict(copies.astype(float))[:, 0], surrogate.predict(np.ones((1, n)))[0, 0]
    moved = surrogate.predict(near.astype(float))[:, 0] - whole
    row["r2"] = float(1 - ((said - told) ** 2).sum() / ((said - said.mean()) ** 2).sum())
    row["removal_error"] = float(((moved - (left - answer)) ** 2).sum())
    return [*rows, row]


class Told(torch.nn.Module):
    """The model, with its own special tokens in the places of 101 and 102; counts what it reads."""

    def __init__(self, explainer: slalom.Explainer):
        super().__init__()
        model: Any = explainer.model
        self.module, self.tokenizer, self.read = model.module, model.tokenizer, 0

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = torch.arange(len(input_ids))
        last = attention_mask.sum(dim=1).long() - 1
        if not ((input_ids[:, 0] == 101).all() and (input_ids[rows, last] == 102).all()):
            raise SystemExit("the authors' package has put its special tokens elsewhere")
        ids = input_ids.clone()
        ids[:, 0], ids[rows, last] = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        self.read += int(attention_mask.sum()) - 2 * len(ids)
        with torch.no_grad():
            return {"logits": self.module(input_ids=ids, attention_mask=attention_mask).logits}


def authors(told: Told, tokens: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and importances, towards the second label, as the authors' package finds them."""
    from slalom_explanations.slalom_explainer import (  # pyright: ignore[reportMissingImports]
        SLALOMLocalExplanantions,
    )

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        theirs = SLALOMLocalExplanantions(
            told,
            n_samples=SAMPLES,
            device="cpu",
            modes=["value", "imp"],
            sgd_epochs=20,
            sgd_lr=1e-2,
            seq_len=3,
            pad_token_id=told.tokenizer.pad_token_id,
        )
        found = theirs.get_signed_importance_for_tokens([piece[0] for piece in tokens.pieces])
    values, importances = np.asarray(found, dtype=float)
    return values, importances


def summary(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Means and standard errors over texts, by method."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        of = [row for row in rows if row["method"] == name]
        found[name] = {
            key: _mean([row[key] for row in of]) for key in ("r2", "deletion", "read", "seconds", "queries")
        }
        pooled = sum(row["removal_error"] for row in of) / sum(row["no_change"] for row in of)
        found[name]["removals"] = {"pooled": pooled, "n": len(of)}
    packages = ("lime", "shap", "slalom-explanations", "torch")
    return {
        "format": "slalom-beside",
        "command": f"python benchmarks/beside.py --data {arguments.data.name}"
        f" --documents {arguments.documents} --seed {arguments.seed} --out docs/results/beside.json",
        "model": "bundled",
        "data": arguments.data.stem,
        "documents": len({row["document"] for row in rows}),
        "lengths": list(LENGTHS),
        "seed": arguments.seed,
        "versions": {name: version(name) for name in packages},
        "methods": found,
    }


def _mean(values: list[float]) -> dict[str, float]:
    given = np.asarray(values, dtype=float)
    return {
        "mean": float(given.mean()),
        "stderr": float(given.std(ddof=1) / np.sqrt(len(given))),
        "n": len(given),
    }


if __name__ == "__main__":
    main()
