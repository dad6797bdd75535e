"""Run every command at an older commit and now, with small inputs, and compare all numbers that come out.

    python scripts/compare_commands.py COMMIT

The older source is laid out beside the repository's (git worktree, in a temporary folder) and run by this
same Python. Numbers may differ by rounding; times and versions are left out. Exit code 1 where others differ.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = "The food was great but the service was awful, and the waiter never came back."
TEXTS = [TEXT, "A dull film with wooden acting.", "I laughed, I cried, and I would see it again."]
OTHERS = "occlusion,lime,kernel_shap,linear,gam,slalom_sgd,random"
"""Methods whose numbers are to stay; SLALOM's own are a matter of docs/results."""
TOLERANCE = 1e-5
IGNORED = re.compile(
    r"seconds|version|time|wall|created|when|commit|engine|machine|memory|path|granularity|^explain$|^side$"
)
"""Names of what may differ: how long, on what, and words that changed on purpose."""

COMMANDS = {
    "explain": ["explain", TEXT, "--method", "occlusion", "--json"],
    "explain types": ["explain", TEXT, "--method", "slalom_sgd", "--budget", "300", "--json"],
    "explain words": ["explain", TEXT, "--method", "lime", "--budget", "200", "--words", "--json"],
    "explain pair": [
        "explain",
        TEXT,
        "--pair",
        TEXTS[1],
        "--side",
        "second",
        "--method",
        "occlusion",
        "--json",
    ],
    "explain sentences": ["explain", TEXT, "--units", "sentences", "--method", "shapley_sampling", "--json"],
    "save": ["explain", TEXT, "--method", "occlusion", "--save", "saved.json", "--html", "report.html", "-q"],
    "show": ["show", "saved.json"],
    "compare": ["compare", TEXT, "--methods", OTHERS, "--budget", "200", "--json"],
    "methods": ["methods"],
    "evaluate": [
        *("evaluate", "--data", "texts.csv", "--out", "evaluation", "--methods", "occlusion,random"),
        *("--protocols", "deletion,removals", "--no-figures", "-q"),
    ],
    "explain-corpus": ["explain-corpus", "texts.csv", "--out", "corpus", "--method", "occlusion", "-q"],
    "summarize": ["summarize", "corpus", "--json"],
    "global": ["global", "texts.csv", "--json", "-q"],
    "reproduce": ["reproduce", "list"],
}
"""By name; they run in this order, in one folder, so that one may read what another wrote."""

OLDER = {"explain-corpus": ["explain-corpus", "texts.csv", "corpus", "--method", "occlusion", "-q"]}
"""What commands were called like before, where that has changed."""


def main() -> int:
    """Compare, print a line for each command, and say how it ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS))
    given = parser.parse_args()
    differs = False
    with tempfile.TemporaryDirectory() as folder, _source(given.commit, Path(folder) / "source") as older:
        places = {"before": older, "now": ROOT}
        for name in places:
            _prepare(Path(folder) / name)
        for command in given.only:
            words = {"before": OLDER.get(command, COMMANDS[command]), "now": COMMANDS[command]}
            said = {name: _run(words[name], root, Path(folder) / name) for name, root in places.items()}
            differences = list(compare(said["before"], said["now"]))
            differs = differs or bool(differences)
            print(f"{command}: {'the same' if not differences else '; '.join(differences[:5])}", flush=True)
        before, now = (_tables(Path(folder) / name) for name in places)
        differences = list(compare(before, now))
        differs = differs or bool(differences)
        print(f"files: {'the same' if not differences else '; '.join(differences[:5])}")
    return int(differs)


class _source:  # noqa: N801 - read as a function: with _source(commit, place)
    """The older source, for as long as it is needed."""

    def __init__(self, commit: str, place: Path):
        self.commit, self.place = commit, place

    def __enter__(self) -> Path:
        subprocess.run(
            ["git", "worktree", "add", "--detach", "-f", self.place, self.commit], cwd=ROOT, check=True
        )
        return self.place

    def __exit__(self, *_: object) -> None:
        subprocess.run(["git", "worktree", "remove", "--force", self.place], cwd=ROOT, check=True)


def _prepare(folder: Path) -> None:
    folder.mkdir()
    lines = [f'"{text}",{label}' for text, label in zip(TEXTS, (0, 0, 1), strict=True)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")


def _run(arguments: list[str], root: Path, folder: Path) -> object:
    """What a command prints, as JSON or as the numbers in it; its exit code and error where it failed."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    command = [sys.executable, "-W", "ignore", "-m", "slalom", *arguments]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"exit code": run.returncode, "error": run.stderr[-300:]}
    try:
        return json.loads(run.stdout)
    except ValueError:
        return _numbers(run.stdout)


def _numbers(text: str) -> list[float]:
    """All numbers of a text but those that are followed by a unit of time."""
    return [float(found) for found in re.findall(r"(?<![\w.])-?\d+\.\d+(?![\w.]*\s?m?s\b)", text)]


def _tables(folder: Path) -> dict[str, object]:
    """The Parquet files that the commands wrote, as rows."""
    import pyarrow.parquet as pq

    return {
        str(path.relative_to(folder)): pq.read_table(path).to_pylist()
        for path in sorted(folder.rglob("*.parquet"))
    }


def compare(before: object, now: object, name: str = "") -> Iterator[str]:
    """Where two results differ by more than rounding; names that are new are no difference."""
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


def _same(before: object, now: object) -> bool:
    if isinstance(before, int | float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or before != before != now
    return before == now


if __name__ == "__main__":
    sys.exit(main())
