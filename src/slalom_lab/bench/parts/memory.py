"""Part memory: the peak of a process that explains one text with few and with many queries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from slalom.errors import SlalomError
from slalom.files import Record
from slalom_lab.bench.ratios import goal
from slalom_lab.bench.setup import SHORT, Bench

BOUND = 1.3
_CHILD = "from slalom_lab.bench.parts.memory import child; child()"


def measure(bench: Bench) -> Record:
    """Peak megabytes, each in a fresh process."""
    text = bench.documents(bench.settings.tokens, 1)[0]
    few, many = bench.settings.memory_queries
    rows: list[Record] = []
    for queries in (few, many):
        bench.say(f"memory: {queries:,} queries in a process of their own")
        rows.append({"queries": queries, **_peak(bench.settings.model, text, queries, bench.settings.seed)})
    ratio = rows[1]["peak"] / rows[0]["peak"]
    claim = f"peak memory of {many:,} queries / of {few:,}"
    return {"rows": rows, "goals": [goal(claim, [ratio], "at most", BOUND)]}


def _peak(model: str | None, text: str, queries: int, seed: int) -> dict[str, float]:
    given = json.dumps({"model": model, "text": text, "queries": queries, "seed": seed})
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        told = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SlalomError(f"the process that measures memory ended with {done.returncode}: {told}")
    return json.loads(done.stdout.splitlines()[-1])


def child() -> None:
    """What the fresh process does: explain as told on its input, print its peak before and after."""
    from slalom.api import Explainer

    order = json.loads(sys.stdin.read())
    explainer = Explainer(order["model"])
    explainer.predict(order["text"])
    loaded = peak_megabytes()
    options: Record = {"length": SHORT}
    explainer(order["text"], budget=order["queries"], seed=order["seed"], **options)
    print(json.dumps({"loaded": loaded, "peak": peak_megabytes()}))


def peak_megabytes() -> float:
    """The largest resident set of this process so far."""
    try:
        # A process on Linux inherits the ru_maxrss of the one that started it, but not its VmHWM.
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        import resource

        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
