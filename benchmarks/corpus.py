"""Documents per second with one and with two workers, and peak memory of a small and of a large corpus.

    python benchmarks/corpus.py --data sst2.parquet --out docs/results/corpus.md

The data file has the columns text and split (train and validation). Every run is the command `slalom
explain-corpus` in a process of its own, with the bundled model and one thread for each worker. Memory is the
largest resident set (VmHWM) of each process of a run, so it is measured on Linux only; needs psutil.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

_LOOK = 0.25
"""Seconds between two looks at the processes' memory; a peak is kept by the system until the process ends."""
DRIVER, WORKER, REST = "driver", "largest worker", "rest of Ray"


@dataclass
class Run:
    """What one run of the command took."""

    documents: int
    workers: int
    budget: str
    seconds: float = 0.0
    """Of the whole command, with the start of Python, of Ray and of the models."""
    steady: float = 0.0
    """Documents per second between the first finished part and the last."""
    errors: int = 0
    megabytes: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.documents / self.seconds


def main() -> None:
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="corpus") as place:
        corpora = {n: write(arguments.data, n, Path(place)) for n in (arguments.documents, arguments.many)}
        few, many = arguments.documents, arguments.many
        speed = [measure(corpora[few], Run(few, workers, arguments.budget)) for workers in (1, 2)]
        memory = [
            measure(corpora[n], Run(n, workers, arguments.memory_budget))
            for workers in (1, 2)
            for n in (few, many)
        ]
    report = f"{head(arguments)}\n\n{speed_table(speed)}\n\n{memory_table(memory)}\n"
    arguments.out.write_text(report)
    print(report)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="Parquet file with columns text and split")
    parser.add_argument("--documents", type=int, default=2000, help="of the small corpus")
    parser.add_argument("--many", type=int, default=20000, help="documents of the large corpus")
    parser.add_argument("--budget", default="auto", help="queries for each document where speed is measured")
    parser.add_argument("--memory-budget", default="60", help="queries where memory is measured")
    parser.add_argument("--out", type=Path, required=True, help="Markdown file")
    return parser.parse_args()


def write(data: Path, number: int, folder: Path) -> Path:
    """The first sentences of the validation split, then of the training split, again from there on."""
    table = pq.read_table(data, columns=["text", "split"]).to_pylist()
    sentences = [row["text"] for split in ("validation", "train") for row in table if row["split"] == split]
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table({"text": list(islice(cycle(sentences), number))}), path)
    return path


def measure(corpus: Path, run: Run) -> Run:
    """Run the command and watch its processes."""
    output = corpus.with_name(f"{corpus.stem}-{run.workers}-{run.budget}")
    command = [sys.executable, "-m", "slalom", "explain-corpus", str(corpus), str(output)]
    command += ["--budget", run.budget, "--workers", str(run.workers), "--threads", "1"]
    peaks: dict[int, tuple[str, float]] = {}
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None:
        look(process.pid, peaks)
        time.sleep(_LOOK)
    run.seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"failed: {shlex.join(command)}")
    found = json.loads((output / "_SUCCESS").read_text())
    if found["documents"] != run.documents:
        raise SystemExit(f"{found['documents']} documents instead of {run.documents}")
    run.errors, run.steady = found["errors"], steady_rate(output)
    kinds = {DRIVER: max, WORKER: max, REST: sum}
    for kind, join in kinds.items():
        own = [megabytes for name, megabytes in peaks.values() if name == kind]
        run.megabytes[kind] = join(own) if own else 0.0
    print(f"{run.documents} documents, {run.workers} workers: {run.seconds:.0f} s", flush=True)
    return run


def look(driver: int, peaks: dict[int, tuple[str, float]]) -> None:
    """Note the peak of every process below the driver."""
    try:
        parent = psutil.Process(driver)
        for process in (parent, *parent.children(recursive=True)):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
            title = " ".join(process.cmdline())
            kind = DRIVER if process.pid == driver else WORKER if "MapWorker" in title else REST
            # A process of Ray is idle before it becomes a worker: its last name counts.
            peaks[process.pid] = (kind, int(peak) / 1024)
    except (psutil.Error, OSError, StopIteration):  # it ended meanwhile
        return


def steady_rate(output: Path) -> float:
    """Documents per second once the first part is there: without the start of processes and models."""
    parts = sorted(output.glob("part-*.parquet"), key=lambda part: part.stat().st_mtime)
    took = parts[-1].stat().st_mtime - parts[0].stat().st_mtime
    later = sum(pq.read_metadata(part).num_rows for part in parts[1:])
    return later / took if took > 0 else 0.0


def speed_table(runs: list[Run]) -> str:
    one, two = runs
    lines = [
        f"## Speed: {one.documents:,} sentences",
        "",
        "| workers | seconds, all told | documents per second | the same after the start | errors |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {r.workers} | {r.seconds:.1f} | {r.rate:.1f} | {r.steady:.1f} | {r.errors} |" for r in runs]
    ratio, steady = two.rate / one.rate, two.steady / max(one.steady, 1e-9)
    told = f"Two workers beside one: **{ratio:.2f}** times the documents per second all told, "
    return "\n".join([*lines, "", f"{told}**{steady:.2f}** times after the start of Ray and of the models."])


def memory_table(runs: list[Run]) -> str:
    lines = [
        "## Peak memory, megabytes",
        "",
        f"| workers | documents | {DRIVER} | {WORKER} | {REST} | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        of = " | ".join(f"{run.megabytes[kind]:.0f}" for kind in (DRIVER, WORKER, REST))
        lines.append(f"| {run.workers} | {run.documents:,} | {of} | {run.seconds:.0f} |")
    return "\n".join(lines)


HEAD = """# Explaining a corpus

Sentences of SST-2 (`{data}`: the validation split, then the training split) and the bundled model, on {cores}
processors ({machine}), Python {python}, one thread for each worker. One worker is the driver's own process;
two are processes of a Ray cluster that the command starts. Speed with a budget of {budget} queries, memory
with one of {memory} (so that the large corpus does not take long); each process by its largest resident set.

Produced by:

    python benchmarks/corpus.py --data sst2.parquet --out docs/results/corpus.md {options}"""


def head(arguments: argparse.Namespace) -> str:
    names = ("documents", "many", "budget", "memory_budget")
    options = " ".join(f"--{name.replace('_', '-')} {getattr(arguments, name)}" for name in names)
    return HEAD.format(
        data=arguments.data.name,
        cores=os.cpu_count(),
        machine=platform.machine(),
        python=platform.python_version(),
        budget=arguments.budget,
        memory=arguments.memory_budget,
        options=options,
    )


if __name__ == "__main__":
    main()
