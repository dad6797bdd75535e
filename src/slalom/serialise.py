"""Explanations as plain data, and back: what `Explanation.save` writes and `load` reads."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from slalom.checks import shown
from slalom.errors import FitError, InputError
from slalom.explanation import Explanation
from slalom.files import Json, Record, from_json, number, plain, read_text, to_json, write_text
from slalom.scores import Cost, Level, Windows
from slalom.surrogate import Additive, Heads, NearText, Slalom
from slalom.tokens import FloatArray, Tokens

FORMAT = "slalom-explanation"
VERSION = 1

_UNSIGNED = ("alpha_avg", "alpha_max", "rollout", "flow", "l1", "l2")
"""Scores without a sign, in files of before explanations said so themselves."""


def to_dict(explanation: Explanation) -> Record:
    """The document of an explanation, in JSON's own types. It holds everything but the model's frame."""
    tokens = tokens_record(explanation.tokens)
    return {"format": FORMAT, "version": VERSION, "tokens": tokens} | _record(explanation)


def from_dict(document: Record) -> Explanation:
    """The explanation in a document made by `to_dict`; everything that it hands on is checked."""
    if document.get("format") != FORMAT:
        raise InputError(f"this is no saved explanation: its format is {document.get('format')!r}")
    if document.get("version") != VERSION:
        raise InputError(
            f"this explanation has format version {document.get('version')!r}; "
            f"this version of slalom reads version {VERSION}"
        )
    try:
        return _explanation(document, tokens_from(document["tokens"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, FitError) as error:
        raise InputError(f"this saved explanation is damaged: {type(error).__name__}: {error}") from error


def save(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Write the document as JSON; the file is replaced as a whole or not touched."""
    write_text(path, to_json(to_dict(explanation)) + "\n")


def load(path: str | os.PathLike[str]) -> Explanation:
    """Read what `save` wrote."""
    source = repr(os.fspath(path))
    document = from_json(read_text(path), source)
    try:
        return from_dict(document)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _record(explanation: Explanation) -> Record:
    """All but the tokens, which the explanations of all labels share."""
    parts = ("method", "target", "labels", "probabilities", "output", "ranking", "scores", "stderr")
    more = ("fidelity", "settings", "notes", "unsigned")
    return {
        **{name: plain(getattr(explanation, name)) for name in (*parts, *more)},
        "cost": plain(asdict(explanation.cost)),
        "surrogate": surrogate_record(explanation.surrogate),
        "levels": {name: level_record(level) for name, level in explanation.levels.items()},
        "classes": {label: _record(other) for label, other in explanation.classes.items()},
    }


def _explanation(record: Record, tokens: Tokens) -> Explanation:
    method, target, ranking = strings([record["method"], record["target"], record["ranking"]])
    unsigned = record.get("unsigned", [name for name in _UNSIGNED if name in record["scores"]])
    return Explanation(
        tokens=tokens,
        method=method,
        target=target,
        labels=strings(record["labels"]),
        probabilities=numbers(record["probabilities"]),
        output=number(record["output"]),
        scores=_arrays(record["scores"]),
        ranking=ranking,
        stderr=_arrays(record["stderr"]),
        surrogate=surrogate_from(record["surrogate"]),
        fidelity={name: number(a) for name, a in record["fidelity"].items()},
        cost=cost_from(record["cost"]),
        settings=_shallow(record["settings"]),
        notes=strings(record["notes"]),
        unsigned=strings(unsigned),
        classes={label: _other(label, other, tokens) for label, other in record["classes"].items()},
        levels={name: level_from(level) for name, level in record.get("levels", {}).items()},
    )


def _other(label: str, record: Record, tokens: Tokens) -> Explanation:
    if record["target"] != label or record["classes"]:
        raise ValueError(f"the explanation of the label {label!r} is one of {record['target']!r}")
    return _explanation(record, tokens)


def cost_from(record: Record) -> Cost:
    """What was saved; files of before there were backward passes do not name them."""
    queries, tokens, backwards = whole([record["queries"], record["tokens"], record.get("backwards", 0)])
    seconds, in_model = number(record["seconds"]), number(record["model_seconds"])
    if not (0 <= seconds < math.inf and 0 <= in_model < math.inf):
        raise ValueError(f"{seconds} seconds, {in_model} of them in the model")
    return Cost(queries, tokens, seconds, in_model, backwards)


def _arrays(record: Record) -> dict[str, FloatArray]:
    return {name: numbers(each) for name, each in record.items()}


def _shallow(settings: Record, room: int = 20) -> Record:
    """Settings that the views can write down; refuses those that nest without end."""
    inner: list[Json] = [settings]
    for _ in range(room):
        inner = [entry for each in inner for entry in _entries(each)]
    if inner:
        raise ValueError("the settings are nested too deeply")
    return settings


def _entries(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def tokens_record(tokens: Tokens) -> Record:
    """Tokens without their frame, which means nothing to any other process."""
    names = ("text", "cut", "strings", "spans", "pieces", "words", "segments", "unknown")
    return {name: plain(getattr(tokens, name)) for name in names}


def tokens_from(record: Record) -> Tokens:
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


def surrogate_record(surrogate: Heads | Slalom | Additive | Windows | None) -> Record | None:
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


def surrogate_from(record: Record | None) -> Heads | Slalom | Additive | Windows | None:
    """The surrogate that `surrogate_record` wrote."""
    if record is None:
        return None
    if record["kind"] == "windows":
        return Windows(tuple(map(_one_window, record["parts"])), _finite(numbers(record["weights"])))
    return _one_window(record)


def _one_window(record: Record) -> Heads | Slalom | Additive:
    if record["kind"] == "additive":
        return Additive(_finite(matrix(record["weights"])), _finite(numbers(record["intercept"])))
    return _heads(record) if record["kind"] == "heads" else _slalom(record)


def _heads(record: Record) -> Heads:
    ceiling, near = record["ceiling"], record["near"]
    return Heads(
        tuple(_slalom(part) for part in record["parts"]),
        _finite(numbers(record["offset"])),
        None if ceiling is None else _finite(numbers(ceiling)),
        None if near is None else _near(near),
    )


def _near(record: Record) -> NearText:
    gap, gain = _finite(numbers([record["gap"], record["gain"]]))
    shift, own = _finite(matrix(record["shift"])), _finite(numbers(record["own"]))
    sizes = _finite(numbers(record["sizes"])) if "sizes" in record else None
    return NearText(float(gap), shift, own, float(gain), sizes)


def level_record(level: Level) -> Record:
    """A level's numbers."""
    return {name: plain(getattr(level, name)) for name in ("numbers", "scores", "stderr")}


def level_from(record: Record) -> Level:
    """The level that `level_record` wrote."""
    return Level(np.array(whole(record["numbers"])), _arrays(record["scores"]), _arrays(record["stderr"]))


def _slalom(record: Record) -> Slalom:
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


def numbers(values: Iterable[object]) -> FloatArray:
    """A list of numbers written by `plain`."""
    return np.array([number(value) for value in values], dtype=float)


def matrix(rows: Iterable[Iterable[object]]) -> FloatArray:
    """A list of equally long lists of numbers."""
    return np.array([numbers(row) for row in rows], dtype=float)


def strings(values: Iterable[object]) -> tuple[str, ...]:
    """A list of strings, and of nothing else."""
    found = [] if isinstance(values, str) else list(values)
    right = tuple(value for value in found if isinstance(value, str))
    if isinstance(values, str) or len(right) < len(found):
        wrong = next((value for value in found if not isinstance(value, str)), values)
        raise TypeError(f"{shown(wrong)} stands where strings belong")
    return right


def whole(values: Iterable[object], most: int = 2**63 - 1) -> tuple[int, ...]:
    """A list of whole numbers from 0 to `most`, and of nothing else."""
    found: list[int] = []
    for value in values:
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"{shown(value)} stands where whole numbers from 0 to {most:,} belong")
        found.append(value)
    return tuple(found)
