"""What an explanation holds: scores by name, over tokens and larger units, how far they hold, their cost."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar, overload

import numpy as np
from scipy.special import ndtr

from slalom.errors import FitError, InputError, SlalomWarning
from slalom.perturb import Counts, dense
from slalom.shapley import shapley_slopes as slopes_of
from slalom.surrogate import Additive, Heads, Slalom
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


def slalom_readings(surrogate: Slalom) -> dict[str, FloatArray]:
    """The readings of a one-output SLALOM whose units are the positions of the text."""
    positions = np.arange(len(surrogate.importances))
    return {
        "value": surrogate.values[:, 0],
        "importance": surrogate.importances,
        "share": surrogate.linear(positions)[:, 0],
        "removal": surrogate.removal(positions)[:, 0],
        "shapley": surrogate.shapley(positions)[:, 0],
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
        every = dense(counts)
        total, mass = np.zeros(len(every)), np.zeros(len(every))
        for part, weight, low, high in zip(
            self.parts, self.weights, self.edges[:-1], self.edges[1:], strict=True
        ):
            own = every[:, low:high]
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


# Standard errors by the delta method (maths 2, 3c, 3h). Slopes are by (importances, values, log of ceiling)
# of one output: heads one after the other, units and the background last in each; without a ceiling the last
# column is missing.


def output_slopes(surrogate: Heads, counts: FloatArray) -> FloatArray:
    """(N, P) of the outputs for bags of tokens (N × n)."""
    by_s: list[FloatArray] = []
    by_v: list[FloatArray] = []
    level = np.zeros(len(counts))
    for part in surrogate.parts:
        s, v = _with_background(part)
        mass = np.column_stack([counts, np.ones(len(counts))]) * np.exp(s - s.max())
        share = mass / mass.sum(axis=1, keepdims=True)
        told = share @ v
        by_s.append(share * (v - told[:, None]))
        by_v.append(share)
        level += told
    slopes = np.hstack(by_s + by_v)
    if surrogate.ceiling is None:
        return slopes
    t = np.tanh(level / surrogate.ceiling[0])
    bend = surrogate.ceiling[0] * t - level * (1.0 - t**2)
    return np.column_stack([slopes * (1.0 - t**2)[:, None], bend])


def importance_slopes(surrogate: Heads, member: FloatArray, centre: FloatArray) -> FloatArray:
    """(units, P) of the importances of units, whose weights are the sums of their tokens' weights.

    `member` (units × n) tells whose; `centre` (units,) are the weights of their mean, which is fixed.
    """
    n, unit = len(surrogate), np.eye(len(surrogate), len(surrogate) + 1)
    alphas = np.stack([np.append(*part.shares(np.arange(n))) for part in surrogate.parts])
    if len(alphas) == 1:  # then they are parameters themselves
        by_s = unit
    else:
        own = alphas[:, :n] / alphas[:, :n].sum(axis=0)
        by_s = np.hstack([part[:, None] * (unit - alpha) for part, alpha in zip(own, alphas, strict=True)])
    weights = surrogate.log_weights()
    parts = member * np.exp(weights - weights.max())
    by_s = (parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)) @ by_s
    rest = np.zeros((len(member), alphas.size + (surrogate.ceiling is not None)))
    return np.hstack([by_s - centre @ by_s, rest])


def share_slopes(surrogate: Heads) -> FloatArray:
    """(n, P) of the shares: ∂(α_i v_i)/∂s_j = α_i v_i (δ_ij − α_j) and ∂(α_i v_i)/∂v_j = α_i δ_ij."""
    n = len(surrogate)
    unit = np.eye(n, n + 1)
    by_s: list[FloatArray] = []
    by_v: list[FloatArray] = []
    for part in surrogate.parts:
        shares, rest = part.shares(np.arange(n))
        by_s.append((shares * part.values[:, 0])[:, None] * (unit - np.append(shares, rest)))
        by_v.append(shares[:, None] * unit)
    return _below_ceiling(surrogate, np.hstack(by_s + by_v), Heads.shares)


def shapley_slopes(surrogate: Heads, member: FloatArray) -> FloatArray:
    """(units, P) of the Shapley values of units that stay or go as a whole; `member` (units × n) tells whose.

    A unit's weight is W = Σ w and its value V = Σ w v / W, so that ∂log W/∂s_i = ∂V/∂v_i = w_i / W and
    ∂V/∂s_i = (v_i − V) w_i / W.
    """
    numbers, by_s, by_v = member.argmax(axis=0), list[FloatArray](), list[FloatArray]()
    for part in surrogate.parts:
        unit = part.grouped(numbers)
        s, v = _with_background(unit)
        has_background = float(np.isfinite(part.background_importance))  # without it the empty text says 0
        own_s, own_v = slopes_of(s[:-1], v[:-1], s[-1], has_background * v[-1])
        weight = member * np.exp(part.importances - s[numbers])
        apart = weight * (part.values[:, 0] - v[numbers])
        by_s.append(
            np.column_stack([own_s[:, :-1] @ weight + own_v[:, :-1] @ apart, has_background * own_s[:, -1]])
        )
        by_v.append(np.column_stack([own_v[:, :-1] @ weight, has_background * own_v[:, -1]]))
    return _below_ceiling(surrogate, np.hstack(by_s + by_v), lambda heads: heads.grouped(numbers).shapley())


def _below_ceiling(surrogate: Heads, slopes: FloatArray, read: Callable[[Heads], FloatArray]) -> FloatArray:
    """Slopes of readings of Σ_h F_h as slopes of those in units of the output.

    Below a ceiling these are scaled by y / Σ_h F_h, which moves, too.
    """
    if surrogate.ceiling is None:
        return slopes
    text = np.ones((1, len(surrogate)))
    linear, scale = replace(surrogate, ceiling=None, near=None), surrogate.scale()
    level = float((linear.predict(text) - linear.offset)[0, 0])
    moved = output_slopes(surrogate, text) - scale * np.append(output_slopes(linear, text), 0.0)
    return scale * np.column_stack([slopes, np.zeros(len(slopes))]) + read(linear) * moved / (level or 1.0)


def order_certainty(scores: FloatArray, covariance: FloatArray) -> float:
    """The probability that the order of two scores is right, on average over pairs (1 where none differ)."""
    i, j = np.triu_indices(len(scores), 1)
    gap = np.abs(scores[i] - scores[j])
    i, j, gap = i[gap > 0], j[gap > 0], gap[gap > 0]
    if len(gap) == 0:
        return 1.0
    spread = root(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j])
    return float(ndtr(gap / np.maximum(spread, np.finfo(float).tiny)).mean())


def root(variance: FloatArray) -> FloatArray:
    """Standard errors; rounding below zero is zero."""
    return np.sqrt(np.maximum(variance, 0.0))


def _with_background(part: Slalom) -> tuple[FloatArray, FloatArray]:
    s0 = max(part.background_importance, part.importances.max() - 700.0)
    return np.append(part.importances, s0), np.append(part.values[:, 0], part.background_value[0])
