"""One fit read over larger units: words of the tokens, sentences of the words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from slalom.surrogate import Additive, Heads, Slalom
from slalom.tokens import FloatArray, IntArray, Tokens, frozen
from slalom.windows import Windows


@dataclass(frozen=True, eq=False)
class Level:
    """Which unit every token belongs to, and the units' scores and standard errors."""

    numbers: IntArray
    """(n,) ascending from 0 on."""
    scores: Mapping[str, FloatArray]
    stderr: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        numbers = frozen(self.numbers, np.int64)
        if len(numbers) == 0 or numbers[0] != 0 or not np.isin(np.diff(numbers), (0, 1)).all():
            raise ValueError("the units of a level must be numbered from 0 on, one after the other")
        object.__setattr__(self, "numbers", numbers)
        for name in ("scores", "stderr"):
            arrays = {key: frozen(array, float) for key, array in getattr(self, name).items()}
            if any(array.shape != (numbers[-1] + 1,) for array in arrays.values()):
                raise ValueError(f"{name} of a level need one number for each of its {numbers[-1] + 1} units")
            object.__setattr__(self, name, MappingProxyType(arrays))


def in_order(tokens: Tokens, numbers: IntArray) -> IntArray:
    """Units numbered from 0 on, one after the other; the texts of a pair do not share one."""
    ranks = np.zeros(len(tokens), np.int64)
    ranks[tokens.starts(numbers)[1:]] = 1
    return np.cumsum(ranks)


def coarser(levels: Mapping[str, Level], numbers: IntArray) -> dict[str, Level]:
    """The levels whose units are made of whole units of `numbers`, over these units."""
    first = np.unique(numbers, return_index=True)[1]
    return {
        name: Level(level.numbers[first], level.scores, level.stderr)
        for name, level in levels.items()
        if np.array_equal(level.numbers[first][numbers], level.numbers)
    }


def read(
    tokens: Tokens, numbers: IntArray, scores: Mapping[str, FloatArray], surrogate: object
) -> tuple[dict[str, FloatArray], Heads | Slalom | Additive | Windows | None]:
    """The units' scores, and the surrogate over them. `tokens` are the units.

    What adds up is added up; a SLALOM is asked again, which says exactly what its tokens say together.
    """
    added = {name: np.bincount(numbers, each).astype(float) for name, each in scores.items()}
    if isinstance(surrogate, Heads | Slalom):
        larger = surrogate.grouped(numbers)
        heads = Heads((larger,), np.zeros(1)) if isinstance(larger, Slalom) else larger
        return {
            name: each for name, each in (added | readings(tokens, heads)).items() if name in scores
        }, larger
    return added, surrogate.grouped(numbers) if isinstance(surrogate, Additive | Windows) else None


def readings(tokens: Tokens, surrogate: Heads, gamma: float = 0.0) -> dict[str, FloatArray]:
    """All that a one-output surrogate says of its units; importances of the types sum to gamma."""
    weights = surrogate.log_weights()
    return {
        "value": surrogate.alone()[:, 0],
        "importance": weights - centre(tokens) @ weights + gamma / tokens.n_types,
        "share": surrogate.shares()[:, 0],
        "removal": surrogate.removal()[:, 0],
        "shapley": surrogate.shapley()[:, 0],
    }


def centre(tokens: Tokens) -> FloatArray:
    """(n,) weights of a mean over types: copies of a type count as one."""
    return 1.0 / (tokens.n_types * np.bincount(tokens.inverse)[tokens.inverse])
