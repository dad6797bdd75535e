"""The four readings of a gradient at the embedding layer (maths 5), and what gradient methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from slalom.tokens import FloatArray

if TYPE_CHECKING:
    import torch

    from slalom.models.torch.whitebox import Inside

Reading = Literal["grad_x_input", "avg", "l1", "l2"]

UNSIGNED = ("l1", "l2")


def readings(gradient: torch.Tensor, inside: Inside, n: int) -> dict[str, FloatArray]:
    """G×I (dot product with the embedding), G-avg, G-ℓ1 and G-ℓ2 of every token.

    Each is read at every place of the input and summed over the places of a token that has several.
    """
    slope, embedded = (t.detach()[0].double().cpu().numpy() for t in (gradient, inside.embeddings))
    places = {
        "grad_x_input": (slope * embedded).sum(axis=1),
        "avg": slope.mean(axis=1),
        "l1": np.abs(slope).sum(axis=1),
        "l2": np.sqrt((slope**2).sum(axis=1)),
    }
    return {name: inside.per_token(numbers, n) for name, numbers in places.items()}
