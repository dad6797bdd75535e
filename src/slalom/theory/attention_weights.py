"""Attention weights as explanations: α-avg and α-max over heads (maths 5)."""

from __future__ import annotations

import numpy as np

from slalom.theory.layer import Look
from slalom.tokens import FloatArray


def attention_average(look: Look) -> FloatArray:
    """(T,) α-avg: the mean over heads of what each position gets from the read-out."""
    return _read(look).mean(axis=0)


def attention_max(look: Look) -> FloatArray:
    """(T,) α-max: the largest such weight among the heads."""
    return _read(look).max(axis=0)


def _read(look: Look) -> FloatArray:
    return np.einsum("krt,r->kt", look.attention, look.readers)
