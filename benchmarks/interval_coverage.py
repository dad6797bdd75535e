"""How often 95 % intervals of a SLALOM's scores cover the truth, where the truth is planted.

    python benchmarks/interval_coverage.py --texts 30 --out docs/results/coverage.md

Each text has d words of a SLALOM drawn anew: importances of unit spread, values of spread two, with or
without a background. Answers carry normal noise of a tenth of their spread. A score is covered where it lies
within 1.96 standard errors of the truth. Truth: of a value, the output for the word alone; of an importance,
that of the SLALOM, centred; of share and removal, those of the SLALOM.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import slalom
from slalom import designs
from slalom.errors import SlalomWarning
from slalom.surrogate import Slalom
from slalom.tokens import FloatArray

SIZES = (12, 25, 100)
NOISE = 0.1
SCORES = ("value", "importance", "share", "removal")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SlalomWarning)
    lines = ["| words | background | " + " | ".join(SCORES) + " | z: spread of value, … |"]
    lines.append("|---" * (len(SCORES) + 3) + "|")
    for d in arguments.sizes:
        for background in (False, True):
            trials = [trial(d, background, [arguments.seed, d, t]) for t in range(arguments.texts)]
            covered = {name: np.concatenate([each[name] for each in trials]) for name in SCORES}
            cells = [f"{(np.abs(covered[name]) <= 1.96).mean():.3f}" for name in SCORES]
            spread = ", ".join(f"{covered[name].std():.2f}" for name in SCORES)
            lines.append(f"| {d} | {'yes' if background else 'no'} | {' | '.join(cells)} | {spread} |")
            print(lines[-1], flush=True)
    if arguments.out:
        made = f"{arguments.texts} texts for each line, seed {arguments.seed}.\n\n"
        arguments.out.write_text(f"# Coverage\n\n{__doc__}\n{made}" + "\n".join(lines) + "\n")


def trial(d: int, background: bool, seed: list[int]) -> dict[str, FloatArray]:
    """(n,) errors of each score in units of its standard error."""
    rng = np.random.default_rng(seed)
    own = (rng.normal(), rng.normal(scale=0.5)) if background else (0.0, -np.inf)
    model = Slalom(2.0 * rng.normal(size=(d, 1)), rng.normal(size=d), np.array([own[0]]), own[1])
    words = [f"w{i}" for i in range(d)]
    place = {word: i for i, word in enumerate(words)}
    copies = designs.all_scales(d, 500, 1, d - 1, rng).counts()
    spread = float(model.predict(copies).std())

    def answer(texts: list[str]) -> FloatArray:
        counts = np.array(
            [np.bincount([place[word] for word in text.split()], minlength=d) for text in texts]
        )
        return model.predict(counts.astype(float))[:, 0] + NOISE * spread * rng.normal(size=len(texts))

    found = slalom.Explainer(answer)(" ".join(words), target=1)
    units = np.arange(d)
    truth = {
        "value": model.predict(np.eye(d))[:, 0],
        "importance": model.importances - model.importances.mean(),
        "share": model.linear(units)[:, 0],
        "removal": model.removal(units)[:, 0],
    }
    return {name: (found.scores[name] - truth[name]) / found.stderr[name] for name in SCORES}


if __name__ == "__main__":
    main()
