"""Explanations made by hand, and a small method of the tests' own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import slalom.explainers
from slalom.explanation import Cost, Explanation
from slalom.surrogate import Heads, NearText, Slalom
from slalom.tokens import Tokens

REVIEW = "The food was great but the service was awful."

HOSTILE = {
    "markup": "<script>alert(1)</script> & \"quoted\" 'single'",
    "rich": "[red]stop[/red] [link=https://example.org]x[/link]",
    "escape": "a \x1b[31mred\x1b[0m \x9b31m b",
    "bell": "ring\x07 \x00 \r back\x7f",
    "direction": "left \u202eright\u202c \u200f \u2066x\u2069",
    "lines": "one\u2028two\u2029three",
    "emoji": "👩‍👩‍👧 fine 👍🏽",
    "style": "</style><style>*{display:none}</style>",
    "attribute": 'x" onmouseover="alert(1)',
}

METHODS = Path(__file__).parent / "methods"


def tokens_of(text: str, **changes: Any) -> Tokens:
    """The words and marks of a text."""
    found = list(re.finditer(r"\w+|[^\w\s]", text))
    types: dict[str, int] = {}
    parts: dict[str, Any] = {
        "text": text,
        "strings": tuple(match.group() for match in found),
        "spans": np.array([match.span() for match in found]).reshape(-1, 2),
        "pieces": tuple((types.setdefault(match.group(), len(types)),) for match in found),
        "words": np.arange(len(found)),
        "segments": np.zeros(len(found)),
    }
    return Tokens(**(parts | changes))


def slalom_explanation(text: str = REVIEW, tokens: Tokens | None = None, **changes: Any) -> Explanation:
    """A SLALOM with random parameters, read as the real method reads one."""
    tokens = tokens_of(text) if tokens is None else tokens
    rng, n = np.random.default_rng(7), len(tokens)
    surrogate = Slalom(rng.normal(size=n), rng.normal(size=n), np.array([0.25]), -1.0)
    units = np.arange(n)
    scores = {
        "value": surrogate.values[:, 0],
        "importance": surrogate.importances,
        "share": surrogate.linear(units)[:, 0],
        "removal": surrogate.removal(units)[:, 0],
    }
    parts: dict[str, Any] = {
        "tokens": tokens,
        "method": "slalom",
        "target": "negative",
        "labels": ("negative", "positive"),
        "probabilities": np.array([0.9, 0.1]),
        "output": 2.25,
        "scores": scores,
        "ranking": "share",
        "stderr": {name: np.full(n, 0.125) for name in scores},
        "surrogate": surrogate,
        "fidelity": {"r2": 0.93, "rmse": 0.2, "linear_r2": 0.71, "linear_rmse": 0.4, "constant_rmse": 0.8},
        "cost": Cost(512, 2048, 1.5, 1.25),
        "settings": {
            "seed": 0,
            "effort": "balanced",
            "stopped": "the ranking is stable",
            "design": {"short": 9},
        },
    }
    return Explanation(**(parts | changes))


def heads_explanation(text: str = REVIEW, **changes: Any) -> Explanation:
    """Two heads below a ceiling, set right near the text, with measured removals: what 'slalom' gives."""
    rng, n = np.random.default_rng(11), len(tokens_of(text))
    parts = [Slalom(2 * rng.normal(size=n), rng.normal(size=n), np.array([0.5]), 0.25) for _ in range(2)]
    near = NearText(0.125, 0.3 * rng.normal(size=(n, 3)), 0.2 * rng.normal(size=n), 0.75)
    surrogate = Heads(tuple(parts), np.array([-0.75]), np.array([1.5]), near)
    scores = {
        "value": surrogate.alone()[:, 0],
        "importance": surrogate.log_weights(),
        "share": surrogate.shares()[:, 0],
        "removal": surrogate.removal()[:, 0],
    }
    own: dict[str, Any] = {
        "output": float(surrogate.predict(np.ones((1, n)))[0, 0]),
        "scores": scores,
        "surrogate": surrogate,
        "settings": {"removal": "measured"},
    }
    return slalom_explanation(text, **(own | changes))


def hostile_explanation(text: str) -> Explanation:
    """The text in every place that a text from outside can reach."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    strings = tuple(text[a:b] for a, b in spans)
    blank = tokens_of(" ".join("x" for _ in spans))
    tokens = replace(blank, text=text, spans=np.array(spans), strings=strings)
    settings = {"stopped": text, text: text}
    return slalom_explanation(
        tokens=tokens,
        scores={"value": np.zeros(len(tokens)), text: np.ones(len(tokens))},
        ranking=text,
        stderr={},
        method=text,
        labels=(text, "b"),
        target=text,
        notes=(text,),
        settings=settings,
        fidelity={},
    )


def single_score(text: str = REVIEW, **changes: Any) -> Explanation:
    """An explanation by a method that has one score, no standard errors and no fidelity."""
    tokens = tokens_of(text)
    scores = {"attribution": np.linspace(-1.0, 1.0, len(tokens))}
    bare = {"scores": scores, "ranking": "attribution", "stderr": {}, "fidelity": {}, "surrogate": None}
    return slalom_explanation(tokens=tokens, **({"method": "occlusion"} | bare | changes))


def more_methods(*folders: Path) -> list[str]:
    """Where methods are found, with the tests' own and those in `folders`: nothing else registers them."""
    return [*slalom.explainers.__path__, str(METHODS), *map(str, folders)]


def attention_like(text: str = REVIEW, **changes: Any) -> Explanation:
    """Scores that say how much a token matters, and neither for nor against what."""
    weights = np.linspace(0.0, 1.0, len(tokens_of(text)))
    own = {"method": "attention", "scores": {"alpha_avg": weights}, "ranking": "alpha_avg"}
    return single_score(text, **(own | {"unsigned": ("alpha_avg",)} | changes))


def one_sign(text: str) -> Tokens:
    """A text of words that the model reads as one and the same token."""
    tokens = tokens_of(text)
    return replace(tokens, pieces=((0,),) * len(tokens), unknown=tuple(range(len(tokens))))
