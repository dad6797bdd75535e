"""`slalom summarize` and `slalom global`: what a corpus says of a model as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.output import ReportOutput, check_distinct, check_paths, tell_written
from slalom.cli.run import grouped, guarded, progress, still_libraries

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
        from slalom.audit.report import summary_report
        from slalom.audit.summary import summarize as run
        from slalom.audit.summary import to_record

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

            texts = partial(_texts, source, text, split, limit)
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


def _texts(source: str, text: str | None, split: str | None, limit: int | None) -> Iterator[str]:
    """The texts of a corpus, read while they are used; rows that hold none are left out."""
    from itertools import islice

    from slalom.corpus.source import Columns, open_source

    documents = islice(open_source(source, Columns(text, None, split)).documents(), limit)
    return (one.text.decode("utf-8", "replace") for one in documents if one.text is not None)
