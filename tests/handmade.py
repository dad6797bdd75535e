"""Explanations made by hand, and a small method of the tests' own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slalom.explanation import Cost, Explanation
from slalom.surrogate import Slalom
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
    "attribute": "x\" onmouseover=\"alert(1)",
}

LEAVE_ONE_OUT = '''"""Leave each token out once. What the score loses is the token's due."""

import numpy as np

from slalom.explanation import Explanation
from slalom.models.target import probabilities
from slalom.perturb import from_rows

NEEDS = "logits"


def explain(ask, target, *, budget="auto", seed=0, scale=1.0):
    n = len(ask.tokens)
    whole = ask.whole()
    left = ask(from_rows([[j for j in range(n) if j != i] for i in range(n)], n))
    output = float(target.score(whole[None])[0])
    return Explanation(
        tokens=ask.tokens,
        method="leave_one_out",
        target=target.label,
        labels=target.labels,
        probabilities=probabilities(whole[None], target.activation)[0],
        output=output,
        scores={"attribution": scale * (output - target.score(left))},
        ranking="attribution",
        settings={"granularity": "positions", "noise": np.random.default_rng(seed).integers(100)},
        notes=("made by the tests",),
    )
'''


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
        "linear": surrogate.linear(units)[:, 0],
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
        "ranking": "linear",
        "stderr": {name: np.full(n, 0.125) for name in scores},
        "surrogate": surrogate,
        "fidelity": {"r2": 0.93, "rmse": 0.2, "linear_r2": 0.71, "linear_rmse": 0.4, "constant_rmse": 0.8},
        "cost": Cost(512, 2048, 1.5, 1.25),
        "settings": {"seed": 0, "effort": "balanced", "stopped": "the ranking is stable", "design": {"short": 9}},
    }
    return Explanation(**(parts | changes))


def hostile_explanation(text: str) -> Explanation:
    """The text in every place that a text from outside can reach."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    strings = tuple(text[a:b] for a, b in spans)
    blank = tokens_of(" ".join("x" for _ in spans))
    tokens = replace(blank, text=text, spans=np.array(spans), strings=strings)
    settings = {"stopped": text, text: text}
    return slalom_explanation(
        tokens=tokens, method=text, labels=(text, "b"), target=text, notes=(text,), settings=settings, fidelity={}
    )


def single_score(text: str = REVIEW, **changes: Any) -> Explanation:
    """An explanation by a method that has one score, no standard errors and no fidelity."""
    tokens = tokens_of(text)
    scores = {"attribution": np.linspace(-1.0, 1.0, len(tokens))}
    bare = {"scores": scores, "ranking": "attribution", "stderr": {}, "fidelity": {}, "surrogate": None}
    return slalom_explanation(tokens=tokens, **({"method": "occlusion"} | bare | changes))


def install_leave_one_out(folder: Path, monkeypatch: Any) -> None:
    """Make `leave_one_out` a method for the time of a test: a file in a folder of methods, nothing else."""
    import slalom.explainers

    (folder / "leave_one_out.py").write_text(LEAVE_ONE_OUT)
    (folder / "_helper.py").write_text("raise RuntimeError('helpers are no methods')")
    monkeypatch.setattr(slalom.explainers, "__path__", [*slalom.explainers.__path__, str(folder)])
    monkeypatch.delitem(__import__("sys").modules, "slalom.explainers.leave_one_out", raising=False)
