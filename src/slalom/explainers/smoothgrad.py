"""SmoothGrad: the gradient at the embedding layer, averaged over noisy copies of the embeddings.

The noise is normal, `noise` (0.1) times the range of the text's embeddings. Readings as in `gradient`, of
the averaged gradient. Through captum's NoiseTunnel, special tokens in place.
"""

from __future__ import annotations

from typing import Annotated

from slalom.checks import Range
from slalom.explainers._common import Budget, extra, finish, queries
from slalom.explainers._gradients import Reading, notes, readings
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target

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

    from slalom.models.whitebox import inside

    samples = (queries("smoothgrad", budget, 2 * _SAMPLES + _AROUND, least=2 + _AROUND) - _AROUND) // 2
    captum = extra("captum.attr", "smoothgrad")
    with inside(ask, target, "smoothgrad") as opened:
        given = opened.embeddings.clone().requires_grad_()
        spread = float(given.detach().max() - given.detach().min())
        device = [given.device] if given.is_cuda else []
        with torch.random.fork_rng(devices=device):
            torch.manual_seed(seed)
            slope = captum.NoiseTunnel(captum.Saliency(opened.score)).attribute(
                given,
                nt_type="smoothgrad",
                nt_samples=samples,
                nt_samples_batch_size=min(samples, opened.batch),
                stdevs=noise * spread,
                abs=False,
            )
    scores = readings(slope, opened, len(ask.tokens))
    settings = {"samples": samples, "noise": noise}
    return finish(ask, target, "smoothgrad", scores, ranking=reading, settings=settings, notes=notes(reading))
