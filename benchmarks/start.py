"""What it takes to start: `slalom explain` beside `import torch`, and a small corpus on two workers.

    git worktree add ../slalom-before TAG
    python benchmarks/start.py --before ../slalom-before --out docs/results/start.md

Every command is a process of its own with one thread, the bundled model and compiled bytecode. Processor time
(user and system) depends little on what else the machine does; seconds on the clock are for orientation. A
corpus is a few sentences: what it takes is the start of Ray and of the workers. Linux; needs psutil.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

TEXT = "the food was great but the service was awful"
HERE = Path(__file__).resolve().parents[1]
_LOOK = 0.05
"""Seconds between two looks at the processes of a run."""


@dataclass(frozen=True)
class Took:
    """Seconds of one run."""

    processor: float
    clock: float


def main() -> None:
    arguments = parse()
    trees = {"after": HERE, **({"before": arguments.before.resolve()} if arguments.before else {})}
    explain = [sys.executable, "-m", "slalom", "explain", TEXT, "--quiet"]
    runs: dict[str, Callable[[], Took]] = {
        "`python -c 'import torch'`": lambda: run([sys.executable, "-c", "import torch"], HERE)
    }
    for name, tree in sorted(trees.items(), reverse=True):
        runs[f"`slalom explain`, {name}"] = lambda tree=tree: run(explain, tree)
    for name, tree in sorted(trees.items(), reverse=True):
        runs[f"`slalom explain-corpus`, two workers, {name}"] = lambda tree=tree: corpus(tree)
    for name, once in runs.items():  # writes the bytecode and fills the caches of the system
        if "corpus" not in name:
            once()
    took: dict[str, list[Took]] = {name: [] for name in runs}
    for number in range(arguments.rounds):
        for name, once in runs.items():
            if number < arguments.corpora or "corpus" not in name:
                took[name].append(once())
    report(took, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--rounds", type=int, default=7, help="runs of every command")
    parser.add_argument("--corpora", type=int, default=3, help="at most so many runs of a corpus")
    parser.add_argument("--out", type=Path, help="the page to write; by default it is printed")
    return parser.parse_args()


def environment(tree: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def corpus(tree: Path) -> Took:
    """Eight sentences on two workers."""
    with tempfile.TemporaryDirectory(prefix="start") as place:
        data = Path(place) / "sentences.csv"
        data.write_text("text\n" + f"{TEXT}\n" * 8)
        command = [sys.executable, "-m", "slalom", "explain-corpus", str(data), str(Path(place) / "out")]
        return run([*command, "--workers", "2", "--quiet"], tree)


def run(command: list[str], tree: Path) -> Took:
    """One run, with the processor time of every process that it started, as far as it was seen."""
    began = time.perf_counter()
    started = psutil.Popen(
        command, env=environment(tree), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    seen: dict[int, float] = {}
    while started.poll() is None:
        for process in [started, *children(started)]:
            note(process, seen)
        time.sleep(_LOOK)
    clock = time.perf_counter() - began
    if started.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{started.stderr.read()[-2000:]}")
    return Took(sum(seen.values()), clock)


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def note(process: psutil.Process, seen: dict[int, float]) -> None:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return
    seen[process.pid] = max(seen.get(process.pid, 0.0), times.user + times.system)


def report(took: dict[str, list[Took]], arguments: argparse.Namespace) -> None:
    processor = {name: statistics.median(one.processor for one in runs) for name, runs in took.items()}
    torch = next(iter(processor.values()))
    rows = [
        f"| {name} | {processor[name]:.2f} ({spread([one.processor for one in runs])}) | "
        f"{processor[name] / torch:.2f} | {statistics.median(one.clock for one in runs):.1f} | {len(runs)} |"
        for name, runs in took.items()
    ]
    sizes = f"--rounds {arguments.rounds} --corpora {arguments.corpora}"
    given = "--before ../slalom-before " if arguments.before else ""
    page = f"""# Starting

What a command costs before it does anything: the bundled model, one thread, {os.cpu_count()} processors
({platform.machine()}), Python {platform.python_version()}, other work on the machine. Medians, in brackets
the range. *Before* is the commit {commit(arguments.before)}, which loads models through transformers;
*after* is the commit of this page, which reads BERT-like encoders from their files.

Produced by:

    python benchmarks/start.py {given}--out docs/results/start.md {sizes}

| command | processor time, s | times `import torch` | on the clock, s | runs |
|---|---|---|---|---|
{chr(10).join(rows)}

A corpus starts Ray, whose own servers are part of its processor time.
"""
    if arguments.out:
        arguments.out.write_text(page, encoding="utf-8")
    else:
        print(page)


def spread(numbers: list[float]) -> str:
    return f"{min(numbers):.2f} – {max(numbers):.2f}"


def commit(tree: Path | None) -> str:
    if tree is None:
        return "(none)"
    found = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return found.stdout.strip() or "(unknown)"


if __name__ == "__main__":
    main()
