"""Part limits: the forward passes with each engine beside the matrix products they cannot do without."""

from __future__ import annotations

from collections.abc import Callable

from slalom.errors import SlalomError
from slalom.files import Record
from slalom.models.text.template import Sequences
from slalom.models.torch.engines.engine import Engine
from slalom.models.torch.forward import Forward, evaluating
from slalom_lab.bench.forward import bare, best_size, operations, products, through
from slalom_lab.bench.profile import of_operators
from slalom_lab.bench.ratios import best_of, goal, spread
from slalom_lab.bench.settings import FP32
from slalom_lab.bench.setup import Bench
from slalom_lab.bench.timing import in_turn

FORWARD, INT8, LIMIT = 1.4, 1.0, "limit"
Calls = dict[str, tuple[int, Callable[[], object]]]


def measure(bench: Bench) -> Record:
    """Seconds of the queries of one document, with each engine at its best batch size, in turn."""
    text = bench.documents(bench.settings.tokens, 1)[0]
    sequences = bench.asked(text)
    with evaluating(bench.torch.module):
        forward = Forward(bench.torch.module, bench.torch.with_types)
        calls, refused, deviations = _calls(bench, forward, sequences)
        bench.say("limits: taking turns")
        rounds = max(5, bench.settings.repeats)
        taken = in_turn({name: call for name, (_, call) in calls.items()}, rounds)
        work = operations(forward, sequences)
        goals = _goals(taken, refused, bench.default)
        result: Record = {
            "sequences": len(sequences),
            "tokens": int(sequences.lengths.sum()),
            "gigaflop": work / 1e9,
            "rate": work / 1e9 / min(taken[LIMIT]),
            "rows": [_row(name, calls[name][0], taken, deviations) for name in calls],
            "refused": refused,
            "goals": goals,
        }
        if any(found["reached"] is False for found in goals):
            result["profile"] = {
                "of": "the forward passes with the default engine, operators by own time",
                "entries": of_operators(calls[bench.default][1]),
            }
    return result


def _calls(
    bench: Bench, forward: Forward, sequences: Sequences
) -> tuple[Calls, dict[str, str], dict[str, float]]:
    calls: Calls = {LIMIT: best_size(lambda tokens: products(forward, sequences, tokens))}
    refused: dict[str, str] = {}
    deviations: dict[str, float] = {}
    for name in bench.engine_names:
        bench.say(f"limits: the best batch size of {name}")
        if name == "eager":
            calls[name] = best_size(lambda tokens: bare(forward, sequences, tokens))
            continue
        try:
            engine = Engine(name, bench.torch.tokenizer)
            raw = engine.over(forward)
            calls[name] = best_size(lambda tokens, raw=raw: through(raw, sequences, tokens))
            deviations[name] = engine.report.get("deviation", float("nan"))
        except SlalomError as error:
            refused[name] = str(error)
    return calls, refused, deviations


def _row(name: str, size: int, taken: dict[str, list[float]], deviations: dict[str, float]) -> Record:
    ratios = [a / b for a, b in zip(taken[name], taken[LIMIT], strict=True)]
    return {
        "who": name,
        "batch_tokens": size,
        "seconds": vars(spread(taken[name])),
        "ratio": vars(spread(ratios)),
        "deviation": deviations.get(name),
    }


def _goals(taken: dict[str, list[float]], refused: dict[str, str], default: str) -> list[Record]:
    times = {name: {(0, i): s for i, s in enumerate(found)} for name, found in taken.items()}
    best = best_of(times, FP32) or default
    over = {name: [a / b for a, b in zip(found, taken[LIMIT], strict=True)] for name, found in taken.items()}
    goals = [
        goal(f"forward passes with {best}, the best fp32 engine / limit", over[best], "at most", FORWARD)
    ]
    why = refused.get("openvino-int8", "not among the engines of this run")
    if "openvino-int8" in over:
        why = ""
    claim = "forward passes with openvino-int8 / the fp32 limit"
    return [*goals, goal(claim, over.get("openvino-int8", []), "at most", INT8, why)]
