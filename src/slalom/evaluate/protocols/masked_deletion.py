"""Masked deletion: deletion by masks, on a classifier that was trained on masked text.

For a model of `slalom train --masked` a text with masks in it is as usual as any other, so that a fall of the
probability is owed to what is gone and not to broken text (faithfulness measurable models, Madsen et al.
2023). AOPC as in `deletion`, tokens masked one `step` after the other. Other models are left out.
"""

from __future__ import annotations

from typing import Any

from slalom.evaluate.blanks import kept_lowest, masks
from slalom.evaluate.protocol import Case, NotApplicable, strongest_first
from slalom.evaluate.protocols.deletion import STEP, long_enough
from slalom.models.target import choose_target

NEEDS = "nothing"
GOOD = {"aopc": "high"}

MARK = "trained_on_masked_text"
"""The entry of a model's config that `slalom train --masked` makes."""


def measure(case: Case, *, score: str | None = None, step: int = STEP) -> dict[str, float]:
    """Masked AOPC of the score to rank by, or of the one named."""
    module: Any = getattr(case.ask.model, "module", None)
    if not getattr(getattr(module, "config", None), MARK, False):
        raise NotApplicable("the model was not trained on masked text (slalom train --masked)")
    long_enough(case, step)
    keep = kept_lowest(strongest_first(case.explanation.score(score), case.seed), step)
    target = choose_target(case.ask.model, case.explanation.target, case.ask.whole())
    return {"aopc": 1.0 - float(target.probability(masks(case.ask)(keep)[0]).mean())}
