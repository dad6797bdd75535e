"""Explanations of a model whose weights are drawn anew, layer by layer."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from slalom.checks import Positive
from slalom.errors import ModelError
from slalom.evaluate.protocol import Case, NotApplicable, protocol
from slalom.evaluate.statistics import likeness
from slalom.explanation import Explanation
from slalom.models.protocol import Model, TorchAccess

if TYPE_CHECKING:
    from torch import Generator, Tensor


@protocol("sanity", good={"mean": "low", "head": "low", "all": "low"}, needs="weights")
def measure(case: Case, *, score: str | None = None, levels: Positive | None = None) -> dict[str, float]:
    """Sanity: an explanation of the model must change when the model's weights are randomised.

    Weights are drawn anew layer by layer from the head down to the embeddings, each layer on top of those
    before (Adebayo et al. 2018), in a copy of the model. After every layer the text is explained again. The
    numbers are absolute Spearman correlations of |score| with the scores for the real weights: low is good.

    Correlation with the head randomised, with all weights randomised, and the mean over the cascade.

    `levels` explains again at so many points of the cascade, spread evenly; by default at all.
    """
    found = list(
        sanity(
            case.ask.model, case.explanation, case.explain, score=score, levels=levels, seed=case.seed
        ).values()
    )
    return {"mean": float(np.mean(found)), "head": found[0], "all": found[-1]}


def sanity(
    model: Model,
    explanation: Explanation,
    explain: Callable[..., Explanation],
    *,
    score: str | None = None,
    levels: int | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """By layer, from the head down: correlation with the explanation once it and all above are randomised."""
    groups = layers(model)
    judged = _spread(len(groups), levels)
    before = np.abs(explanation.score(score))
    result: dict[str, float] = {}
    for number, (name, twin) in enumerate(_cascade(_access(model), groups, seed)):
        if number in judged:
            after = explain(model=twin, target=explanation.target).score(score)
            result[name] = abs(likeness(before, np.abs(after)))
    return result


def layers(model: Model) -> dict[str, list[str]]:
    """The names of the weights of every layer of a torch model, from the head down to the embeddings.

    A layer is an entry of the longest list of modules, or, beside that list, a part of the whole model.
    """
    module = _access(model).module
    from torch import nn

    sizes = {str(name): len(part) for name, part in module.named_modules() if isinstance(part, nn.ModuleList)}
    stack = max(sizes, key=lambda name: sizes[name], default=None)
    groups: dict[str, list[str]] = {}
    for name, weight in module.named_parameters():
        if weight.is_floating_point():
            groups.setdefault(_group(name, stack), []).append(name)
    if not groups:
        raise ModelError(f"{type(module).__name__} has no weights to draw anew")
    return dict(reversed(groups.items()))


def _access(model: Model) -> TorchAccess:
    if model.torch is None:
        raise NotApplicable("the model is no torch module, so its weights cannot be drawn anew")
    return model.torch


def _group(name: str, stack: str | None) -> str:
    """The entry of the stack that a weight belongs to, or the part where it leaves the path to the stack."""
    path, trunk = name.split("."), [] if stack is None else stack.split(".")
    same = next((i for i, (a, b) in enumerate(zip(path, trunk, strict=False)) if a != b), len(trunk))
    return ".".join(path[: same + 1])


def _cascade(model: TorchAccess, groups: dict[str, list[str]], seed: int) -> Iterator[tuple[str, Model]]:
    """The model with more and more layers randomised; one copy, changed in place between the steps."""
    import torch

    module = copy.deepcopy(model.module)
    twin, weights = model.like(module), dict(module.named_parameters())
    draw = torch.Generator().manual_seed(seed)
    for layer, names in groups.items():
        with torch.no_grad():
            for name in names:
                _draw(weights[name], draw)
        yield layer, twin


def _draw(weight: Tensor, generator: Generator) -> None:
    """New independent weights of the same mean and spread, so that the model's numbers stay in range."""
    import torch

    old = weight.double()
    fresh = torch.randn(old.shape, generator=generator, dtype=torch.float64).to(old.device)
    spread = old.std(correction=0)
    weight.copy_((old.mean() + spread * fresh).to(weight.dtype))


def _spread(count: int, wanted: int | None) -> set[int]:
    if wanted is None or wanted >= count:
        return set(range(count))
    return {round(place) for place in np.linspace(0, count - 1, max(wanted, 1))}
