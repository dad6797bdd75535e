"""What a benchmark measures, and on how much of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

from slalom.errors import InputError
from slalom.models.torch.engines import engine_names
from slalom_lab.bench.peers import PEERS

PARTS = ("overhead", "equal_samples", "equal_quality", "limits", "memory", "together", "scaling")
FP32 = ("eager", "lean", "compile", "onnx", "openvino")
"""Engines that compute in 32-bit floating point."""


@dataclass(frozen=True)
class BenchSettings:
    """The numbers of a run; the defaults are those of docs/speed.md.

    model: a directory or hub id; None is the bundled model. tokens, samples: the length of the documents and
    the queries of each explanation. slow_documents: of peers that take tens of seconds for one explanation,
    how many documents, once each (one document where the peer has no goal). quality_tokens: shortest and
    longest document of the part equal_quality, whose peers take their published or default budget. budgets:
    what `fast` tries there.
    """

    model: str | None = None
    tokens: int = 255
    samples: int = 1000
    documents: int = 10
    repeats: int = 3
    slow_documents: int = 2
    peers: tuple[str, ...] = tuple(PEERS)
    engines: tuple[str, ...] = ("eager", "lean", "onnx", "openvino", "openvino-int8")
    quality_peers: tuple[str, ...] = (
        "reference",
        "reference_published",
        "shap_kernel",
        "shap_partition",
    )
    quality_tokens: tuple[int, int] = (250, 260)
    budgets: tuple[int, ...] = (50, 100, 200, 300, 500, 700, 1000, 1500)
    memory_queries: tuple[int, int] = (1000, 10_000)
    together_documents: int = 8
    together_tokens: int = 30
    scaling_tokens: tuple[int, ...] = (30, 100, 250, 500)
    scaling_samples: tuple[int, ...] = (300, 1000, 3000, 10_000)
    scaling_layers: tuple[int, ...] = (2, 4, 6, 12)
    seed: int = 0

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            numbers = value if isinstance(value, tuple) else (value,)
            if entry.name != "seed" and any(isinstance(one, int) and one < 1 for one in numbers):
                raise InputError(f"{entry.name} must be at least 1; got {value!r}")
        known("peer", (*self.peers, *self.quality_peers), PEERS)
        known("engine", self.engines, engine_names())
        low, high = self.quality_tokens
        if low > high:
            raise InputError(f"quality_tokens is the shortest and the longest length; got {low} and {high}")


def known(kind: str, given: Sequence[str], names: Collection[str]) -> None:
    """Refuses a name that does not exist."""
    for name in given:
        if name not in names:
            raise InputError(f"there is no {kind} {name!r}; choose from {', '.join(names)}")
