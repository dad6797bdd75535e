"""Saved explanations with something wrong in them: refused with a reason, or as good as any other."""

from __future__ import annotations

import json
import math
import random
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fuzz.fuzz import survives, text, value
from handmade import single_score, slalom_explanation, tokens_of
from slalom.compare import correlations
from slalom.errors import SlalomError
from slalom.explanation import Explanation
from slalom.files import to_json
from slalom.surrogate import Additive
from slalom.view.html import render
from slalom.view.terminal import show

additive = Additive(np.linspace(-1.0, 1.0, 10), np.array([0.5]))
ORIGINALS = [
    to_json(explanation.to_dict())
    for explanation in (
        slalom_explanation(classes={"positive": slalom_explanation(target="positive")}, notes=("A note.",)),
        single_score(surrogate=additive),
        slalom_explanation(tokens=tokens_of("one two three", cut=8)),
    )
]


def mutated(rng: random.Random) -> bytes:
    """One of the originals with one to three things changed."""
    original = rng.choice(ORIGINALS)
    if rng.random() < 0.15:
        return _torn(rng, original.encode())
    for word in rng.sample(("linear", "negative", "slalom", "great", "attribution"), rng.randint(0, 2)):
        original = original.replace(f'"{word}"', json.dumps(text(rng)))  # the same everywhere: it often loads
    document = json.loads(original)
    for _ in range(rng.randint(0, 3)):
        _change(rng, document)
    try:
        return json.dumps(document).encode()
    except (TypeError, ValueError):  # bytes, or a whole number that Python does not write
        return original.encode()


def _torn(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data))
    return rng.choice((data[:place], data[place:], data[:place] + rng.randbytes(2) + data[place + 1 :]))


def _change(rng: random.Random, document: Any) -> None:
    """Walks down to some place of the document and does something to what stands there."""
    inner: Any = document
    while True:
        places = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not places:
            return
        place = rng.choice(places)
        deeper = inner[place]
        if not isinstance(deeper, dict | list) or rng.random() < 0.3:
            break
        inner = deeper
    todo = rng.randrange(5)
    if todo == 0:
        del inner[place]
    elif todo == 1 and isinstance(deeper, list) and deeper:
        deeper.append(rng.choice(deeper))
    elif todo == 2 and isinstance(deeper, int | float) and abs(deeper) < 1e300:
        inner[place] = deeper * rng.choice((-1, 0, 2, 10, 1e300, 1e-300))
    elif todo == 3 and isinstance(inner, dict):
        inner[text(rng)] = deeper
    else:
        inner[place] = value(rng)


@pytest.mark.parametrize("part", range(4))
def test_mutated_files(part: int, tmp_path: Path):
    path = tmp_path / "a.json"

    def look(rng: random.Random) -> None:
        path.write_bytes(mutated(rng))
        found = Explanation.load(path)
        show(found, Console(file=StringIO(), width=rng.choice((20, 80, 200))), every_token=rng.random() < 0.5)
        assert "</html>" in render(found)
        assert Explanation.from_dict(json.loads(to_json(found.to_dict()))).to_dict() == found.to_dict()
        for one in (found, *found.classes.values()):
            assert len(one.top()) <= 10
            assert correlations({"one": one, "other": found}).shape == (2, 2)
            if one.surrogate is not None:
                assert math.isfinite(one.predict([True] * len(one)))

    assert survives(f"files {part}", 250, look, SlalomError) > 25
