"""What a decoder gains by computing common beginnings once: leave-one-out and block deletions of one text.

python benchmarks/prefix.py --layers 4 --width 256 --tokens 256
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2ForSequenceClassification

from slalom.models.text.template import Sequences
from slalom.models.torch import Pace, answer
from slalom.models.torch.decoders import SharedPrefix
from slalom.models.torch.forward import Forward, evaluating


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--block", type=int, default=16, help="tokens of a deleted block")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    module = _decoder(given.layers, given.width, given.tokens)
    text = np.random.default_rng(0).integers(0, module.config.vocab_size, given.tokens)
    print(f"GPT-2, {given.layers} layers, {given.width} wide, {given.tokens} tokens, random weights")
    ones = [np.delete(text, place) for place in range(len(text))]
    blocks = [np.delete(text, slice(at, at + given.block)) for at in range(len(text) - given.block + 1)]
    rng = np.random.default_rng(1)
    singles = [rng.choice(text, 3) for _ in range(1000)]
    for name, rows in (("leave one out", ones), ("block deletions", blocks), ("1000 of 3 tokens", singles)):
        _compare(name, module, _sequences(rows), given)


def _compare(name: str, module: Any, sequences: Sequences, given: argparse.Namespace) -> None:
    with evaluating(module):
        forward, shared = Forward(module, False), SharedPrefix()
        plain, reused = forward, shared.over(forward)
        outputs = [answer(sequences, call, Pace(given.batch_tokens)) for call in (plain, reused, reused)]
        seconds = _seconds(
            [lambda call=call: answer(sequences, call, Pace(given.batch_tokens)) for call in (plain, reused)],
            given.repeats,
        )
    difference = float(np.abs(outputs[0] - outputs[2]).max())
    print(
        f"{name:18} {len(sequences):5} queries   plain {seconds[0]:6.3f} s   shared {seconds[1]:6.3f} s   "
        f"{seconds[0] / seconds[1]:.2f} times faster   largest difference {difference:.1e}"
    )


def _decoder(layers: int, width: int, tokens: int) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=max(1, width // 64), n_positions=max(tokens, 64))
    return GPT2ForSequenceClassification(config).eval()


def _sequences(rows: list[Any]) -> Sequences:
    ids = np.concatenate(rows)
    return Sequences(ids, np.zeros_like(ids), np.r_[0, np.cumsum([len(row) for row in rows])])


def _seconds(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """The shortest of several runs of each, in turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, times in zip(calls, taken, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [min(times) for times in taken]


if __name__ == "__main__":
    main()
