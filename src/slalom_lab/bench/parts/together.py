"""Part together: several short documents in one call beside one call after another."""

from __future__ import annotations

from collections.abc import Callable

from slalom.files import Record
from slalom_lab.bench.profile import of_functions
from slalom_lab.bench.ratios import goal, spread
from slalom_lab.bench.setup import Bench
from slalom_lab.bench.timing import in_turn

BOUND = 1.3
EFFORTS = ("balanced", "fast")


def measure(bench: Bench) -> Record:
    """Seconds of both in turn, for the default effort and for `fast`."""
    settings = bench.settings
    texts = bench.documents(settings.together_tokens, settings.together_documents)
    rows: list[Record] = []
    goals: list[Record] = []
    profile = None
    for effort in EFFORTS:
        bench.say(f"together: {len(texts)} documents, {effort}")
        calls = _calls(bench, texts, effort)
        for call in calls.values():  # threads start, batches find their size
            call()
        taken = in_turn(calls, settings.repeats)
        ratios = [a / b for a, b in zip(taken["one by one"], taken["together"], strict=True)]
        rows.append({"effort": effort, **{name: vars(spread(found)) for name, found in taken.items()}})
        goals.append(
            goal(f"{len(texts)} documents one by one / together, {effort}", ratios, "at least", BOUND)
        )
        if goals[-1]["reached"] is False and profile is None:
            told = f"{len(texts)} documents together, {effort}, Python functions by own time"
            profile = {"of": told, "entries": of_functions(calls["together"])}
    found: Record = {"documents": [len(bench.model.tokenize(t)) for t in texts], "rows": rows}
    return {**found, "goals": goals, **({"profile": profile} if profile else {})}


def _calls(bench: Bench, texts: list[str], effort: str) -> dict[str, Callable[[], object]]:
    explain = bench.explainer
    options: Record = {"effort": effort, "seed": bench.settings.seed}
    return {
        "one by one": lambda: [explain(text, **options) for text in texts],
        "together": lambda: explain(list(texts), **options),
    }
