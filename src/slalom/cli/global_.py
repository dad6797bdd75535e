"""`slalom global`: one surrogate for a model over a whole corpus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import options as o
from slalom.cli.arguments import check_paths
from slalom.cli.run import guarded, progress, say, still_libraries
from slalom.cli.summarize import Csv, Top, check_files, deliver_report

Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="A corpus as for `slalom explain-corpus`, or a vocabulary: one word in each row.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    o.option(o.EXPLANATION, "--target", "-t", metavar="LABEL", help="For models of independent labels."),
]
Queries = Annotated[
    int | None,
    o.option(
        o.EXPLANATION,
        "--budget",
        min=20,
        metavar="N",
        help="How many excerpts to ask about; 25 for each token type by default.",
    ),
]
MinCount = Annotated[
    int | None,
    o.option(
        o.EXPLANATION,
        "--min-count",
        min=1,
        metavar="N",
        help="Tokens with fewer copies share one score and are not shown; by default 1 to 20, by the size "
        "of the corpus.",
    ),
]
Save = Annotated[
    Path | None, o.option(o.OUTPUT, "--save", metavar="FILE", help="Save the fitted surrogate as JSON.")
]


def global_(
    source: Input,
    text: o.CorpusText = None,
    split: o.CorpusSplit = None,
    limit: o.CorpusLimit = None,
    model: o.Model = None,
    device: o.Device = None,
    target: Target = None,
    queries: Queries = None,
    min_count: MinCount = None,
    seed: o.Seed = 0,
    top: Top = 20,
    json: o.Json = False,
    html: o.Html = None,
    csv: Csv = None,
    save: Save = None,
    quiet: o.Quiet = False,
) -> None:
    """Fit one surrogate for a model over a whole corpus: every token type gets a value and an importance.

    Examples:

        slalom global reviews.parquet --html model.html

        slalom global reviews.csv --text review -m ./my-model --budget 100000 --save global.json
    """
    check_files(html, csv, save)
    with guarded(quiet):
        check_paths(html, csv, save)
        still_libraries()
        with progress(quiet) as report:
            from slalom.api import Explainer
            from slalom.audit.global_slalom import fit_global
            from slalom.audit.report import global_report as view

            texts = _texts(source, text, split, limit)
            fitted = fit_global(
                Explainer(model, device=device),
                texts,
                queries="auto" if queries is None else queries,
                seed=seed,
                min_count="auto" if min_count is None else min_count,
                target=target,
                progress=report,
            )
        if save is not None:
            fitted.save(save)
        document = fitted.to_dict() if json else None
        again = None if html is None else partial(_texts, source, text, split, limit)
        deliver_report(view(fitted, texts=again), document, top=top, html=html, csv=csv, quiet=quiet)
        if save is not None and not quiet:
            say(f"wrote {save}")


def _texts(source: str, text: str | None, split: str | None, limit: int | None) -> Iterator[str]:
    """The texts of a corpus, read while they are used; rows that hold none are left out."""
    from itertools import islice

    from slalom.corpus.source import Columns, open_source

    documents = islice(open_source(source, Columns(text, None, split)).documents(), limit)
    return (one.text.decode("utf-8", "replace") for one in documents if one.text is not None)
