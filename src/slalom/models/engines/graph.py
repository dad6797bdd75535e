"""The module as a function of tensors, as compilers and exporters take it."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slalom.errors import MissingExtraError, ModelError
from slalom.models.inference import Forward, find_logits, is_pretrained

INPUTS = ("ids", "types")


class Graph(nn.Module):
    """(B, L) ids and token types → (B, k) logits; shares the weights of the module."""

    def __init__(self, forward: Forward):
        super().__init__()
        self.module = forward.module
        self._forward = forward
        self.training = False
        # Without a mask Hugging Face models skip the masking, which would find nothing to hide here.
        own = is_pretrained(forward.module) and forward.names("attention_mask")
        self._more: dict[str, Any] = {"attention_mask": None} if own else {}

    def forward(self, ids: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        logits = find_logits(self._forward.apply(ids, types, **self._more))
        return logits if logits.ndim == 2 else logits.reshape(-1, 1)


@contextmanager
def exported(forward: Forward, purpose: str) -> Iterator[Path]:
    """The module as an ONNX file with free batch size and length, in a directory that goes afterwards."""
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "onnx", purpose)
    if not hasattr(torch.export.Dim, "DYNAMIC"):
        raise ModelError(f"{purpose} needs torch 2.6 or later; this is {torch.__version__}")
    if forward.device.type != "cpu":
        raise ModelError(f"{purpose} runs on the CPU, and the model is on {forward.device}; use 'compile'")
    with tempfile.TemporaryDirectory(prefix="slalom-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "model.onnx"
        with still():
            _export(Graph(forward), path)
        yield path


def _export(graph: Graph, path: Path) -> None:
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    # Two tensors: where one is given for both inputs, the exporter takes them for the same input.
    ids, types = torch.ones(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.long)
    with torch.no_grad():
        try:
            program: Any = torch.onnx.export(
                graph,
                (ids, types),
                dynamo=True,
                dynamic_shapes=(free, free),
                input_names=list(INPUTS),
                output_names=["logits"],
                verbose=False,
            )
        except Exception as error:
            reason = next((line for line in str(error.__cause__ or error).splitlines() if line.strip()), "")
            raise ModelError(
                f"{type(graph.module).__name__} cannot be exported to ONNX: {reason.strip()[:300]}; "
                "use engine='eager' or 'compile'"
            ) from error
    program.save(path)


@contextmanager
def still() -> Iterator[None]:
    """Keeps the remarks of exporters and compilers about their own inner life from the user."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
