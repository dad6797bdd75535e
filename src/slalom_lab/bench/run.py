"""A whole benchmark: part after part, each kept when it is done."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from slalom.errors import SlalomError
from slalom.files import (
    Record,
    check_same,
    from_json,
    make_folder,
    plain,
    read_text,
    to_json,
    versions,
    write_text,
)
from slalom_lab.bench.settings import PARTS, BenchSettings, known
from slalom_lab.bench.setup import Bench

if TYPE_CHECKING:
    from torch import nn

FILE = "bench.json"
REPORT = "bench.md"
_SAME = ("settings", "source", "versions", "machine")
"""What the parts of one report have in common."""
_PACKAGES = (
    "slalom-xai",
    "torch",
    "transformers",
    "numpy",
    "onnxruntime",
    "openvino",
    "slalom-explanations",
    "lime",
    "shap",
    "captum",
    "interpreto",
)


def run(
    settings: BenchSettings,
    texts: Sequence[str],
    *,
    parts: Sequence[str] = PARTS,
    out: str | os.PathLike[str] | None = None,
    source: str = "",
    command: str = "",
    fresh: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Record:
    """Measure the parts on the texts whose lengths fit; the document that `report` turns into Markdown.

    out: a folder for bench.json and bench.md, written anew after every part. Parts that stand there from a
    run with the same settings are kept; those of another run are dropped if `fresh`, otherwise the folder is
    refused. source, command: what the report says about texts and call.
    """
    known("part", parts, PARTS)
    folder = None if out is None else Path(out)
    document: Record = {
        "machine": machine(),
        "versions": versions(_PACKAGES),
        "settings": plain(asdict(settings)),
        "source": source,
        "command": command,
        "parts": {},
    }
    if folder is not None:
        make_folder(folder)
        document["parts"] = {} if fresh else _earlier(folder / FILE, document)
    bench = Bench(settings, texts, say)
    document["model"] = describe(bench.model.name, bench.torch.module)
    for part in parts:
        document["parts"][part] = measure(bench, part)
        if folder is not None:
            keep(document, folder)
    return document


def measure(bench: Bench, part: str) -> Record:
    """One part; where it fails, the reason."""
    start = datetime.now(UTC)
    try:
        found = import_module(f"slalom_lab.bench.parts.{part}").measure(bench)
    except SlalomError as error:
        found = {"failed": str(error), "goals": []}
    except Exception as error:  # the other parts of a long run are measured all the same  # noqa: BLE001
        found = {"failed": f"{type(error).__name__}: {error}", "goals": []}
    took = (datetime.now(UTC) - start).total_seconds()
    return plain({**found, "measured": start.isoformat(timespec="seconds"), "took": took})


def keep(document: Record, folder: Path) -> None:
    """Write the numbers and the report."""
    from slalom_lab.bench.figure import draw
    from slalom_lab.bench.report import markdown

    write_text(folder / FILE, to_json(document) + "\n")
    drawn = draw(document["parts"].get("scaling"), folder)
    write_text(folder / REPORT, markdown(document, drawn) + "\n")


def machine() -> Record:
    """Processor, threads and system, as a reader of the report needs them."""
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def describe(name: str, module: nn.Module) -> Record:
    """The size of a model."""
    config = getattr(module, "config", None)
    return {
        "name": name,
        "kind": type(module).__name__,
        "parameters": sum(p.numel() for p in module.parameters()),
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine() or sys.platform


def _earlier(path: Path, document: Record) -> Record:
    """The parts of an earlier run; an InputError unless it measured the same on the same machine."""
    if not path.exists():
        return {}
    found = from_json(read_text(path), repr(str(path)))
    there, here = ({key: one.get(key) for key in _SAME} for one in (found, document))
    check_same(there, here, f"{str(path.parent)!r} holds a benchmark with other settings")
    return dict(found.get("parts", {}))
