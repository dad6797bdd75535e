"""OpenVINO on the CPU, with weights and activations of the matrix products in int8."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from slalom.errors import MissingExtraError
from slalom.models.torch.engines import Made
from slalom.models.torch.engines.graph import INPUTS, int8_saturates, still
from slalom.models.torch.engines.openvino import read, run
from slalom.models.torch.forward import Forward
from slalom.tokens import IntArray

_PURPOSE = "the engine 'openvino-int8'"


def make(forward: Forward, batches: list[tuple[IntArray, IntArray]]) -> Made:
    with read(forward, _PURPOSE) as model:
        half = int8_saturates()
        return Made(run(_quantised(model, batches, half)), {"weight_bits": 7 if half else 8})


def _quantised(model: Any, batches: list[tuple[IntArray, IntArray]], half: bool) -> Any:
    """The model in int8; `half`: with weights in half of its range, so that no sum of products saturates."""
    try:
        with still():
            import nncf
    except ImportError:
        raise MissingExtraError("nncf", "openvino", _PURPOSE) from None
    taken = {one.get_any_name() for one in model.inputs}
    # All but the last, which is the user's: the int8 model shall not depend on the text it is first used on.
    fixed = [
        {name: value for name, value in zip(INPUTS, batch, strict=True) if name in taken}
        for batch in batches[:-1]
    ]
    with _silent():
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


@contextmanager
def _silent() -> Iterator[None]:
    """Without the log lines and the progress bars of the quantiser."""
    from nncf.common.logging import nncf_logger

    level = nncf_logger.level
    nncf_logger.setLevel(logging.ERROR)
    try:
        with still(), redirect_stdout(io.StringIO()):
            yield
    finally:
        nncf_logger.setLevel(level)
