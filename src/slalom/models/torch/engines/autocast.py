"""The module itself under autocast: matrix products in bfloat16, the rest in its own precision."""

from __future__ import annotations

import torch

from slalom.models.torch.engines import Made
from slalom.models.torch.engines.graph import need_bfloat16
from slalom.models.torch.forward import Forward
from slalom.tokens import FloatArray, IntArray


def make(forward: Forward, batches: list[tuple[IntArray, IntArray]]) -> Made:
    need_bfloat16(forward.device)

    def answer(ids: IntArray, types: IntArray) -> FloatArray:
        with torch.autocast(forward.device.type, dtype=torch.bfloat16):
            return forward(ids, types)

    return Made(answer)
