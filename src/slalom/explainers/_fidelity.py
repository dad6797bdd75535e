"""How well the surrogate predicts queries it was not fitted to, beside simpler surrogates."""

from __future__ import annotations

import numpy as np

from slalom.explainers._answers import Answers, together
from slalom.explainers._scales import Scales
from slalom.fit import linear
from slalom.models.target import Target
from slalom.tokens import FloatArray, Tokens

_EXCERPTS = ("single", "short", "span", "scattered")


def fidelity(
    tokens: Tokens, answers: Answers, scales: Scales, target: Target, whole: FloatArray
) -> dict[str, float]:
    """How well queries are predicted that were not fitted.

    Excerpts: error and R² of SLALOM, of an additive surrogate fitted to the same queries, and of a constant.
    Copies with tokens left out: the squared error relative to predicting no change (cross-validated).
    """
    result = _excerpts(tokens, answers, scales, target) | _removals(answers, scales, target, whole)
    return result | {"heldout_queries": float(sum(len(a) for a in answers.held_out.values()))}


def _excerpts(tokens: Tokens, answers: Answers, scales: Scales, target: Target) -> dict[str, float]:
    held, fitted = together(answers.held_out, _EXCERPTS), together(answers.fitted, _EXCERPTS)
    if held is None or fitted is None or tokens.n_types < 2:
        return {}
    short = held.queries.counts(tokens.inverse, tokens.n_types)
    types = type(scales.types)(
        scales.types.values[tokens.first],
        scales.types.importances[tokens.first],
        scales.types.background_value,
        scales.types.background_importance,
    )
    by_type = np.isin(np.arange(len(held)), _rows_of(answers, ("single", "short")))
    predicted = np.where(
        by_type[:, None], types.predict(short), scales.excerpt.predict(held.queries.counts())
    )
    additive = linear.fit(fitted.queries.counts(tokens.inverse, tokens.n_types), fitted.outputs)
    truth = target.read(held.outputs)
    mean = float(target.read(fitted.outputs).mean())
    spread = float(((truth - truth.mean()) ** 2).mean())
    result = {"constant_rmse": _rms(truth - mean)}
    for name, guess in (("", predicted), ("linear_", additive.surrogate.predict(short))):
        error = truth - target.read(guess)
        result[f"{name}rmse"] = _rms(error)
        result[f"{name}r2"] = (
            1.0 - float((error**2).mean()) / spread if spread > 0 else float(_rms(error) == 0.0)
        )
    return result


def _rows_of(answers: Answers, kinds: tuple[str, ...]) -> np.ndarray:
    """Rows of the held-out excerpts that belong to these kinds (they stand in the order of _EXCERPTS)."""
    lengths = {k: len(answers.held_out[k]) if k in answers.held_out else 0 for k in _EXCERPTS}
    return np.arange(sum(lengths[k] for k in kinds))


def _removals(answers: Answers, scales: Scales, target: Target, whole: FloatArray) -> dict[str, float]:
    if scales.left_out is None:
        return {}
    nothing = float((target.read(answers.fitted["deletion"].outputs - whole) ** 2).mean())
    if nothing == 0.0:
        return {}
    return {"removal_error": float((target.read(scales.left_out) ** 2).mean()) / nothing}


def _rms(error: FloatArray) -> float:
    return float(np.sqrt((error**2).mean()))
