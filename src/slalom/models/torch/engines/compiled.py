"""torch.compile, with free batch size and length."""

from __future__ import annotations

import os
import shutil

import numpy as np
import torch

from slalom.errors import ModelError
from slalom.models.torch.engines import Made
from slalom.models.torch.engines.graph import Graph, still
from slalom.models.torch.forward import Forward
from slalom.tokens import FloatArray, IntArray

_COMPILERS = ("g++", "clang++", "c++", "cl")


def make(forward: Forward, batches: list[tuple[IntArray, IntArray]]) -> Made:
    if forward.device.type == "cpu":
        _need_compiler()
    with still():
        compiled = torch.compile(Graph(forward), dynamic=True)

    def answer(ids: IntArray, types: IntArray) -> FloatArray:
        # A batch of one would be compiled a second time: sizes of 1 are constants to the compiler.
        several = (np.repeat(given, 2, axis=0) if len(given) == 1 else given for given in (ids, types))
        given = [torch.from_numpy(np.ascontiguousarray(one)).to(forward.device) for one in several]
        with torch.no_grad(), still():
            return compiled(*given)[: len(ids)].detach().cpu().double().numpy()

    return Made(answer)


def _need_compiler() -> None:
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else _COMPILERS)):
        wanted = named or "g++ or clang++"
        raise ModelError(
            f"the engine 'compile' needs a C++ compiler, and there is no {wanted} on the PATH; install one, "
            "name it in the environment variable CXX, or use engine='onnx'"
        )
