"""Odd texts, options, targets and models, by the front door: a sound explanation or a typed error."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from fuzz.fuzz import survives, text, value
from slalom.api import Explainer
from slalom.errors import SlalomError
from slalom.explainers import methods, option_ranges
from slalom.explanation import Explanation
from slalom.files import to_json
from slalom.view.html import fragment
from zoo import tiny

KNOWN = methods()
DATA = [("great food", 1), ("awful soup", 0), ("the service was awful", "0")]


def linear(texts: list[Any]) -> list[float]:
    return [sum(len(word) % 7 - 3 for word in str(text).split()) + 0.1 * len(text) for text in texts]


ANSWERS: dict[str, Callable[[list[Any]], Any]] = {
    "a number": linear,
    "an array": lambda texts: np.array(linear(texts)),
    "a tensor": lambda texts: torch.tensor(linear(texts), requires_grad=True),
    "two classes": lambda texts: [[one, -one] for one in linear(texts)],
    "three classes": lambda texts: [[one, -one, 0.5] for one in linear(texts)],
    "probabilities": lambda texts: [[p, 1 - p] for p in 1 / (1 + np.exp(-np.array(linear(texts))))],
    "whole numbers": lambda texts: [len(text) for text in texts],
    "the same": lambda texts: np.zeros(len(texts)),
    "one class": lambda texts: np.zeros((len(texts), 1)),
    "no class": lambda texts: np.zeros((len(texts), 0)),
    "many classes": lambda texts: np.arange(40.0) * np.array(linear(texts))[:, None],
    "huge": lambda texts: [1e200 * one for one in linear(texts)],
    "the largest": lambda texts: [1.7e308 * (-1) ** i for i in range(len(texts))],
    "tiny": lambda texts: [1e-300 * one for one in linear(texts)],
    "NaN": lambda texts: [float("nan")] * len(texts),
    "NaN at times": lambda texts: [
        one if len(str(text)) % 3 else float("nan") for one, text in zip(linear(texts), texts, strict=True)
    ],
    "infinite": lambda texts: [float("-inf")] * len(texts),
    "too few": lambda texts: linear(texts)[1:],
    "too many": lambda texts: [*linear(texts), 0.0],
    "one for all": lambda texts: 0.5,
    "nothing": lambda texts: None,
    "words": lambda texts: ["positive"] * len(texts),
    "the texts": lambda texts: texts,
    "truth": lambda texts: [len(text) > 9 for text in texts],
    "complex": lambda texts: np.array(linear(texts)) * 1j,
    "ragged": lambda texts: [[0.0] * (1 + i % 3) for i in range(len(texts))],
    "cubes": lambda texts: np.zeros((len(texts), 2, 2)),
    "dicts": lambda texts: [{"label": "a", "score": 0.5} for _ in texts],
    "objects": lambda texts: np.array([object() for _ in texts]),
    "a generator": lambda texts: (one for one in linear(texts)),
    "whole numbers without end": lambda texts: [10**400 for _ in texts],
    "wide or narrow": lambda texts: np.zeros((len(texts), 2 + len(texts) % 2)),
    "an error": lambda texts: 1 / 0,
    "an error at times": lambda texts: linear(texts) if len(texts) < 9 else 1 / 0,
    "no argument": lambda: 0,  # type: ignore[dict-item]
}
ACCESS = ("output", "labels", "device", "batch_tokens", "engine", "engine_tolerance")


@cache
def module(kind: str, labels: int) -> Explainer:
    return Explainer(*tiny(kind, num_labels=labels))


def explainer(rng: random.Random) -> Explainer:
    if rng.random() < 0.2:
        return module(rng.choice(("bert", "gpt2")), rng.choice((2, 3)))
    access: dict[str, Any] = {}
    if rng.random() < 0.1:
        access["output"] = rng.choice(("logits", "log_odds", "probabilities", "multilabel"))
    if rng.random() < 0.1:
        access[rng.choice(ACCESS)] = rng.choice(
            (value(rng), ["a", "b"], ["no", "yes", "perhaps"], ["same", "same"])
        )
    usual = rng.random() < 0.6
    return Explainer(ANSWERS[rng.choice(list(ANSWERS)[: 7 if usual else None])], **access)


def given(rng: random.Random) -> Any:
    kind = rng.randrange(12)
    if kind == 0:
        return value(rng)
    if kind == 1:
        return text(rng), text(rng)
    if kind == 2:
        return [rng.choice((text, text, value))(rng) for _ in range(rng.randint(0, 3))]
    return text(rng)


def option(rng: random.Random, known: Any) -> Any:
    """Mostly what is allowed, near its bounds too; else anything."""
    if known.choices and rng.random() < 0.5:
        return rng.choice(known.choices)
    bounds = known.whole or known.number
    if bounds and rng.random() < 0.6:
        number = rng.choice(
            (bounds.least, bounds.least + 1, bounds.least - 1, bounds.most + 1, 2 * bounds.most)
        )
        return number if known.whole else float(number)
    return value(rng)


def call(rng: random.Random) -> dict[str, Any]:
    method = rng.choice(list(KNOWN))
    made: dict[str, Any] = {"method": method, "budget": rng.choice((2, 5, 20, 40))}
    if KNOWN[method].needs == "labelled data":
        made["data"] = rng.choice((DATA, DATA, value(rng), [("a", 0)], [("", 1)], "nowhere.csv"))
    for name, known in option_ranges(method).items():
        if name not in ("granularity", "data") and rng.random() < 0.2:
            made[name] = option(rng, known)
    usual = {
        "target": (0, 1, -1, "0", "1", 7, "positive"),
        "seed": (0, 1, 2**40),
        "granularity": ("positions", "types", "words"),
        "every_class": (True, False),
        "explain": ("both", "first", "second"),
        "progress": (None, lambda queries: None),
    }
    for name, values in usual.items():
        if rng.random() < 0.15:
            made[name] = rng.choice(values) if rng.random() < 0.8 else value(rng)
    if rng.random() < 0.05:
        made[rng.choice(("budget", "method", "effrt", "ask"))] = value(rng)
    return made


def check(found: Explanation, rng: random.Random) -> None:
    numbers = [
        *found.scores.values(),
        *found.stderr.values(),
        list(found.fidelity.values()),
        found.probabilities,
    ]
    assert all(np.isfinite(part).all() for part in numbers)
    assert np.isfinite(found.output)
    assert Explanation.from_dict(json.loads(to_json(found.to_dict()))).to_dict() == found.to_dict()
    if rng.random() < 0.05:
        assert fragment(found)
    if rng.random() < 0.2:
        todo: Any = rng.choice((found.predict, found.of, found.score, found.top))
        todo(value(rng))
    elif found.surrogate is not None:
        assert np.isfinite(found.predict([True] * len(found)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(10))
def test_odd_inputs(part: int):
    def ask(rng: random.Random) -> None:
        subject, about = explainer(rng), given(rng)
        if rng.random() < 0.1:
            subject.predict(about)
            return
        found = subject(about, **call(rng))
        for one in found if isinstance(found, list) else [found]:
            check(one, rng)

    assert survives(f"library {part}", 300, ask, SlalomError) > 40
