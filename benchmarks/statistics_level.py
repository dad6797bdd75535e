"""How often `slalom evaluate` is wrong about equal methods: the level of its tests, by simulation.

    python benchmarks/statistics_level.py --out docs/results/statistics.md

Eight methods are equal on average; documents differ in what they give to all methods. "A difference shown":
in any of the 28 pairs, which is what the level of 5 % is about; beside it what sign flips alone would have
shown. "A method called worse": than the one that
happens to lead. "Found": the share of simulations in which one method that is ahead by half a standard
deviation of normal noise is shown to beat all seven others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from slalom.evaluate.statistics import LEVEL, compared, sign_flips

METHODS, DRAWS, AHEAD = 8, 500, 0.5
DOCUMENTS = (6, 10, 30, 100)
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
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines = [
        "# The level of the comparisons",
        "",
        " ".join((__doc__ or "").split("\n\n")[2].split()),
        "",
        f"{arguments.simulations:,} simulations for each row, {DRAWS} bootstrap samples and, where there are "
        f"more, as many sign flips; level {LEVEL:.0%}. Made by",
        f"`python benchmarks/statistics_level.py --simulations {arguments.simulations} --out …`.",
        "",
        "| noise | documents | a difference shown | by sign flips alone | a method called worse | found |",
        "|---|---|---|---|---|---|",
    ]
    for name, draw in NOISE.items():
        for documents in DOCUMENTS:
            shown, flips, worse, found = simulated(draw, documents, arguments.simulations)
            lines.append(f"| {name} | {documents} | {shown:.1%} | {flips:.1%} | {worse:.1%} | {found:.0%} |")
            print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def simulated(draw: Draw, documents: int, count: int) -> tuple[float, float, float, float]:
    rng = np.random.default_rng(documents)
    pairs = np.triu_indices(METHODS, 1)
    shown = alone = worse = found = 0
    for seed in range(count):
        numbers = rng.standard_normal((documents, 1)) + draw(rng, (documents, METHODS))
        flips, both = tested(numbers, pairs, seed)
        leader = int(numbers.mean(axis=0).argmax())
        alone += bool(flips.min() <= LEVEL)
        shown += bool(both.min() <= LEVEL)
        worse += bool(both[(pairs[0] == leader) | (pairs[1] == leader)].min() <= LEVEL)
        numbers[:, 0] += AHEAD
        best = int(numbers.mean(axis=0).argmax()) == 0
        found += best and bool(tested(numbers, pairs, seed)[1][pairs[0] == 0].max() <= LEVEL)
    return shown / count, alone / count, worse / count, found / count


def tested(numbers: np.ndarray, pairs: tuple[np.ndarray, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """p-values of all pairs by sign flips, and as `slalom evaluate` has them."""
    gaps = numbers[:, pairs[0]] - numbers[:, pairs[1]]
    return sign_flips(gaps, draws=DRAWS, seed=seed), compared(gaps, draws=DRAWS, seed=seed)


if __name__ == "__main__":
    main()
