"""Attention weights: how much the place that is read out looks at each token.

The read-out is the first place of an encoder and the last of a decoder. Four readings: "alpha_avg" and
"alpha_max", the mean and the largest weight over the heads of one `layer` (the last by default); "rollout",
weights multiplied through all layers with the residual connections; "flow", the largest flow through the
same graph (Abnar and Zuidema). `reading` chooses the one to rank by. Weights are never negative: they do
not say for or against.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

from slalom.checks import Range, check
from slalom.errors import InputError
from slalom.explainers._common import Budget, finish, queries
from slalom.explanation import Explanation
from slalom.models.ask import Ask
from slalom.models.target import Target
from slalom.tokens import FloatArray, IntArray

NEEDS = "attentions"

Reading = Literal["alpha_avg", "alpha_max", "rollout", "flow"]

_FLOW_PLACES = 160
"""Inputs with more places get no flow: one maximum flow for each place of each text takes too long."""
_UNITS = 1_000_000
"""Capacities are whole numbers of this part of a weight."""


def explain(
    ask: Ask,
    target: Target,
    *,
    budget: Budget = "auto",
    seed: int = 0,
    reading: Reading = "alpha_avg",
    layer: Annotated[int, Range(-1000, 999)] = -1,
) -> Explanation:
    """One pass through a copy of the model that computes its attention in the open."""
    from slalom.models.torch.whitebox import attentions, per_token

    queries("attention", budget, 2, least=2)
    weights, owner = attentions(ask, "attention")
    check("layer", layer, Annotated[int, Range(-len(weights), len(weights) - 1)])
    read_out = len(owner) - 1 if _is_causal(weights) else 0
    row = weights[layer, :, read_out]
    places = {"alpha_avg": row.mean(axis=0), "alpha_max": row.max(axis=0)}
    mixed = _mixed(weights)
    places["rollout"] = np.linalg.multi_dot(mixed[::-1])[read_out] if len(mixed) > 1 else mixed[0][read_out]
    notes: tuple[str, ...] = ()
    if len(owner) <= _FLOW_PLACES:
        places["flow"] = _flow(mixed, read_out, owner, ask.check)
    elif reading == "flow":
        raise InputError(
            f"the flow of attention is computed for inputs of at most {_FLOW_PLACES} places; this one has "
            f"{len(owner)}: use reading='rollout'"
        )
    else:
        notes = (f"No attention flow: the input has {len(owner)} places, more than {_FLOW_PLACES}.",)
    scores = {name: per_token(numbers, owner, len(ask.tokens)) for name, numbers in places.items()}
    settings = {"layer": layer % len(weights), "read_out": "last" if read_out else "first"}
    return finish(
        ask,
        target,
        "attention",
        scores,
        ranking=reading,
        settings=settings,
        notes=notes,
        unsigned=tuple(scores),
    )


def _is_causal(weights: FloatArray) -> bool:
    """Whether no place ever looks at a later one."""
    return weights.shape[-1] > 1 and not np.triu(weights, 1).any()


def _mixed(weights: FloatArray) -> list[FloatArray]:
    """Per layer, heads averaged and half of every place's weight given to itself: the residual connection."""
    mixed = 0.5 * weights.mean(axis=1) + 0.5 * np.eye(weights.shape[-1])
    return list(mixed / mixed.sum(axis=-1, keepdims=True))


def _flow(mixed: list[FloatArray], read_out: int, owner: IntArray, check: Callable[[], None]) -> FloatArray:
    """The largest flow from the read-out above the last layer to each token's place below the first."""
    count, depth = len(owner), len(mixed)
    rows, columns, sizes = [], [], []
    for level, layer in enumerate(mixed):
        high, low = np.nonzero(layer)
        rows.append((level + 1) * count + high)
        columns.append(level * count + low)
        sizes.append(np.rint(layer[high, low] * _UNITS))
    shape = ((depth + 1) * count,) * 2
    data = np.concatenate(sizes).astype(np.int32)
    graph = sparse.csr_matrix((data, (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    graph.eliminate_zeros()
    source = depth * count + read_out
    result = np.zeros(count)
    for place in np.flatnonzero(owner >= 0):
        check()
        result[place] = maximum_flow(graph, source, int(place)).flow_value / _UNITS
    return result
