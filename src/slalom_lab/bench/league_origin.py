"""What made the rows of a cell: commands and commits, kept in the folder of each run, told on the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slalom.evaluate import store
from slalom.files import Record, commit, from_json, read_text, to_json, write_text
from slalom_lab.bench.league_cells import CELLS

MADE_BY = "made_by.json"
_TOLD = ("slalom-xai", "torch", "transformers")
"""Packages whose versions the page tells; league.json has all."""
_FOUND = ("bundled", "smollm2")
"""Models that nobody has to give."""
_UNKNOWN: Record = {"command": None, "commit": None}


def origin(command: str | None) -> Record:
    """What a row says of how it came about; None is what nobody knows."""
    return {"command": command, "commit": commit(Path(__file__))}


def note(run: Path, origins: Iterable[Record]) -> None:
    """Write into the folder of a run what works on it, beside what did before; the caller has its lock."""
    known = made_by([run] if (run / store.SETTINGS).exists() or (run / MADE_BY).exists() else [])
    new = [one for one in origins if one not in known]
    if new:
        write_text(run / MADE_BY, to_json({"made": [*known, *new]}) + "\n")


def made_by(runs: Iterable[Path]) -> list[Record]:
    """What made some runs, each once; a run that says nothing is one of unknown origin."""
    found: list[Record] = []
    for run in runs:
        path = run / MADE_BY
        told = from_json(read_text(path), repr(str(path)))["made"] if path.exists() else [_UNKNOWN]
        found += [one for one in told if one not in found]
    return found


def named_here(argument: str) -> str:
    """An argument of a command as others can use it: of a path from the root, its last part."""
    return re.sub(r"(^|[=,])(?:/|~|[A-Za-z]:[\\/])[^=,]*[\\/](?=[^\\/=,])", r"\1", argument)


def lines(cell: Mapping[str, Any]) -> list[str]:
    """What the page says of how a cell that was run came about: versions and commits, then commands."""
    made: Sequence[Record] = cell.get("made") or [_UNKNOWN]
    commits = _distinct(made, "commit")
    told = f"commit {', '.join(commits)}" if commits else "its commit was not kept"
    if commits and not all(one["commit"] for one in made):
        told += ", and others that were not kept"
    versions = [f"{name} {cell['versions'][name]}" for name in _TOLD if name in cell["versions"]]
    commands = _distinct(made, "command")
    head = f"Made with {', '.join(versions)} ({told})"
    if commands:
        return [f"{head} by", _block(commands)]
    anew = recipe(cell)
    return (
        [f"{head}. Its command was not kept; this one makes it anew:", _block([anew])]
        if anew
        else [f"{head}."]
    )


def recipe(cell: Mapping[str, Any]) -> str | None:
    """The command that makes a cell; None for a cell that the league does not have."""
    known = next((own for own in CELLS if own.name == cell["name"]), None)
    if known is None:
        return None
    found = known.model in _FOUND or ":" in known.model
    model = "" if found else f" -m {known.model}=DIR"
    theirs = ",".join(row["method"] for row in cell.get("rows", ()) if row.get("outside"))
    return f"slalom league --out league --cells {known.name}{model}" + (
        f" --methods {theirs}" if theirs else ""
    )


def _distinct(made: Sequence[Record], name: str) -> list[str]:
    return list(dict.fromkeys(one[name] for one in made if one[name]))


def _block(commands: Sequence[str]) -> str:
    return "\n".join(["```sh", *commands, "```"])
