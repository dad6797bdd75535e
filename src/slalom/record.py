"""Tokens and surrogates as plain data, and back: the parts of a saved explanation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slalom.files import number, plain
from slalom.surrogate import Additive, Slalom
from slalom.tokens import FloatArray, Tokens


def tokens_record(tokens: Tokens) -> dict[str, Any]:
    """Tokens without their frame, which means nothing to any other process."""
    names = ("text", "cut", "strings", "spans", "pieces", "words", "segments")
    return {name: plain(getattr(tokens, name)) for name in names}


def tokens_from(record: Mapping[str, Any]) -> Tokens:
    """The tokens that `tokens_record` wrote."""
    cut = record["cut"]
    return Tokens(
        text=strings([record["text"]])[0],
        strings=strings(record["strings"]),
        spans=np.array(record["spans"], dtype=np.int64).reshape(-1, 2),
        pieces=tuple(tuple(int(i) for i in piece) for piece in record["pieces"]),
        words=record["words"],
        segments=record["segments"],
        cut=None if cut is None else int(cut),
    )


def surrogate_record(surrogate: Slalom | Additive | None) -> dict[str, Any] | None:
    """A surrogate's numbers; no background stands as null."""
    if surrogate is None:
        return None
    if isinstance(surrogate, Additive):
        return {
            "kind": "additive",
            "weights": plain(surrogate.weights),
            "intercept": plain(surrogate.intercept),
        }
    background = surrogate.background_importance
    return {
        "kind": "slalom",
        "values": plain(surrogate.values),
        "importances": plain(surrogate.importances),
        "background_value": plain(surrogate.background_value),
        "background_importance": None if background == -np.inf else plain(float(background)),
    }


def surrogate_from(record: Mapping[str, Any] | None) -> Slalom | Additive | None:
    """The surrogate that `surrogate_record` wrote."""
    if record is None:
        return None
    if record["kind"] == "additive":
        return Additive(matrix(record["weights"]), numbers(record["intercept"]))
    if record["kind"] != "slalom":
        raise ValueError(f"no surrogate is called {record['kind']!r}")
    background = record["background_importance"]
    return Slalom(
        matrix(record["values"]),
        numbers(record["importances"]),
        numbers(record["background_value"]),
        -np.inf if background is None else number(background),
    )


def numbers(values: Any) -> FloatArray:
    """A list of numbers written by `plain`."""
    return np.array([number(value) for value in values], dtype=float)


def matrix(rows: Any) -> FloatArray:
    """A list of equally long lists of numbers."""
    return np.array([numbers(row) for row in rows], dtype=float)


def strings(values: Any) -> tuple[str, ...]:
    """A list of strings, and of nothing else."""
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong or isinstance(values, str):
        raise TypeError(f"{wrong[0] if wrong else values!r} stands where strings belong")
    return tuple(values)
