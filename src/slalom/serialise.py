"""Results, tokens and surrogates as plain data, and back: the parts of a saved explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from slalom.checks import shown
from slalom.files import number, plain
from slalom.levels import Level
from slalom.surrogate import Additive, Heads, NearText, Slalom
from slalom.tokens import FloatArray, Tokens
from slalom.windows import Windows

_UNSIGNED = ("alpha_avg", "alpha_max", "rollout", "flow", "l1", "l2")
"""Scores without a sign, in files of before explanations said so themselves."""


def result_record(explanation: Any) -> dict[str, Any]:
    """An explanation without its tokens and its other classes."""
    parts = ("method", "target", "labels", "probabilities", "output", "ranking", "scores", "stderr")
    more = ("fidelity", "settings", "notes", "unsigned")
    return {
        **{name: plain(getattr(explanation, name)) for name in (*parts, *more)},
        "cost": plain(asdict(explanation.cost)),
        "surrogate": surrogate_record(explanation.surrogate),
        "levels": {name: level_record(level) for name, level in explanation.levels.items()},
    }


def result_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """What `result_record` wrote, but for the cost, by the names of an explanation's fields."""
    method, target, ranking = strings([record["method"], record["target"], record["ranking"]])
    return {
        "method": method,
        "target": target,
        "labels": strings(record["labels"]),
        "probabilities": numbers(record["probabilities"]),
        "output": number(record["output"]),
        "scores": {name: numbers(a) for name, a in record["scores"].items()},
        "ranking": ranking,
        "stderr": {name: numbers(a) for name, a in record["stderr"].items()},
        "surrogate": surrogate_from(record["surrogate"]),
        "fidelity": {name: number(a) for name, a in record["fidelity"].items()},
        "settings": _shallow(record["settings"]),
        "notes": strings(record["notes"]),
        "unsigned": strings(record.get("unsigned", [name for name in _UNSIGNED if name in record["scores"]])),
        "levels": {name: level_from(level) for name, level in record.get("levels", {}).items()},
    }


def _shallow(settings: Any, room: int = 20) -> Any:
    """Settings that the views can write down; refuses those that nest without end."""
    if room == 0:
        raise ValueError("the settings are nested too deeply")
    inner = (
        settings.values() if isinstance(settings, dict) else settings if isinstance(settings, list) else ()
    )
    for entry in inner:
        _shallow(entry, room - 1)
    return settings


def tokens_record(tokens: Tokens) -> dict[str, Any]:
    """Tokens without their frame, which means nothing to any other process."""
    names = ("text", "cut", "strings", "spans", "pieces", "words", "segments", "unknown")
    return {name: plain(getattr(tokens, name)) for name in names}


def tokens_from(record: Mapping[str, Any]) -> Tokens:
    """The tokens that `tokens_record` wrote, at least one, all of them inside the text."""
    (text,) = strings([record["text"]])
    spans = [whole(span, len(text)) for span in record["spans"]]
    if not spans or not all(len(span) == 2 and span[0] <= span[1] for span in spans):
        raise ValueError("spans must be pairs, a start and an end, one for each token")
    cut = record["cut"]
    return Tokens(
        text=text,
        strings=strings(record["strings"]),
        spans=np.array(spans),
        pieces=tuple(map(whole, record["pieces"])),
        words=np.array(whole(record["words"])),
        segments=np.array(whole(record["segments"], most=1)),
        cut=None if cut is None else whole([cut], len(text))[0],
        unknown=whole(record.get("unknown", ()), len(spans) - 1),
    )


def surrogate_record(surrogate: Heads | Slalom | Additive | Windows | None) -> dict[str, Any] | None:
    """A surrogate's numbers; no background stands as null."""
    if surrogate is None:
        return None
    if isinstance(surrogate, Windows):
        parts = [surrogate_record(part) for part in surrogate.parts]
        return {"kind": "windows", "parts": parts, "weights": plain(surrogate.weights)}
    if isinstance(surrogate, Additive):
        return {
            "kind": "additive",
            "weights": plain(surrogate.weights),
            "intercept": plain(surrogate.intercept),
        }
    if isinstance(surrogate, Heads):
        near, ceiling = surrogate.near, surrogate.ceiling
        return {
            "kind": "heads",
            "parts": [surrogate_record(part) for part in surrogate.parts],
            "offset": plain(surrogate.offset),
            "ceiling": None if ceiling is None else plain(ceiling),
            "near": near
            and {name: plain(getattr(near, name)) for name in ("gap", "shift", "own", "gain")}
            | ({} if near.sizes is None else {"sizes": plain(near.sizes)}),
        }
    background = surrogate.background_importance
    return {
        "kind": "slalom",
        "values": plain(surrogate.values),
        "importances": plain(surrogate.importances),
        "background_value": plain(surrogate.background_value),
        "background_importance": None if background == -np.inf else plain(float(background)),
    }


def surrogate_from(record: Mapping[str, Any] | None) -> Heads | Slalom | Additive | Windows | None:
    """The surrogate that `surrogate_record` wrote."""
    if record is None:
        return None
    if record["kind"] == "windows":
        return Windows(tuple(map(_one_window, record["parts"])), _finite(numbers(record["weights"])))
    return _one_window(record)


def _one_window(record: Mapping[str, Any]) -> Heads | Slalom | Additive:
    if record["kind"] == "additive":
        return Additive(_finite(matrix(record["weights"])), _finite(numbers(record["intercept"])))
    return _heads(record) if record["kind"] == "heads" else _slalom(record)


def _heads(record: Mapping[str, Any]) -> Heads:
    ceiling, near = record["ceiling"], record["near"]
    return Heads(
        tuple(_slalom(part) for part in record["parts"]),
        _finite(numbers(record["offset"])),
        None if ceiling is None else _finite(numbers(ceiling)),
        None if near is None else _near(near),
    )


def _near(record: Mapping[str, Any]) -> NearText:
    gap, gain = _finite(numbers([record["gap"], record["gain"]]))
    shift, own = _finite(matrix(record["shift"])), _finite(numbers(record["own"]))
    sizes = _finite(numbers(record["sizes"])) if "sizes" in record else None
    return NearText(float(gap), shift, own, float(gain), sizes)


def level_record(level: Level) -> dict[str, Any]:
    """A level's numbers."""
    return {name: plain(getattr(level, name)) for name in ("numbers", "scores", "stderr")}


def level_from(record: Mapping[str, Any]) -> Level:
    """The level that `level_record` wrote."""
    parts = ({name: numbers(each) for name, each in record[part].items()} for part in ("scores", "stderr"))
    return Level(np.array(whole(record["numbers"])), *parts)


def _slalom(record: Mapping[str, Any]) -> Slalom:
    if record["kind"] != "slalom":
        raise ValueError(f"no surrogate is called {record['kind']!r}")
    background = record["background_importance"]
    return Slalom(
        _finite(matrix(record["values"])),
        _finite(numbers(record["importances"])),
        _finite(numbers(record["background_value"])),
        -np.inf if background is None else float(_finite(numbers([background]))[0]),
    )


def _finite(array: FloatArray) -> FloatArray:
    if not np.isfinite(array).all():
        raise ValueError("a surrogate has numbers that are not finite")
    return array


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
        raise TypeError(f"{shown(wrong[0] if wrong else values)} stands where strings belong")
    return tuple(values)


def whole(values: Any, most: int = 2**63 - 1) -> tuple[int, ...]:
    """A list of whole numbers from 0 to `most`, and of nothing else."""
    wrong = [value for value in values if type(value) is not int or not 0 <= value <= most]
    if wrong:
        raise ValueError(f"{shown(wrong[0])} stands where whole numbers from 0 to {most:,} belong")
    return tuple(values)
