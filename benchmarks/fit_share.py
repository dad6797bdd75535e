"""What the fit costs beside the queries it fits: a 255-token review, 1000 queries.

    python benchmarks/fit_share.py --model DIR --data yelp.parquet

`fit` is everything outside the model's forward passes: choosing queries, putting them together, fitting,
standard errors, Shapley values and fidelity.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from statistics import median

import pandas

import slalom
from slalom.errors import SlalomWarning


def main() -> None:
    parser = argparse.ArgumentParser(description="The share of the fit in the time of an explanation.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=255)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    explainer = slalom.Explainer(arguments.model)
    text = review(explainer, arguments.data, arguments.tokens)
    for effort in ("fast", "balanced"):
        runs = [
            explainer(text, effort=effort, budget=arguments.budget).cost for _ in range(arguments.repeats)
        ]
        model = median(run.model_seconds for run in runs)
        fit = median(run.seconds - run.model_seconds for run in runs)
        print(f"{effort}: model {model:.3f} s, fit {fit:.3f} s, fit / model {fit / model:.3f}")


def review(explainer: slalom.Explainer, data: Path, tokens: int) -> str:
    """The review whose number of tokens is nearest to `tokens`."""
    frame = pandas.read_parquet(data).query("split == 'test'")
    likely = frame[frame.text.str.split().str.len().between(0.6 * tokens, tokens)].text.head(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)
        return min(likely, key=lambda text: abs(len(explainer.model.tokenize(text)) - tokens))


if __name__ == "__main__":
    main()
