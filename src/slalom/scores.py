"""What an explanation holds by name: scores, how far they hold, what they cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slalom.errors import FitError, SlalomWarning
from slalom.files import number
from slalom.serialise import whole
from slalom.tokens import FloatArray

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

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Cost:
        """What was saved; files of before there were backward passes do not name them."""
        queries, tokens, backwards = whole([record["queries"], record["tokens"], record.get("backwards", 0)])
        seconds, in_model = number(record["seconds"]), number(record["model_seconds"])
        if not (0 <= seconds < math.inf and 0 <= in_model < math.inf):
            raise ValueError(f"{seconds} seconds, {in_model} of them in the model")
        return cls(queries, tokens, seconds, in_model, backwards)


class Scores(dict[str, FloatArray]):
    """Scores by name, and by the names they had before."""

    def __missing__(self, name: str) -> FloatArray:
        if name in RENAMED:
            return self[today(name)]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(RENAMED.get(name, name) if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(today(name), default)


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


def check_finite(method: str, *groups: Mapping[str, Any]) -> None:
    """A result is finite or an error, whichever method made it."""
    wrong = [name for group in groups for name, numbers in group.items() if not np.isfinite(numbers).all()]
    if wrong:
        raise FitError(
            f"{method!r} ends in numbers that are not finite ({', '.join(wrong)}): the model "
            "answers too wildly, or an option is too far out"
        )
