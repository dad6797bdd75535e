"""How often `slalom evaluate` is wrong about equal methods: the level of its tests, by simulation.

    python benchmarks/statistics_level.py --out docs/results/statistics.md

Eight methods are equal on average; documents differ in what they give to all methods. "A difference shown":
in any of the 28 pairs, which is what the level of 5 % is about. "A method called worse": than the one that
happens to lead. "Found": the share of simulations in which one method that is ahead by half a standard
deviation of normal noise is shown to beat all seven others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from slalom.evaluate.statistics import LEVEL, best_or_tied, step_down

METHODS, FLIPS, AHEAD = 8, 1000, 0.5
DOCUMENTS = (4, 6, 10, 30, 100)
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
NOISE: dict[str, Draw] = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "heavy tails (t, 3)": lambda rng, size: rng.standard_t(3, size) / np.sqrt(3),
    "skewed (gamma, 0.5)": lambda rng, size: (rng.gamma(0.5, size=size) - 0.5) / np.sqrt(0.5),
    "normal, spreads 0.2 to 3": lambda rng, size: rng.standard_normal(size) * np.linspace(0.2, 3.0, size[1]),
    "skewed, spreads 0.2 to 3": lambda rng, size: (
        (rng.gamma(1.0, size=size) - 1) * np.linspace(0.2, 3, size[1])
    ),
    "two groups of like methods": lambda rng, size: (
        np.repeat(rng.standard_normal((size[0], 2)), size[1] // 2, axis=1) + 0.1 * rng.standard_normal(size)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines = [
        "# The level of the comparisons",
        "",
        " ".join((__doc__ or "").split("\n\n")[2].split()),
        "",
        f"{arguments.simulations:,} simulations for each row, {FLIPS} sign flips where there are more, level "
        f"{LEVEL:.0%}. Made by",
        f"`python benchmarks/statistics_level.py --simulations {arguments.simulations} --out …`.",
        "",
        "| noise | documents | a difference shown | a method called worse | found |",
        "|---|---|---|---|---|",
    ]
    for name, draw in NOISE.items():
        for documents in DOCUMENTS:
            shown, worse, found = simulated(draw, documents, arguments.simulations)
            lines.append(f"| {name} | {documents} | {shown:.1%} | {worse:.1%} | {found:.0%} |")
            print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def simulated(draw: Draw, documents: int, count: int) -> tuple[float, float, float]:
    rng = np.random.default_rng(documents)
    first, second = np.triu_indices(METHODS, 1)
    shown = worse = found = 0
    for seed in range(count):
        numbers = rng.standard_normal((documents, 1)) + draw(rng, (documents, METHODS))
        gaps = numbers[:, first] - numbers[:, second]
        shown += bool(step_down(gaps, flips=FLIPS, seed=seed).min() <= LEVEL)
        worse += bool(best_or_tied(table(numbers), flips=FLIPS, seed=seed).worse)
        numbers[:, 0] += AHEAD
        found += len(best_or_tied(table(numbers), flips=FLIPS, seed=seed).worse) == METHODS - 1
    return shown / count, worse / count, found / count


def table(numbers: np.ndarray) -> dict[str, dict[str, float]]:
    return {
        f"m{method}": {f"d{place:03}": float(x) for place, x in enumerate(column)}
        for method, column in enumerate(numbers.T)
    }


if __name__ == "__main__":
    main()
