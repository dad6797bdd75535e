"""The numbers of the page's what-if, computed by its own script without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from handmade import heads_explanation, single_score, slalom_explanation
from slalom.explanation import Explanation
from slalom.surrogate import Additive, Heads, Slalom
from slalom.view import page as data
from slalom.view import runs

TEXT = " ".join(f"word{i}" for i in range(24))


def asked(explanation: Explanation, every: int, call: str, counts: list[list[int]]) -> tuple[list[Any], Any]:
    """What `call` gives for each of the counts, and the places of the units that can be touched."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to run the page's script with")
    found = data.contents(explanation, [run for run in runs(explanation.tokens) if run.positions][::every])
    scripts = [
        files("slalom.view").joinpath("assets", f"page_{name}.js").read_text()
        for name in ("numbers", "whatif")
    ]
    source = "\n".join(
        [
            *scripts,
            f"const one = {json.dumps(found['classes'][0])}, every = {json.dumps(counts)};",  # pyright: ignore[reportIndexIssue]
            "const parts = one.surrogate.parts ?? [];",
            "for (const part of parts) part.background_importance = number(part.background_importance);",
            f"console.log(JSON.stringify(every.map((counts) => {call})));",
        ]
    )
    done = subprocess.run([node, "-"], input=source, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), found["places"]


def without_background() -> Explanation:
    rng, n = np.random.default_rng(3), 24
    parts = tuple(Slalom(rng.normal(size=n), 40 * rng.normal(size=n)) for _ in range(3))
    return heads_explanation(TEXT, surrogate=Heads(parts, np.array([1.25])))


EXPLANATIONS = {
    "heads": heads_explanation(TEXT),
    "without background": without_background(),
    "slalom": slalom_explanation(TEXT),
    "additive": single_score(TEXT, surrogate=Additive(np.arange(24.0), np.array([0.5]))),
}


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("kind", EXPLANATIONS)
def test_the_page_predicts_what_python_predicts(kind: str, every: int):
    explanation, rng, units = EXPLANATIONS[kind], np.random.default_rng(0), 24 // every
    counts = np.stack([rng.binomial(1, share, units) for share in np.linspace(0.02, 1, 60)])
    counts[counts.sum(axis=1) == 0, 0] = 1
    counts[::4] *= rng.integers(1, 4, (15, units))
    counts = np.concatenate([np.ones((1, units), int), 1 - np.eye(units, dtype=int), counts])
    mine, places = asked(explanation, every, "predict(one.surrogate, counts)", counts.tolist())
    whole = np.ones((len(counts), 24), int)
    whole[:, places] = counts
    theirs = [explanation.predict(np.repeat(np.arange(24), each)) for each in whole]
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9)


def test_an_empty_text_without_background_has_no_value():
    assert asked(EXPLANATIONS["without background"], 1, "predict(one.surrogate, counts)", [[0] * 24])[0] == [
        None
    ]


def test_the_models_own_answer_is_known_without_one_token():
    explanation = heads_explanation(TEXT)
    counts = np.ones((4, 24), int)
    counts[0, 5], counts[1, [5, 6]], counts[2, 5] = 0, 0, 2
    call = "withoutOne(one, counts)"
    told, _ = asked(explanation, 1, call, counts.tolist())
    assert told == [pytest.approx(explanation.output - explanation.removal[5], abs=1e-12), None, None, None]
    fitted = heads_explanation(TEXT, settings={"removal": "fitted"})
    assert asked(fitted, 1, call, counts[:1].tolist())[0] == [None]
