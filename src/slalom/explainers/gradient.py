"""Gradient of the target's score at the embedding layer, in four readings.

G×I is the gradient times the embedding, G-avg its mean over coordinates, G-ℓ1 and G-ℓ2 its norms, which
have no sign. All four are in the scores; `reading` ("grad_x_input", "avg", "l1", "l2") chooses the one to
rank by. Through captum's Saliency, special tokens in place.
"""

from __future__ import annotations

from slalom.explainers._common import UNSIGNED, Budget, Reading, extra, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.models.torch.whitebox import gradient_scores

NEEDS = "gradients"


def explain(
    ask: Ask, target: Target, *, budget: Budget = "auto", seed: int = 0, reading: Reading = "grad_x_input"
) -> Explanation:
    """One forward and one backward pass, after one that finds the embedding layer."""
    from slalom.models.torch.whitebox import inside

    queries("gradient", budget, 4, least=4)
    captum = extra("captum.attr", "gradient")
    with inside(ask, target, "gradient") as opened:
        given = opened.embeddings.clone().requires_grad_()
        slope = captum.Saliency(opened.score).attribute(given, abs=False)
    scores = gradient_scores(slope, opened, len(ask.tokens))
    return finish(ask, target, "gradient", scores, ranking=reading, unsigned=UNSIGNED)
