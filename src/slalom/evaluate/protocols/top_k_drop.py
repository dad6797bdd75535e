"""ContextCite's measure."""

from __future__ import annotations

import numpy as np

from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.models.target import choose_target
from slalom.perturb import from_keep


@protocol("top_k_drop", good={"drop": "high"}, needs="many queries")
def measure(case: Case, *, score: str | None = None, k: int = 3) -> dict[str, float]:
    """Top-k drop: what the score of the label loses without the k strongest units (ContextCite's measure).

    Log-odds of the whole text, less those without the k units of the largest signed score.
    """
    n = len(case.explanation)
    if n <= k:
        raise NotApplicable(f"the text has at most {k} units, and all of them would go")
    kept = np.ones((2, n), dtype=bool)
    kept[1, np.argsort(-case.explanation.score(score), kind="stable")[:k]] = False
    logits = case.ask(from_keep(kept))
    whole, without = choose_target(case.ask.model, case.explanation.target, logits[0]).score(logits)
    return {"drop": float(whole - without)}
