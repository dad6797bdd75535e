"""`slalom summarize` and `slalom global`: what a corpus says of a model as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.run import (
    check_distinct,
    check_paths,
    grouped,
    guarded,
    progress,
    still_libraries,
    tell_written,
)

if TYPE_CHECKING:
    from slalom.view.tables import Report

FEWEST = 20
"""Excerpts of a global fit."""


class ByName(StrEnum):
    target = "target"
    class_ = "class"


Explained = Annotated[
    str, typer.Argument(metavar="FOLDER", help="What `slalom explain-corpus` wrote; any fsspec address.")
]
By = Annotated[
    ByName, typer.Option("--by", help="A table for each explained label, or for each predicted class.")
]
Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="A corpus as for `slalom explain-corpus`, or a vocabulary: one word in each row.",
        show_default=False,
    ),
]


def _excerpts(given: str) -> str:
    if o.check_budget(given) != "auto" and int(given) < FEWEST:
        raise typer.BadParameter(f"it is 'auto' or a whole number of at least {FEWEST}, not {given}")
    return given


Excerpts = Annotated[
    str,
    o.option(
        o.EXPLANATION,
        "--budget",
        metavar="N|auto",
        callback=_excerpts,
        help="How many excerpts to ask about; auto, the default, is 25 for each token type.",
    ),
]
Surrogate = Annotated[
    Path | None, o.option(o.OUTPUT, "--out", metavar="FILE", help="Save the fitted surrogate as JSON.")
]


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
            from slalom.view.csv import to_csv

            write_text(self.csv, to_csv(report.tables))
        if document is not None:
            typer.echo(to_json(document))
        else:
            from slalom.view.tables import show

            show(report, self.top)
        tell_written(self.quiet, self.html, self.csv)


@grouped
def summarize(
    folder: Explained, output: ReportOutput, by: By = ByName.target, min_count: o.MinCount = None
) -> None:
    """Sum up an explained corpus: the tokens that carry value and importance, and where not to trust it.

    Examples:

        slalom summarize explained/ --top 30

        slalom summarize explained/ --by class --html audit.html --csv tokens.csv
    """
    check_distinct(html=output.html, csv=output.csv)
    with guarded(output.quiet):
        check_paths(output.html, output.csv)
        from slalom.audit import summarize as run
        from slalom.audit import to_record
        from slalom.audit.report import summary_report

        examples = output.html is not None
        summary = run(folder, by=by.value, min_count=min_count, top=output.top, examples=examples)
        output.deliver(summary_report(summary), to_record(summary) if output.json else None)


@grouped
def global_(
    source: Input,
    output: ReportOutput,
    text: o.CorpusText = None,
    split: o.CorpusSplit = None,
    limit: o.CorpusLimit = None,
    model: o.Model = None,
    device: o.Device = None,
    target: o.Target = None,
    budget: Excerpts = "auto",
    min_count: o.MinCount = None,
    seed: o.Seed = 0,
    out: Surrogate = None,
) -> None:
    """Fit one surrogate for a model over a whole corpus: every token type gets a value and an importance.

    Examples:

        slalom global reviews.parquet --html model.html

        slalom global reviews.csv --text review -m ./my-model --budget 100000 --out global.json
    """
    check_distinct(html=output.html, csv=output.csv, out=out)
    with guarded(output.quiet):
        check_paths(output.html, output.csv, out)
        still_libraries()
        with progress(output.quiet) as report:
            from slalom.api import Explainer
            from slalom.audit.global_slalom import fit_global
            from slalom.audit.report import global_report
            from slalom.corpus.source import texts_of

            texts = partial(texts_of, source, text, split, limit)
            fitted = fit_global(
                Explainer(model, device=device),
                texts(),
                queries=arguments.queries(budget),
                seed=seed,
                min_count="auto" if min_count is None else min_count,
                target=target,
                progress=report,
            )
        if out is not None:
            fitted.save(out)
        document = fitted.to_dict() if output.json else None
        output.deliver(global_report(fitted, texts=None if output.html is None else texts), document)
        tell_written(output.quiet, out)
