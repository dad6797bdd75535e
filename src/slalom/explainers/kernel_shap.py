"""KernelSHAP: Shapley values estimated by a weighted regression over subsets of the tokens.

The shap package's KernelExplainer. A token that is absent is dropped; the base value is the model's score
of the empty text. No token is selected away (l1_reg off, where the package keeps ten by default).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from slalom.checks import Range
from slalom.errors import FitError
from slalom.explainers._common import (
    Budget,
    Granularity,
    SeededNumpy,
    Subsets,
    extra,
    finish,
    queries,
    rebound,
    units,
)
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.surrogate import Additive

NEEDS = "logits"


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    granularity: Granularity = "positions",
    l1_reg: Literal[False, "aic", "bic"] | Annotated[float, Range(0, 1e6)] = False,
) -> Explanation:
    """Shapley values from `budget` queries: two for the whole and the empty text, the others for subsets.

    "auto" is 1000, or 2 n + 2 where a text has more than 499 tokens. Where all 2ⁿ subsets fit into the budget
    they are enumerated, and the values are exact.
    """
    unit = units(ask, granularity)
    count = int(unit.max()) + 1
    asked = queries("kernel_shap", budget, max(1000, 2 * count + 2), least=4)
    value = Subsets(ask, target, unit)
    shap = extra("shap", "kernel_shap")
    explainer = shap.KernelExplainer(value, np.zeros((1, count)))
    rebound(explainer, "explain", np=SeededNumpy(seed))
    rebound(explainer, "solve", warnings=_Silent)  # too few queries are told in a note
    try:
        found = explainer.shap_values(np.ones(count), nsamples=asked - 2, l1_reg=l1_reg, silent=True)
    except ValueError as error:  # "aic" and "bic" need more queries than tokens
        raise FitError(f"the shap package refuses {asked} queries with l1_reg={l1_reg!r}: {error}") from error
    values, base = np.asarray(found, dtype=float), float(explainer.expected_value)
    return finish(
        ask,
        target,
        "kernel_shap",
        {"attribution": values[unit]},
        surrogate=Additive((values / np.bincount(unit))[unit], np.array([base])),
        settings={"base": base, "subsets": int(getattr(explainer, "nsamplesAdded", 0)), "l1_reg": l1_reg},
        notes=(*value.notes, *_few(asked, count)),
    )


class _Silent:
    @staticmethod
    def warn(*_: object, **__: object) -> None: ...


def _few(asked: int, count: int) -> tuple[str, ...]:
    if asked - 2 >= min(count, 2**count - 2):
        return ()
    return (
        f"{asked} queries are too few to tell {count} tokens apart: the regression has many solutions, and "
        "the smallest is shown.",
    )
