"""What a command prints and writes: an explanation in any format, a report about a corpus; files told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slalom.cli import options as o
from slalom.cli.run import say

if TYPE_CHECKING:
    from slalom.explanation import Explanation
    from slalom.view.tables import Report


@dataclass(frozen=True)
class Output:
    """How an explanation is printed, and the files it is written to."""

    format: o.Format = None
    json: o.Json = False
    out: o.Out = None
    html: o.Html = None
    every_token: o.EveryToken = False
    quiet: o.Quiet = False

    def check(self) -> None:
        """Refuse outputs that contradict each other, or do not exist, before any work is done."""
        from slalom import view
        from slalom.errors import InputError

        if self.json and self.format not in (None, "json"):
            raise typer.BadParameter("--json is --format json; leave one of them out")
        if self.every_token and (self.json or self.format not in (None, "terminal")):
            raise typer.BadParameter(f"--{self.format or 'json'} holds every token anyway; leave --all out")
        check_distinct(out=self.out, html=self.html)
        try:
            view.load(self.format or "terminal")
        except InputError as error:
            raise typer.BadParameter(str(error), param_hint="--format") from error

    def check_paths(self) -> None:
        """Refuse paths that cannot be written."""
        check_paths(self.html, self.out)

    def deliver(self, explanation: Explanation) -> None:
        """Write the files that were asked for and print the explanation."""
        from slalom import view

        if self.out is not None:
            view.write(explanation, self.out)
        if self.html is not None:
            view.write(explanation, self.html, "html")
        name = "json" if self.json else self.format or "terminal"
        if name == "terminal":
            explanation.show(every_token=self.every_token)
        else:
            typer.echo(view.load(name)(explanation).rstrip("\n"))
        tell_written(self.quiet, self.out, self.html)


def check_distinct(**files: Path | None) -> None:
    """Refuse to write two things to one file."""
    named = {name: os.path.realpath(path) for name, path in files.items() if path is not None}
    if len(set(named.values())) < len(named):
        raise typer.BadParameter(f"two of {', '.join(f'--{name}' for name in named)} name the same file")


def check_paths(*paths: Path | None) -> None:
    """Refuse paths that cannot be written, before any work is done for them."""
    from slalom.files import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def tell_written(quiet: bool, *paths: Path | None) -> None:
    """Say which files were written."""
    for path in paths:
        if path is not None and not quiet:
            say(f"wrote {path}")


@dataclass(frozen=True)
class ReportOutput:
    """How a report about a corpus is printed, and the files it is written to."""

    top: o.Top = 20
    json: o.Json = False
    html: o.Html = None
    csv: o.Csv = None
    quiet: o.Quiet = False

    def deliver(self, report: Report, document: dict[str, object] | None) -> None:
        """Write the files that were asked for; print the document, or else the report."""
        from slalom.files import to_json, write_text

        if self.html is not None:
            from slalom.view.tables_html import render

            write_text(self.html, render(report))
        if self.csv is not None:
            from slalom.view.tables import to_csv

            write_text(self.csv, to_csv(report.tables))
        if document is not None:
            typer.echo(to_json(document))
        else:
            from slalom.view.tables_terminal import show

            show(report, self.top)
        tell_written(self.quiet, self.html, self.csv)
