"""Engines of other runtimes and precisions: torch.compile, ONNX Runtime, OpenVINO, bfloat16."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import numpy as np
import torch

from slalom.errors import MissingExtraError
from slalom.models.torch import Batch
from slalom.models.torch.engines import Made, Raw
from slalom.models.torch.engines.export import (
    INPUTS,
    Graph,
    enough_for_openvino,
    exported,
    int8_saturates,
    keep_kernels_apart,
    need_bfloat16,
    need_compiler,
    still,
    tame,
)
from slalom.models.torch.forward import Forward
from slalom.tokens import FloatArray, IntArray

if TYPE_CHECKING:
    import openvino

ENGINES = {
    "compile": {"tolerance": 1e-3, "live": True},
    "onnx": {"tolerance": 1e-3},
    "openvino": {"tolerance": 1e-3},
    "openvino-int8": {"tolerance": 0.1, "calibrated": True},
    "autocast": {"tolerance": 0.05, "live": True},
    "bf16": {"tolerance": 0.05},
}

_INT8 = "the engine 'openvino-int8'"


def make_compile(forward: Forward) -> Made:
    """torch.compile, with free batch size and length."""
    if forward.device.type == "cpu":
        need_compiler()
    keep_kernels_apart()
    with still():
        compiled = torch.compile(Graph(forward), dynamic=True)

    def answer(ids: IntArray, types: IntArray) -> FloatArray:
        # A batch of one would be compiled a second time: sizes of 1 are constants to the compiler.
        several = (np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows for rows in (ids, types))
        inputs = [torch.from_numpy(np.ascontiguousarray(rows)).to(forward.device) for rows in several]
        with torch.no_grad(), still():
            return compiled(*inputs)[: len(ids)].detach().cpu().double().numpy()

    return Made(answer)


def make_autocast(forward: Forward) -> Made:
    """The module itself under autocast: matrix products in bfloat16, the rest in its own precision."""
    need_bfloat16(forward.device)

    def answer(ids: IntArray, types: IntArray) -> FloatArray:
        with torch.autocast(forward.device.type, dtype=torch.bfloat16):
            return forward(ids, types)

    return Made(answer)


def make_bf16(forward: Forward) -> Made:
    """A copy of the module whose weights are bfloat16."""
    need_bfloat16(forward.device)
    return Made(forward.like(copy.deepcopy(forward.module).to(torch.bfloat16)))


def make_onnx(forward: Forward) -> Made:
    """ONNX Runtime on the CPU, in float32."""
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
        return np.asarray(session.run(["logits"], _inputs(taken, (ids, types)))[0])

    return Made(answer)


def _inputs(taken: set[str], batch: Batch) -> dict[str, IntArray]:
    """What a graph takes of a batch: one without token types has no such input."""
    return {name: rows for name, rows in zip(INPUTS, batch, strict=True) if name in taken}


def make_openvino(forward: Forward) -> Made:
    """OpenVINO on the CPU, in float32."""
    with _openvino_model(forward, "the engine 'openvino'") as model:
        return Made(_openvino_answer(model))


def make_openvino_int8(forward: Forward, batches: list[Batch]) -> Made:
    """OpenVINO on the CPU, with weights and activations of the matrix products in int8."""
    with _openvino_model(forward, _INT8) as model:
        half = int8_saturates()
        return Made(_openvino_answer(_quantised(model, batches, half)), {"weight_bits": 7 if half else 8})


@contextmanager
def _openvino_model(forward: Forward, purpose: str) -> Iterator[openvino.Model]:
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


def _openvino_answer(model: openvino.Model) -> Raw:
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
        with lock:
            return request.infer(_inputs(taken, (ids, types)))[0].copy()

    return answer


def _quantised(model: openvino.Model, batches: list[Batch], half: bool) -> openvino.Model:
    """The model in int8; `half`: with weights in half of its range, so that no sum of products saturates."""
    try:
        with still():
            import nncf
    except ImportError:
        raise MissingExtraError("nncf", "openvino", _INT8) from None
    taken = {one.get_any_name() for one in model.inputs}
    # All but the last, which is the user's: the int8 model shall not depend on the text it is first used on.
    fixed = [_inputs(taken, batch) for batch in batches[:-1]]
    with still("nncf"), redirect_stdout(io.StringIO()):  # without its progress bars
        return nncf.quantize(
            model,
            nncf.Dataset(fixed),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(fixed),
            # Tables of embeddings stay: looking up costs nothing, and one with a single row is not compiled.
            ignored_scope=nncf.IgnoredScope(types=["Gather"], validate=False),
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix=nncf.OverflowFix.ENABLE if half else nncf.OverflowFix.DISABLE
            ),
        )
