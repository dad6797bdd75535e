"""Part equal_samples: this library with each engine beside each peer, the same number of samples."""

from __future__ import annotations

from collections.abc import Callable

from slalom.errors import SlalomError
from slalom.files import Record
from slalom_lab.bench.peers import PEERS, Question
from slalom_lab.bench.profile import of_functions
from slalom_lab.bench.ratios import best_of, goal, paired, spread
from slalom_lab.bench.settings import FP32
from slalom_lab.bench.setup import Bench
from slalom_lab.bench.timing import seconds

GOALS = {
    "reference": (4.0, 6.0),
    "lime": (30.0, 30.0),
    "shap_kernel": (50.0, 50.0),
    "interpreto": (50.0, 50.0),
}
"""How many times faster than a peer, with the default engine and with the best one in float32."""
Taken = dict[str, dict[tuple[int, int], float]]


def measure(bench: Bench) -> Record:
    """Seconds by document and round; a slow peer explains few documents, once each."""
    taken: Taken = {f"slalom {name}": {} for name in bench.working()}
    failed = bench.ready(bench.settings.peers)
    texts = bench.documents(bench.settings.tokens, bench.settings.documents)
    for document, text in enumerate(texts):
        question = bench.question(text)
        for number in range(bench.settings.repeats):
            for name, call in _calls(bench, text, question, (document, number), failed).items():
                bench.say(f"equal samples: document {document + 1} of {len(texts)}, {name}")
                try:
                    taken.setdefault(name, {})[document, number] = seconds(call)
                except SlalomError as error:
                    failed[name] = str(error)
    return _result(bench, taken, failed, texts)


def _calls(
    bench: Bench, text: str, question: Question, place: tuple[int, int], failed: dict[str, str]
) -> dict[str, Callable[[], object]]:
    """What takes its turn in this round; rounds alternate their direction."""
    calls: dict[str, Callable[[], object]] = {
        f"slalom {name}": lambda one=one: bench.short(one, text) for name, one in bench.working().items()
    }
    for name in bench.settings.peers:
        most = bench.settings.slow_documents if name in GOALS else 1
        if not failed[name] and (not PEERS[name].slow or (place[0] < most and place[1] == 0)):
            calls[name] = lambda name=name: bench.peer(name, question, bench.settings.samples)
    return calls if place[1] % 2 == 0 else dict(reversed(calls.items()))


def _result(bench: Bench, taken: Taken, failed: dict[str, str], texts: list[str]) -> Record:
    rows = [
        {"who": name, "seconds": vars(spread(list(times.values())))} for name, times in taken.items() if times
    ]
    rows += [{"who": name, "missing": why} for name, why in failed.items() if why]
    rows += [{"who": f"slalom {n}", "missing": e} for n, e in bench.engines.items() if isinstance(e, str)]
    ratios = [
        {"peer": peer, "engine": engine, "ratio": vars(spread(found))}
        for peer in bench.settings.peers
        for engine in bench.working()
        if (found := paired(taken.get(peer, {}), taken[f"slalom {engine}"]))
    ]
    goals = _goals(bench, taken, failed)
    result: Record = {
        "documents": [len(bench.model.tokenize(text)) for text in texts],
        "seconds": rows,
        "ratios": ratios,
        "goals": goals,
    }
    if any(found["reached"] is False for found in goals):
        result["profile"] = {
            "of": "one explanation with the default engine, Python functions by own time",
            "entries": of_functions(lambda: bench.short(bench.explainer, texts[0])),
        }
    return result


def _goals(bench: Bench, taken: Taken, failed: dict[str, str]) -> list[Record]:
    """For every peer with a goal that of the default engine, and that of the best one in float32."""
    default = f"slalom {bench.default}"
    best = best_of(taken, [f"slalom {name}" for name in FP32]) or default
    return [
        goal(
            f"{peer} / {ours}{', the best fp32 engine' if (ours, bound) != (default, bounds[0]) else ''}, "
            "equal samples",
            paired(taken.get(peer, {}), taken.get(ours, {})),
            "at least",
            bound,
            failed.get(peer, ""),
        )
        for peer, bounds in GOALS.items()
        if peer in bench.settings.peers
        for ours, bound in dict.fromkeys(zip((default, best), bounds, strict=True))
    ]
