"""The engines beside each other and beside the arithmetic limit, in one run.

    python benchmarks/engines.py [--model DIR] [--engines eager,lean,compile,onnx,openvino,openvino-int8]

Two loads: 1000 sequences of 5 tokens (queries of 3 and their special tokens) and 200 of 128. Every engine
takes its best batch size. The limit is the time of the bare matrix products of the encoder's linear layers
in float32 (torch.mm, same shapes, results written into place), at its best batch size too. Runs alternate
between the engines, and the shortest of each is taken.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from slalom.errors import SlalomError
from slalom.models import bundled
from slalom.models.torch.engines import EAGER, check_engine
from slalom.models.torch.engines.engine import Engine
from slalom.models.torch.forward import Forward, evaluating
from slalom.models.torch.load import load, load_tokenizer

LOADS = {"short": (1000, 5, (50, 100, 200, 400)), "long": (200, 128, (4, 16))}
Call = Callable[[Any, Any], object]


def main() -> None:
    given = _arguments()
    if given.threads:
        torch.set_num_threads(given.threads)
    module, tokenizer = _model(given.model)
    with evaluating(module):
        forward = Forward(module, "token_type_ids" in tokenizer.model_input_names)
        calls, reports = _calls(given.engines.split(","), tokenizer, forward)
        found = {name: _load(name, module, calls, given.repeats) for name in given.loads.split(",")}
    document = {"threads": torch.get_num_threads(), "engines": reports, "seconds": found}
    print(json.dumps(document, indent=1) if given.json else _table(document))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="a directory; by default random weights, 6 layers, 384 wide")
    parser.add_argument("--engines", default="eager,lean,compile,onnx,openvino,openvino-int8")
    parser.add_argument("--loads", default="short,long")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, help="by default what torch takes")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _model(source: str | None) -> tuple[Any, Any]:
    if source is not None:
        return load(source, device="cpu")
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
    return BertForSequenceClassification(config).eval(), load_tokenizer(bundled())


def _calls(names: list[str], tokenizer: Any, forward: Forward) -> tuple[dict[str, Call], dict[str, Any]]:
    """The engines that can be made, and what they say of themselves."""
    calls: dict[str, Call] = {}
    reports: dict[str, Any] = {}
    ids = np.random.default_rng(1).integers(5, len(tokenizer), (8, 16))
    for name in names:
        check_engine(name, None)
        if name == EAGER:
            calls[name], reports[name] = forward, {"name": name, "deviation": 0.0}
            continue
        start = time.perf_counter()
        engine = Engine(name, tokenizer)
        try:
            engine.over(forward)(ids, np.zeros_like(ids))
        except SlalomError as error:
            reports[name] = {**engine.report, "refused": str(error)}
            continue
        calls[name] = engine.over(forward)
        reports[name] = {**engine.report, "made in": time.perf_counter() - start}
    return calls, reports


def _load(name: str, module: Any, calls: dict[str, Call], repeats: int) -> dict[str, dict[str, float]]:
    """For every engine and the limit, the best batch size and its seconds."""
    count, length, sizes = LOADS[name]
    ids = np.random.default_rng(0).integers(5, module.config.vocab_size, (count, length))
    best: dict[str, dict[str, float]] = {}
    for rows in sizes:
        runs = {**calls, "limit": _limit(module, rows * length)}
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for repeat in range(repeats + 1):
            for name, call in runs.items():
                start = time.perf_counter()
                for at in range(0, count, rows):
                    call(ids[at : at + rows], np.zeros_like(ids[at : at + rows]))
                if repeat:  # the first run is a warm-up
                    taken[name].append(time.perf_counter() - start)
        for name, times in taken.items():
            if name not in best or min(times) < best[name]["seconds"]:
                best[name] = {"seconds": min(times), "rows": rows}
    return best


def _limit(module: Any, tokens: int) -> Call:
    """The products of the encoder's linear layers for one batch."""
    encoder = module.base_model.encoder if hasattr(module.base_model, "encoder") else module.base_model
    shapes = [part.weight.shape for part in encoder.modules() if isinstance(part, torch.nn.Linear)]
    inputs = {wide: torch.randn(tokens, wide) for _, wide in shapes}
    outputs = {wide: torch.empty(tokens, wide) for wide, _ in shapes}
    weights = [torch.randn(wide, out) for out, wide in shapes]

    def multiply(*_: object) -> None:
        with torch.inference_mode():
            for weight in weights:
                torch.mm(inputs[weight.shape[0]], weight, out=outputs[weight.shape[1]])

    return multiply


def _table(document: dict[str, Any]) -> str:
    lines = [f"{document['threads']} threads; seconds, times the limit, times faster than eager, batch rows"]
    for load_name, found in document["seconds"].items():
        count, length, _ = LOADS[load_name]
        lines += ["", f"{count} sequences of {length} tokens"]
        limit, eager = found["limit"]["seconds"], found.get("eager", {}).get("seconds", float("nan"))
        for name, one in found.items():
            seconds = one["seconds"]
            ratios = f"{seconds / limit:5.2f} x limit  {eager / seconds:5.2f} x eager"
            lines.append(f"  {name:15} {seconds:7.3f} s  {ratios}  {one['rows']:4} rows")
    lines += ["", "deviation of logits from the module, beside their spread"]
    for name, report in document["engines"].items():
        lines.append(
            f"  {name:15} " + "  ".join(f"{key} {_short(report[key])}" for key in report if key != "name")
        )
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
