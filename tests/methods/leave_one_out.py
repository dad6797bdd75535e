"""Leave each token out once. What the score loses is the token's due."""

from __future__ import annotations

from typing import Literal

import numpy as np

from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target, probabilities
from slalom.perturb import from_keep

NEEDS = "logits"


def explain(
    ask: Ask, target: Target, *, budget: int | Literal["auto"] = "auto", seed: int = 0, scale: float = 1.0
) -> Explanation:
    whole = ask.whole()
    output = float(target.score(whole[None])[0])
    left = target.score(ask(from_keep(~np.eye(len(ask.tokens), dtype=bool))))
    return Explanation(
        tokens=ask.tokens,
        method="leave_one_out",
        target=target.label,
        labels=target.labels,
        probabilities=probabilities(whole[None], target.activation)[0],
        output=output,
        scores={"attribution": scale * (output - left)},
        ranking="attribution",
        settings={"granularity": "positions", "drawn": np.random.default_rng(seed).integers(100)},
        notes=("made by the tests",),
    )
