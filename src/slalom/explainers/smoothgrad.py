"""SmoothGrad: the gradient at the embedding layer, averaged over noisy copies of the embeddings.

The noise is normal, `noise` (0.1) times the range of the text's embeddings. Readings as in `gradient`, of
the averaged gradient, special tokens in place. The numbers are those of captum's NoiseTunnel, which draws
from torch's global generator.
"""

from __future__ import annotations

from typing import Annotated

from slalom.checks import Range
from slalom.explainers._common import UNSIGNED, Budget, Reading, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.models.torch.whitebox import gradient_scores

NEEDS = "gradients"

_SAMPLES = 50
_AROUND = 2
"""Passes besides the noisy ones: the text itself, and the one that finds the embedding layer."""


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    reading: Reading = "grad_x_input",
    noise: Annotated[float, Range(1e-6, 10)] = 0.1,
) -> Explanation:
    """A forward and a backward pass for each of 50 samples, or as many as the budget allows."""
    import torch

    from slalom.models.torch.whitebox import inside

    samples = (queries("smoothgrad", budget, 2 * _SAMPLES + _AROUND, least=2 + _AROUND) - _AROUND) // 2
    generator = torch.Generator().manual_seed(seed)
    with inside(ask, target, "smoothgrad") as opened:
        given = opened.embeddings
        deviation = noise * float(given.max() - given.min())
        slope = torch.zeros_like(given)
        for start in range(0, samples, opened.batch):
            count = min(opened.batch, samples - start)
            drawn = torch.stack([torch.randn(given.shape[1:], generator=generator) for _ in range(count)])
            noisy = (given + deviation * drawn.to(given)).requires_grad_()
            slope += torch.autograd.grad(opened.score(noisy).sum(), noisy)[0].sum(dim=0) / samples
    scores = gradient_scores(slope, opened, len(ask.tokens))
    settings = {"samples": samples, "noise": noise}
    return finish(ask, target, "smoothgrad", scores, ranking=reading, settings=settings, unsigned=UNSIGNED)
