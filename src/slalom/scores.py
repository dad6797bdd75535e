"""What an explanation holds: scores by name, over tokens and larger units, how far they hold, their cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar, overload

import numpy as np
from scipy import sparse

from slalom.errors import FitError, InputError, SlalomWarning
from slalom.surrogate import Additive, Counts, Heads, Slalom
from slalom.tokens import FloatArray, IntArray, Tokens, frozen

T = TypeVar("T")

FIDELITY = (
    "r2",
    "r2_low",
    "r2_high",
    "rmse",
    "linear_r2",
    "linear_rmse",
    "constant_rmse",
    "removal_error",
    "heldout_queries",
)
"""What can be measured of how far an explanation holds. docs/reading.md says what each of them is."""

RENAMED = {"linear": "share"}
"""Scores that had another name before; it is still understood, in calls and in saved files."""


@dataclass(frozen=True)
class Cost:
    """What an explanation asked of the model."""

    queries: int = 0
    """Perturbed texts asked about."""
    tokens: int = 0
    """Tokens of those texts, without special tokens; a backward pass counts like 1.2 forward passes."""
    seconds: float = 0.0
    """Wall-clock time of the whole explanation."""
    model_seconds: float = 0.0
    """The part of it spent in the model."""
    backwards: int = 0
    """Queries that were followed by a backward pass, for gradients."""


class Scores(dict[str, FloatArray]):
    """Scores by name, and by the names they had before."""

    def __missing__(self, name: str) -> FloatArray:
        if name in RENAMED:
            return self[today(name)]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(RENAMED.get(name, name) if isinstance(name, str) else name)

    @overload
    def get(self, name: str, default: None = None, /) -> FloatArray | None: ...

    @overload
    def get(self, name: str, default: FloatArray, /) -> FloatArray: ...

    @overload
    def get(self, name: str, default: T, /) -> FloatArray | T: ...

    def get(self, name: str, default: T | None = None, /) -> FloatArray | T | None:
        return super().get(today(name), default)


def by_name(what: str, given: Mapping[str, FloatArray], n: int) -> Mapping[str, FloatArray]:
    """Scores under today's names, read-only, one number for each of n tokens."""
    arrays = Scores({RENAMED.get(name, name): frozen(array, float) for name, array in given.items()})
    wrong = [name for name, array in arrays.items() if array.shape != (n,)]
    if wrong:
        raise ValueError(f"{what} {wrong} do not have one number for each of the {n} tokens")
    return MappingProxyType(arrays)


def today(name: str) -> str:
    """The name of a score today; says so where it had another one."""
    if name in RENAMED:
        warnings.warn(f"the score {name!r} is called {RENAMED[name]!r} now", SlalomWarning, stacklevel=3)
    return RENAMED.get(name, name)


class Fidelity(dict[str, float]):
    """What was measured; what was not is NaN."""

    def __missing__(self, name: str) -> float:
        if name in FIDELITY:
            return math.nan
        raise KeyError(name)


def r_squared(truth: FloatArray, told: FloatArray) -> float:
    """The share of the variance of the truth, over its first axis, that is told; of a constant, 1 or 0."""
    spread, left = float(((truth - truth.mean(axis=0)) ** 2).sum()), float(((truth - told) ** 2).sum())
    return 1.0 - left / spread if spread > 0 else float(left == 0.0)


def rms(error: FloatArray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(error))))


def check_finite(method: str, *groups: Mapping[str, FloatArray | float]) -> None:
    """A result is finite or an error, whichever method made it."""
    wrong = [name for group in groups for name, numbers in group.items() if not np.isfinite(numbers).all()]
    if wrong:
        raise FitError(
            f"{method!r} ends in numbers that are not finite ({', '.join(wrong)}): the model "
            "answers too wildly, or an option is too far out"
        )


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

    def fits(self, n: int, ranking: str) -> bool:
        """Whether it is a level of n tokens that has the score to rank by."""
        return self.numbers.shape == (n,) and ranking in self.scores


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


@dataclass(frozen=True, eq=False)
class Windows:
    """y = Σ p_w y_w / Σ p_w over the windows that hold a token; y_w is what the window's surrogate says."""

    parts: tuple[Heads | Slalom | Additive, ...]
    weights: FloatArray
    """(W,) the windows' shares of the tokens."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen(self.weights, float))
        if self.weights.shape != (len(self.parts),) or not (self.weights > 0).all():
            raise ValueError(f"{len(self.parts)} windows need positive weights, not {self.weights.shape}")
        if {part.size[1] for part in self.parts} != {1}:
            raise ValueError("the surrogates of windows have one output")

    @property
    def size(self) -> tuple[int, ...]:
        """(units, K)"""
        return sum(part.size[0] for part in self.parts), 1

    @property
    def edges(self) -> IntArray:
        """(W + 1,) where the windows begin, and the end."""
        return np.cumsum([0, *(part.size[0] for part in self.parts)])

    @property
    def window(self) -> IntArray:
        """(units,) the window of every unit."""
        return np.repeat(np.arange(len(self.parts)), np.diff(self.edges))

    def predict(self, counts: Counts) -> FloatArray:
        """(N, 1) outputs for N bags of tokens."""
        dense = counts.toarray() if isinstance(counts, sparse.csr_array) else np.asarray(counts)
        total, mass = np.zeros(len(dense)), np.zeros(len(dense))
        for part, weight, low, high in zip(
            self.parts, self.weights, self.edges[:-1], self.edges[1:], strict=True
        ):
            own = dense[:, low:high]
            there = np.flatnonzero(own.any(axis=1))
            if len(there):
                total[there] += weight * part.predict(own[there])[:, 0]
                mass[there] += weight
        if not mass.all():
            raise InputError("a text without any token is in no window, so nothing is said of it")
        return (total / mass)[:, None]

    def grouped(self, numbers: IntArray) -> Windows:
        """The same over groups of neighbours that stay or go as a whole; none reaches over a window's end."""
        edges = self.edges
        parts = [
            part.grouped(numbers[low:high] - numbers[low])
            for part, low, high in zip(self.parts, edges[:-1], edges[1:], strict=True)
        ]
        result = replace(self, parts=tuple(parts))
        if result.size[0] != int(numbers[-1]) + 1:
            raise ValueError("a unit reaches over the end of a window")
        return result
