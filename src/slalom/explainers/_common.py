"""What methods share: the result, the value of every subset of the tokens, budgets, optional packages."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Annotated, Literal, TypedDict, Unpack

import numpy as np

from slalom.checks import Budget, Range
from slalom.errors import InputError, MissingExtraError, SlalomError
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target, probabilities
from slalom.perturb import from_keep, from_rows
from slalom.scores import Level, r_squared, rms
from slalom.surrogate import Additive, Counts, Heads, Slalom, Surrogate
from slalom.tokens import BoolArray, FloatArray, IntArray

Design = Literal["short", "deletions", "subsets"]
Reading = Literal["grad_x_input", "avg", "l1", "l2"]
"""What a gradient says of a token …"""
UNSIGNED = ("l1", "l2")
"""… and which of it has no sign."""

Gamma = Annotated[float, Range(-1e6, 1e6)]
"""The sum of the importances of a SLALOM: any number, they can be shifted alike."""
Granularity = Literal["positions", "types"]

AUTO = 1000
"""Queries of an automatic budget where a method samples: the same for all, so that they compare."""

NO_EMPTY = "The model has no answer to the empty text; its score there is taken as 0, even odds."


class Reported(TypedDict, total=False):
    """What a method may say beside its scores; `Explanation` has it under the same names."""

    stderr: Mapping[str, FloatArray]
    levels: Mapping[str, Level]
    surrogate: Heads | Slalom | Additive
    fidelity: Mapping[str, float]
    settings: Mapping[str, object]
    notes: tuple[str, ...]
    unsigned: tuple[str, ...]


def finish(
    ask: Ask,
    target: Target,
    method: str,
    scores: Mapping[str, FloatArray],
    *,
    ranking: str = "attribution",
    **more: Unpack[Reported],
) -> Explanation:
    """The explanation, with everything that all methods report alike."""
    logits = ask.whole()[None]
    return Explanation(
        tokens=ask.tokens,
        method=method,
        target=target.label,
        labels=target.labels,
        probabilities=probabilities(logits, target.activation)[0],
        output=float(target.score(logits)[0]),
        scores=scores,
        ranking=ranking,
        cost=ask.cost,
        **more,
    )


def queries(method: str, budget: Budget, auto: int = AUTO, least: int = 1) -> int:
    """How many queries to ask; refuses a budget that is too small for the method."""
    if budget == "auto":
        return max(auto, least)
    if budget < least:
        raise InputError(f"{method!r} needs at least {least} queries for this text; the budget is {budget}")
    return budget


def units(ask: Ask, granularity: Granularity) -> IntArray:
    """(n,) the unit of every position: itself, or its type."""
    return ask.tokens.inverse if granularity == "types" else np.arange(len(ask.tokens))


class Subsets:
    """The score of the text with some of its units left out (dropped, not masked).

    Not every model can read the empty text; where it cannot, the text that says nothing scores 0 (maths 2).
    """

    def __init__(self, ask: Ask, target: Target, unit: IntArray | None = None):
        self._ask, self._target = ask, target
        self._unit = np.arange(len(ask.tokens)) if unit is None else unit
        self.notes: tuple[str, ...] = ()

    def __call__(self, kept: BoolArray) -> FloatArray:
        """(N,) scores for (N, units) booleans: which units are kept."""
        keep = np.asarray(kept, dtype=bool)[:, self._unit]
        every, none = keep.all(axis=1), ~keep.any(axis=1)
        some = ~(every | none)
        result = np.zeros(len(keep))
        if some.any():
            result[some] = self._target.score(self._ask(from_keep(keep[some])))
        if every.any():  # the text itself is known already
            result[every] = self._target.score(self._ask.whole()[None])
        if none.any():
            result[none] = self._nothing()
        return result

    def _nothing(self) -> float:
        try:
            return float(self._target.score(self._ask(from_rows([[]], len(self._unit))))[0])
        except SlalomError:
            self.notes = (NO_EMPTY,)
            return 0.0


def extra(module: str, method: str) -> ModuleType:
    """A module of an optional package; its own warnings at import are not the user's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("sklearn", "scikit-learn")
        raise MissingExtraError(package, "methods", f"the method {method!r}") from error


class SeededNumpy:
    """numpy, but for a generator of its own: for packages that know the global one only."""

    def __init__(self, seed: int):
        self.random = np.random.RandomState(seed % 2**32)

    def __getattr__(self, name: str) -> object:
        return getattr(np, name)


def rebound(instance: object, method: str, **names: object) -> None:
    """Gives an object its own copy of a method that sees other things under global names of its module."""
    usual = getattr(type(instance), method)
    names = {**usual.__globals__, **names}
    own = FunctionType(usual.__code__, names, usual.__name__, usual.__defaults__, usual.__closure__)
    own.__kwdefaults__ = usual.__kwdefaults__
    setattr(instance, method, MethodType(own, instance))


def held_out(surrogate: Surrogate, counts: Counts, truth: FloatArray, mean: float) -> dict[str, float]:
    """R² and error of a one-output surrogate on queries it has not seen, beside the best constant."""
    if len(truth) == 0:
        return {}
    told = surrogate.predict(counts)[:, 0]
    return {
        "r2": r_squared(truth, told),
        "rmse": rms(truth - told),
        "constant_rmse": rms(truth - mean),
        "heldout_queries": float(len(truth)),
    }


def for_target(surrogate: Slalom, target: Target, units: IntArray) -> Slalom:
    """The one-output SLALOM of the target over the positions of the text, which `units` maps to its units."""
    return Slalom(
        target.read(surrogate.values[units]),
        surrogate.importances[units],
        target.read(surrogate.background_value[None]),
        surrogate.background_importance,
    )
