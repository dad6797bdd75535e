"""OpenVINO on the CPU, in float32."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from slalom.errors import MissingExtraError
from slalom.models.torch.engines import Made, Raw
from slalom.models.torch.engines.graph import INPUTS, enough_for_openvino, exported, tame
from slalom.models.torch.forward import Forward
from slalom.tokens import FloatArray, IntArray


def make(forward: Forward, batches: list[tuple[IntArray, IntArray]]) -> Made:
    with read(forward, "the engine 'openvino'") as model:
        return Made(run(model))


@contextmanager
def read(forward: Forward, purpose: str) -> Iterator[Any]:
    """The module as an OpenVINO model; to be compiled before its file goes."""
    tame(before="openvino")
    try:
        import openvino
    except ImportError:
        raise MissingExtraError("openvino", "openvino", purpose) from None
    core = openvino.Core()
    core.set_property({"ENABLE_MMAP": False})  # the file goes afterwards
    with exported(forward, purpose) as path, enough_for_openvino():
        yield core.read_model(path)


def run(model: Any) -> Raw:
    """An OpenVINO model as a function. The arithmetic is float32 where the model does not say int8."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",  # by default it may choose bfloat16
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    taken = {one.get_any_name() for one in model.inputs}
    lock = threading.Lock()

    def answer(ids: IntArray, types: IntArray) -> FloatArray:
        given = {name: value for name, value in zip(INPUTS, (ids, types), strict=True) if name in taken}
        with lock:
            return request.infer(given)[0].copy()

    return answer
