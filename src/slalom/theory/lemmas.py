"""The lemmas behind the LIME theorem of Lopardo, Precioso and Garreau, as functions (maths 5).

`lime_limit.expected_sum` and `variance_sum` are the mean and the variance of H_S. Here is the quotient: for
|X| ≤ C and cn ≤ Y ≤ Cn,

    |E[X/Y] − E[X]/E[Y]| ≤ C Var(Y)/(c³n³) + C √Var(Y)/(c²n²)

With C² in the second term, as it is printed, the lemma fails where C < 1: for X = ±C against Y = n(m ± ε) the
left side is near Cε/m², the right side near C²ε/m². The term is |Cov(X, Y)|/E[Y]², and X deviates by C, not
by C². The theorem's constants may be taken larger than 1, so its conclusion does not hang on this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom.errors import InputError
from slalom.theory.lime_limit import expected_sum, variance_sum
from slalom.theory.masking import Masked
from slalom.tokens import FloatArray


def quotient_bound(
    lower: float, upper: float, n: float, variance: float, *, as_printed: bool = False
) -> float:
    """The lemma's bound on |E[X/Y] − E[X]/E[Y]|, c = lower and C = upper."""
    if not 0 < lower <= upper or not n > 0 or variance < 0:
        raise InputError(
            f"0 < lower ≤ upper, n > 0 and a variance of at least 0 are needed; "
            f"got {lower}, {upper}, {n}, {variance}"
        )
    second = upper**2 if as_printed else upper
    return upper * variance / (lower * n) ** 3 + second * np.sqrt(variance) / (lower * n) ** 2


@dataclass(frozen=True, eq=False)
class Quotients:
    """E[f | |S| = s, j ∉ S] taken as a quotient of expectations, and how wrong that may be."""

    approximation: FloatArray
    """(d,)"""
    bound: FloatArray
    """(d,) on the absolute error, from the variance lemma."""


def quotients(document: Masked, s: int) -> Quotients:
    """The step of the proof for one number s of masked words, with a bound that is computed, not assumed.

    |E[N/D] − E[N]/E[D]| = |E[(N/D − E[N]/E[D]) (E[D] − D)]| / E[D] ≤ √(Var D) (range of values) / E[D]
    """
    d = document.size
    approximation, bound = np.zeros(d), np.zeros(d)
    heads = len(document.fixed_mass)
    for k in range(heads):
        kept, gone = (
            (document.kept_mass[k], document.kept_sum[k]),
            (document.gone_mass[k], document.gone_sum[k]),
        )
        values = [document.fixed_sum[k] / document.fixed_mass[k], *(kept[1] / kept[0]), *(gone[1] / gone[0])]
        spread = float(np.ptp(values))
        for j in range(d):
            mass = document.fixed_mass[k] + expected_sum(kept[0], gone[0], s, j)
            total = document.fixed_sum[k] + expected_sum(kept[1], gone[1], s, j)
            approximation[j] += total / mass / heads
            bound[j] += np.sqrt(max(variance_sum(kept[0], gone[0], s, j), 0.0)) * spread / mass / heads
    return Quotients(approximation + document.offset, bound)
