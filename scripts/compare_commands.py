"""Run every command at an older commit and now, with small inputs, and compare all numbers that come out.

    python scripts/compare_commands.py fe2f2dc --write docs/results/commands.md

The older source is laid out in a temporary folder and run by this same Python. What is printed and what is
written (Parquet, JSON, CSV, weights) is compared. Numbers may differ by rounding; times, versions and words
are left out. Where a difference is one that an issue asked for, the reason is said (`KNOWN`). Exit code 1
where others differ.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = "The food was great but the service was awful, and the waiter never came back."
TEXTS = [TEXT, "A dull film with wooden acting.", "I laughed, I cried, and I would see it again."]
OTHERS = "occlusion,lime,kernel_shap,linear,gam,slalom_sgd,random,gradient,integrated_gradients,attention"
"""Methods whose numbers are to stay; SLALOM's own are a matter of docs/results."""
TOLERANCE = 1e-5
IGNORED = re.compile(
    r"seconds|version|time|wall|created|when|commit|engine|machine|memory|path|granularity|platform|^explain$"
    r"|^side$|^fingerprint$|^summary$|^rate$|^cpu|threads|^digest$|^title$|^claim|^about$|^command$"
    r"|^made_by$|_checksums|^ratios?$|^profile$|^goals$|^measured$|^took$"
)
"""Names of what may differ: how long, on what, and words that changed on purpose."""
LINES, PORT_WAIT = 24, 120.0

COMMANDS = {
    "explain": ["explain", TEXT, "--method", "occlusion", "--json"],
    "explain types": ["explain", TEXT, "--method", "slalom_sgd", "--budget", "300", "--json"],
    "explain words": ["explain", TEXT, "--method", "lime", "--budget", "200", "--words", "--json"],
    "explain pair": [
        *("explain", TEXT, "--pair", TEXTS[1], "--side", "second", "--method", "occlusion", "--json"),
    ],
    "explain sentences": ["explain", TEXT, "--units", "sentences", "--method", "shapley_sampling", "--json"],
    "save": ["explain", TEXT, "--method", "occlusion", "--save", "saved.json", "--html", "report.html", "-q"],
    "show": ["show", "saved.json"],
    "explain-answer": [
        *("explain-answer", "0.txt", "1.txt", "2.txt", "-m", "llm", "--question", "what was awful"),
        *("--answer", "It was awful.", "--method", "occlusion", "--json", "-q"),
    ],
    "compare": ["compare", TEXT, "--methods", OTHERS, "--budget", "200", "--json"],
    "methods": ["methods", "--json"],
    "evaluate": [
        *("evaluate", "--data", "texts.csv", "--out", "evaluation", "--methods", "occlusion,random,lime"),
        *("--protocols", "deletion,insertion,removals,eraser,leave_one_out", "--budget", "100"),
        *("--no-figures", "-q"),
    ],
    "explain-corpus": ["explain-corpus", "texts.csv", "--out", "corpus", "--method", "occlusion", "-q"],
    "summarize": ["summarize", "corpus", "--json"],
    "global": ["global", "texts.csv", "--json", "-q", "--budget", "200"],
    "reproduce": ["reproduce", "attention_histogram", "--out", "reproduction", "-q"],
    "train": [
        *("train", "--data", "many.csv", "--test", "many.csv", "--out", "model", "--layers", "1"),
        *("--width", "16", "--heads", "2", "--vocabulary", "80", "--length", "24", "--epochs", "2", "-q"),
    ],
    "explain what was trained": ["explain", TEXT, "-m", "model", "--method", "occlusion", "--json"],
    "bench": [
        *("bench", "--data", "many.csv", "--limit", "2", "--slow-limit", "1", "--length", "6", "--repeats"),
        *("1", "--budget", "30", "--peers", "lime", "--parts", "equal_samples", "--json", "-q"),
    ],
    "serve": ["serve", "--port", "PORT"],
}
"""By name; they run in this order, in one folder, so that one may read what another wrote."""

OLDER = {
    "explain-corpus": {"--out": None},
    "bench": {"--length": "--tokens"},
}
"""What options were called before, where an older commit does not know today's name; None: an argument."""

ISSUE_16 = "measured on copies of today's design (issue 16)"
KNOWN = (
    ("serve", r"\.(id|report) is", "reports have random names"),
    ("", r"compar.*\.predicted\b|^\.said\.predicted\b", ISSUE_16),
    ("evaluate", r"comparisons\.parquet.*\.p\b", "p-values of another test (issue 20)"),
    ("", r"\.linear\b.* is 'gone'", "the score `linear` is called `share` (issue 18)"),
    ("", r"\.(verdict|level|trust)\b", "the bands of the verdict have moved (issue 16)"),
)
"""Command, what a difference begins with or holds, and who asked for it."""


@dataclass
class Compared:
    """What became of a command."""

    name: str
    numbers: int
    known: dict[str, int] = field(default_factory=dict[str, int])
    other: list[str] = field(default_factory=list[str])

    def told(self) -> str:
        parts = [f"{count} differ: {reason}" for reason, count in self.known.items()]
        parts += [f"**{one}**" for one in self.other[:5]]
        parts += [f"… {len(self.other) - 5} more"] if len(self.other) > 5 else []
        return "; ".join(parts) or "the same"


def main() -> int:
    """Compare, print a line for each command, and say how it ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS))
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    given = parser.parse_args()
    results: list[Compared] = []
    with tempfile.TemporaryDirectory() as folder:
        places = {"before": _source(given.commit, Path(folder) / "source"), "now": ROOT}
        for name in places:
            _prepare(Path(folder) / name)
        for command in given.only:
            before, now = (
                _outcome(command, root, Path(folder) / name, old=name == "before")
                for name, root in places.items()
            )
            results.append(_compared(command, before, now))
            print(f"{command}: {results[-1].numbers} numbers: {results[-1].told()}", flush=True)
            if given.write:
                _write(given.write, given.commit, results)
    return int(any(result.other for result in results))


def _source(commit: str, place: Path) -> Path:
    """The older source, laid out in a folder."""
    place.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(place, filter="data")
    return place


def _prepare(folder: Path) -> None:
    """The inputs: a few texts, many short ones, sources, and a tiny random language model."""
    folder.mkdir()
    rows = list(zip(TEXTS, (0, 0, 1), strict=True))
    _csv(folder / "texts.csv", rows)
    words = TEXT.lower().replace(",", "").replace(".", "").split()
    many = [(" ".join(words[(i + j) % len(words)] for j in range(7 + i % 5)), i % 2) for i in range(LINES)]
    _csv(folder / "many.csv", many)
    for place, text in enumerate(TEXTS):
        (folder / f"{place}.txt").write_text(text, encoding="utf-8")
    _language_model(folder / "llm")


def _csv(path: Path, rows: Sequence[tuple[str, int]]) -> None:
    lines = [f'"{text}",{label}' for text, label in rows]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")


def _language_model(folder: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    import prompts

    module, tokenizer = prompts.causal("qwen2", max_position_embeddings=256)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _outcome(name: str, root: Path, folder: Path, *, old: bool) -> dict[str, object]:
    """What a command says, and the files that it wrote."""
    there = set(folder.rglob("*"))
    said = _run(name, root, folder, old=old)
    return {"said": said, "files": _files(folder, there)}


def _run(name: str, root: Path, folder: Path, *, old: bool) -> object:
    """What a command prints, as JSON or as the numbers in it; its exit code and error where it failed."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    words = [new for word in COMMANDS[name] for new in _word(name, word, old)]
    command = [sys.executable, "-W", "ignore", "-m", "slalom", *words]
    if name == "serve":
        return _served(command, environment, folder)
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"exit code": run.returncode, "error": run.stderr[-300:]}
    try:
        return json.loads(run.stdout)
    except ValueError:
        return _numbers(run.stdout)


def _word(name: str, word: str, old: bool) -> list[str]:
    renamed = OLDER.get(name, {}) if old else {}
    now = renamed.get(word, word)
    return [] if now is None else [now]


def _served(command: list[str], environment: dict[str, str], folder: Path) -> object:
    """What the server answers to an explanation, a comparison and a prediction."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [port if word == "PORT" else word for word in command]
    server = subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    asked: dict[str, dict[str, object]] = {
        "explain": {"text": TEXT, "method": "occlusion"},
        "compare": {"text": TEXT, "methods": ["occlusion", "lime"], "budget": 200},
        "predict": {"text": TEXT},
    }
    try:
        _awake(f"http://127.0.0.1:{port}/healthz")
        return {name: _answer(f"http://127.0.0.1:{port}/api/{name}", body) for name, body in asked.items()}
    finally:
        server.terminate()
        server.wait()


def _awake(address: str) -> None:
    end = time.monotonic() + PORT_WAIT
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def _answer(address: str, body: dict[str, object]) -> object:
    data, head = json.dumps(body).encode(), {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, head), timeout=300) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"status": error.code, "error": error.read().decode()[:300]}


def _numbers(text: str) -> list[float]:
    """All numbers of a text but those that are followed by a unit of time."""
    return [float(found) for found in re.findall(r"(?<![\w.])-?\d+\.\d+(?![\w.]*\s?m?s\b)", text)]


def _files(folder: Path, there: set[Path]) -> dict[str, object]:
    """The tables, documents and weights that are new in a folder."""
    import pyarrow.parquet as pq
    from safetensors.numpy import load_file

    read = {
        ".parquet": lambda path: pq.read_table(path).to_pylist(),
        ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
        ".jsonl": lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()],
        ".csv": lambda path: list(csv.reader(path.open(encoding="utf-8"))),
        ".safetensors": lambda path: {
            name: weights.ravel().tolist() for name, weights in load_file(path).items()
        },
    }
    return {
        str(path.relative_to(folder)): read[path.suffix](path)
        for path in sorted(set(folder.rglob("*")) - there)
        if path.suffix in read
    }


def _compared(command: str, before: dict[str, object], now: dict[str, object]) -> Compared:
    result = Compared(command, _count(before))
    said = before["said"]
    if isinstance(said, dict) and "exit code" in said:
        result.other.append(f"failed before: {said['error']}")
        return result
    for difference in compare(before, now):
        reason = next((why for name, place, why in KNOWN if _is(command, difference, name, place)), None)
        if reason is None:
            result.other.append(difference)
        else:
            result.known[reason] = result.known.get(reason, 0) + 1
    return result


def _is(command: str, difference: str, name: str, place: str) -> bool:
    return command.startswith(name) and re.search(place, difference) is not None


def _count(value: object) -> int:
    """How many numbers there are to compare."""
    if isinstance(value, dict):
        return sum(_count(own) for key, own in value.items() if not IGNORED.search(str(key)))
    if isinstance(value, list):
        return sum(map(_count, value))
    return int(isinstance(value, int | float) and not isinstance(value, bool))


def compare(before: object, now: object, name: str = "") -> Iterator[str]:
    """Where two results differ by more than rounding; names that are new are no difference."""
    before, now = _named(before), _named(now)
    if isinstance(before, dict) and isinstance(now, dict):
        for key in (key for key in before if not IGNORED.search(str(key))):
            yield from compare(before[key], now.get(key, "gone"), f"{name}.{key}")
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{name} has {len(now)} entries, had {len(before)}"
        for place, (one, other) in enumerate(zip(before, now, strict=False)):
            yield from compare(one, other, f"{name}[{place}]")
    elif not _same(before, now):
        yield f"{name} is {now!r:.60}, was {before!r:.60}"


def _named(value: object) -> object:
    """A list of things with names, by name: what is new among them is no difference."""
    if isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
        return {one["name"]: one for one in value}
    return value


def _same(before: object, now: object) -> bool:
    if isinstance(before, int | float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or before != before != now
    return before == now


def _write(page: Path, commit: str, results: list[Compared]) -> None:
    """Write the table; rows of commands that did not run this time are kept."""
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines() if " | " in line}
    rows |= {one.name: f"| {one.name} | {one.numbers:,} | {one.told()} |" for one in results}
    table = "\n".join(rows[name] for name in COMMANDS if name in rows)
    text = _PAGE.format(commit=commit, tolerance=TOLERANCE, table=table)
    page.write_text(text, encoding="utf-8")


_PAGE = """# Every command, before and after the rebuilding of the house

Made by `python scripts/compare_commands.py {commit} --write docs/results/commands.md`: each command was run
with the source of commit `{commit}` and with today's on the same small inputs, and the numbers of what it
printed and of the files it wrote were compared. Equal means to {tolerance:g}, relative or absolute; times,
versions, paths and words are left out. The methods are those whose numbers must not change: SLALOM's own
surrogate is another one since then and is measured in [Every scale](all-scales.md). A difference in bold is
one that nobody asked for.

| command | numbers | before and after |
|---|---|---|
{table}

`league` runs `evaluate` on named models and data sets for hours and is not run here.
"""


if __name__ == "__main__":
    sys.exit(main())
