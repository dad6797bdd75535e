"""Why a document failed, or fits badly, in words that can be counted."""

from __future__ import annotations

import math
import re
from typing import Any

_FEW = 10
"""Held-out queries below which an R² is mostly chance."""
_VARYING = 0.05
"""Of the output: answers that vary by less leave a surrogate nothing to explain."""


def general(reason: str) -> str:
    """An error without what belongs to one document: quoted text and numbers."""
    short = re.sub(r"'[^']*'|\"[^\"]*\"", "‘…’", " ".join(reason.split()))
    return re.sub(r"\d+", "N", short)[:200]


def why_bad(single: dict[str, list[Any]], i: int) -> str:
    """What the numbers of a document say about a bad fit."""

    def number(name: str) -> float:
        value = single[name][i]
        return math.nan if value is None else float(value)

    r2, linear, held_out = number("r2"), number("linear_r2"), number("heldout_queries")
    spread, output = number("constant_rmse"), number("output")
    reasons = []
    if linear > r2 + 0.02:
        reasons.append(f"a linear surrogate fits better ({linear:.2f})")
    if spread < _VARYING * abs(output):
        reasons.append(f"the answers hardly vary (by {spread:.2g} around {output:+.2f})")
    if held_out < _FEW:
        reasons.append(f"measured on {held_out:.0f} queries only")
    if not reasons:
        reasons.append(f"off by {number('rmse'):.2g} where the answers vary by {spread:.2g}")
    return "; ".join([*reasons, *(note for note in single["notes"][i] or [])])
