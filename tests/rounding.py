"""What "the same result" means, in one place: the tolerance that docs/reading.md promises.

The same sums in another order (other batch mates, threads or processors) differ by rounding. One rounding in
float32 is 6e-8 of a number; an answer of a transformer gathers some tens of them, and a fit to the answers
hands them on, multiplied by how badly the texts that were asked tell the tokens apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ANSWERS = 1e-5
"""Logits and probabilities of a float32 model: of the largest of them, and of 1 where all are smaller."""
SCORES = 1e-3
"""What is fitted to such answers: of the largest score of its kind, and of 1 where all are smaller."""


def same_answers(found: Any, expected: Any, where: str = "") -> None:
    """Equal up to the rounding of a float32 model."""
    _close(found, expected, ANSWERS, where)


def same_scores(found: Any, expected: Any, where: str = "") -> None:
    """Equal up to what that rounding does to a fit."""
    _close(found, expected, SCORES, where)


def same(found: Any, expected: Any, where: str = "it") -> None:
    """Equal documents: numbers with a fraction as scores are, everything else as it is."""
    if isinstance(expected, Mapping):
        assert list(found) == list(expected), where
        for key, value in expected.items():
            same(found[key], value, f"{where}.{key}")
    elif isinstance(expected, float) or _fractions(expected):
        same_scores(_numbers(found), _numbers(expected), where)
    elif isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
        assert len(found) == len(expected), where
        for place, value in enumerate(expected):
            same(found[place], value, f"{where}[{place}]")
    else:
        assert found == expected, where


def _fractions(value: Any) -> bool:
    """Whether these are numbers of which some have a fraction; None stands for NaN in JSON."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f"
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    return any(isinstance(one, float) for one in value) and all(
        isinstance(one, float | int | None) for one in value
    )


def _numbers(value: Any) -> np.ndarray:
    return np.array(value, dtype=float)


def _close(found: Any, expected: Any, tolerance: float, where: str) -> None:
    expected = _numbers(expected)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    np.testing.assert_allclose(_numbers(found), expected, rtol=0, atol=tolerance * largest, err_msg=where)
