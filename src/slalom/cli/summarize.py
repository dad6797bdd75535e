"""`slalom summarize`: what an explained corpus says as a whole."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom.cli import options as o
from slalom.cli.arguments import check_paths
from slalom.cli.run import guarded, say

if TYPE_CHECKING:
    from slalom.view.tables import Report


class ByName(StrEnum):
    target = "target"
    class_ = "class"


MinCount = Annotated[
    int | None,
    typer.Option(
        "--min-count",
        min=1,
        metavar="N",
        show_default=False,
        help="Leave out tokens in fewer documents; by default 1 to 20, by the size of the corpus.",
    ),
]
Top = Annotated[int, typer.Option("--top", min=1, metavar="K", help="Rows of each table in the terminal.")]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write every row of every table.", show_default=False),
]


def summarize(
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="What `slalom explain-corpus` wrote; any fsspec address.")
    ],
    by: Annotated[
        ByName, typer.Option("--by", help="A table for each explained label, or for each predicted class.")
    ] = ByName.target,
    min_count: MinCount = None,
    top: Top = 20,
    json: o.Json = False,
    html: o.Html = None,
    csv: Csv = None,
    quiet: o.Quiet = False,
) -> None:
    """Sum up an explained corpus: the tokens that carry value and importance, and where not to trust it.

    Examples:

        slalom summarize explained/ --top 30

        slalom summarize explained/ --by class --html audit.html --csv tokens.csv
    """
    check_files(html, csv)
    with guarded(quiet):
        check_paths(html, csv)
        from slalom.audit.report import summary_report
        from slalom.audit.summary import summarize as run
        from slalom.audit.summary import to_record

        summary = run(output, by=by.value, min_count=min_count, top=top, examples=html is not None)
        deliver_report(
            summary_report(summary),
            to_record(summary) if json else None,
            top=top,
            html=html,
            csv=csv,
            quiet=quiet,
        )


def check_files(*files: Path | None) -> None:
    """Refuse to write two things to one file."""
    paths = [path.resolve() for path in files if path is not None]
    if len(set(paths)) < len(paths):
        raise typer.BadParameter("two of the files to write are the same")


def deliver_report(
    report: Report,
    document: dict[str, Any] | None,
    *,
    top: int,
    html: Path | None,
    csv: Path | None,
    quiet: bool,
) -> None:
    """Write the files that were asked for; print the document, or else the report."""
    from slalom.files import to_json, write_text

    if html is not None:
        from slalom.view.tables_html import render

        write_text(html, render(report))
    if csv is not None:
        from slalom.view.tables import to_csv

        write_text(csv, to_csv(report.tables))
    if document is not None:
        typer.echo(to_json(document))
    else:
        from slalom.view.tables_terminal import show

        show(report, top)
    for path in (html, csv):
        if path is not None and not quiet:
            say(f"wrote {path}")
