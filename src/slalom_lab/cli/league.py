"""`slalom league`: the league table of explanation methods."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.run import guarded, say, still_libraries
from slalom.files import Record, from_json, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from slalom import Explainer
    from slalom_lab.bench.league_cells import LeagueCell

CELLS = "What is run"

Out = Annotated[Path, o.option(o.OUTPUT, "--out", metavar="DIR", help="Where results lie and runs continue.")]
Page = Annotated[
    Path | None, o.option(o.OUTPUT, "--page", metavar="FILE", help="Write the page and its figures here.")
]
Cells = Annotated[
    str | None, o.option(CELLS, "--cells", metavar="A,B,…", help="Only these cells; by default all.")
]
Models = Annotated[
    list[str] | None,
    o.option(CELLS, "--model", "-m", metavar="NAME=DIR", help="The model of a cell, e.g. encoder=./encoder."),
]
Methods = Annotated[
    str | None,
    o.option(
        CELLS, "--methods", metavar="A,B,…", help="Further methods: names, module:function, files of scores."
    ),
]
Only = Annotated[
    str | None,
    o.option(CELLS, "--only", metavar="A,B,…", help="Run these methods alone: lime, or lime:budget=300."),
]
Again = Annotated[
    str | None,
    o.option(
        CELLS,
        "--again",
        metavar="A,B,…",
        help="Forget the rows of these methods and run them anew; leave it out to continue.",
    ),
]
From = Annotated[
    Path | None,
    o.option(
        CELLS, "--from", metavar="FILE", help="An earlier league.json: its cells stay where DIR has none."
    ),
]
Limit = Annotated[
    int | None, o.option(CELLS, "--limit", "-n", min=1, help="Documents of a cell; 100 by default.")
]


def league(
    out: Out,
    page: Page = None,
    cells: Cells = None,
    model: Models = None,
    methods: Methods = None,
    only: Only = None,
    again: Again = None,
    from_: From = None,
    limit: Limit = None,
    data_dir: o.DataDir = None,
    seed: o.Seed = 0,
    quiet: o.Quiet = False,
) -> None:
    """Run every method on every model and data set of the league, or continue; write table and page.

    It takes hours; interrupted or killed, the same command goes on. Cells whose model or data set is not
    there are said to be missing. `-m smollm2=DIR` is a language model that is asked with a prompt.

    Examples:

        slalom league --out league -m encoder=./encoder -m gpt2=./gpt2 --page docs/league.md

        slalom league --out league --cells bundled-sst2 --methods my_package:my_method

        slalom league --out league --again slalom --from docs/results/league.json --page docs/league.md
    """
    with guarded(quiet):
        still_libraries()
        from slalom.errors import InputError
        from slalom_lab.bench.league import league as run
        from slalom_lab.bench.league_cells import CELLS as KNOWN
        from slalom_lab.bench.league_origin import named_here

        wanted = arguments.names(cells)
        unknown = [name for name in wanted or () if name not in {cell.name for cell in KNOWN}]
        if unknown:
            have = ", ".join(cell.name for cell in KNOWN)
            raise InputError(f"there is no cell {unknown[0]!r}; the cells are: {have}")
        chosen = [cell for cell in KNOWN if wanted is None or cell.name in wanted]
        named = {"only": arguments.names(only), "again": arguments.names(again) or ()}
        further = arguments.names(methods) or ()
        _known(*(named["only"] or ()), *named["again"], methods=further)
        command = f"slalom {shlex.join(map(named_here, sys.argv[1:]))}"
        found = run(
            out,
            chosen,
            models=_models(model or ()),
            methods=further,
            **named,
            earlier=None if from_ is None else from_json(read_text(from_), repr(str(from_))),
            limit=limit,
            seed=seed,
            data_dir=data_dir,
            open_model=_opened,
            progress=None if quiet else _told,
            command=command,
        )
        _deliver(found, out, page, command, quiet)


def _models(entries: Sequence[str]) -> dict[str, str]:
    """Directories by the names that cells have for their models."""
    from slalom.errors import InputError
    from slalom_lab.bench.league_cells import given_models

    found: dict[str, str] = {}
    for entry in entries:
        name, _, folder = entry.partition("=")
        if not name or not folder:
            raise InputError("--model takes NAME=DIR, as encoder=./encoder")
        if name not in given_models():
            have = ", ".join(given_models())
            raise InputError(f"no cell has a model {name!r}; those that can be given are: {have}")
        found[name] = folder
    return found


def _known(*names: str, methods: Sequence[str]) -> None:
    """Refuse what names none of the league's methods."""
    from slalom.errors import InputError
    from slalom_lab.bench.league import METHODS, among

    for name in names:
        if not any(among(method, [name]) for method in (*METHODS, *methods)):
            have = ", ".join(dict.fromkeys(method.partition(":")[0] for method in METHODS))
            raise InputError(f"the league has no method {name!r}; it has: {have}, and those of --methods")


def _opened(cell: LeagueCell, models: Mapping[str, str]) -> Explainer:
    from slalom_lab.bench.league_cells import opened

    if cell.model != "smollm2" or cell.model in models:
        return opened(cell, models)
    from slalom import Explainer
    from slalom_lab.experiments._shared.smollm import prompted

    return Explainer(prompted(), labels=["negative", "positive"])


def _told(cell: str) -> Callable[[int, int, str], None]:
    """A line for every tenth of a cell, with the time left."""
    import time

    from slalom.evaluate.table import duration

    start, told = time.monotonic(), [-1, 0]

    def report(done: int, total: int, what: str) -> None:  # noqa: ARG001
        if told[0] < 0:
            told[1] = done
        tenth = 10 * done // max(total, 1)
        if tenth > told[0]:
            told[0] = tenth
            spent, steps = time.monotonic() - start, done - told[1]
            left = f", about {duration(spent / steps * (total - done))} left" if steps else ""
            say(f"{cell}: {done} of {total} explanations{left}")

    return report


def _deliver(found: Record, out: Path, page: Path | None, command: str, quiet: bool) -> None:
    from slalom_lab.bench.league_page import sentences, write_page

    run = [cell for cell in found["cells"] if cell.get("rows")]
    for said in sentences(run):
        typer.echo(said)
    for cell in found["cells"]:
        if not cell.get("rows"):
            typer.echo(f"{cell['title']}: not run: {cell['not_run']}")
    if page is not None:
        write_page(found, page, command=command)
    if not quiet:
        say(f"wrote {out / 'league.json'}" + (f" and {page}" if page else ""))
