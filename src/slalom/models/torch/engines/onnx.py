"""ONNX Runtime on the CPU, in float32."""

from __future__ import annotations

import numpy as np
import torch

from slalom.errors import MissingExtraError
from slalom.models.torch.engines import Made
from slalom.models.torch.engines.graph import INPUTS, exported
from slalom.models.torch.forward import Forward
from slalom.tokens import FloatArray, IntArray


def make(forward: Forward, batches: list[tuple[IntArray, IntArray]]) -> Made:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx", "the engine 'onnx'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with exported(forward, "the engine 'onnx'") as path:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    taken = {one.name for one in session.get_inputs()}

    def answer(ids: IntArray, types: IntArray) -> FloatArray:
        given = {name: value for name, value in zip(INPUTS, (ids, types), strict=True) if name in taken}
        return np.asarray(session.run(["logits"], given)[0])

    return Made(answer)
