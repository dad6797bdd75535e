"""A copy of the module whose weights are bfloat16."""

from __future__ import annotations

import copy

import torch

from slalom.models.torch.engines import Made
from slalom.models.torch.engines.graph import need_bfloat16
from slalom.models.torch.forward import Forward
from slalom.tokens import IntArray


def make(forward: Forward, batches: list[tuple[IntArray, IntArray]]) -> Made:
    need_bfloat16(forward.device)
    return Made(forward.like(copy.deepcopy(forward.module).to(torch.bfloat16)))
