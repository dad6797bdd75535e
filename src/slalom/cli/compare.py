"""`slalom compare` and `slalom methods`: one text, one model, every method; and what methods there are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.output import check_paths, tell_written
from slalom.cli.run import grouped, guarded, progress, still_libraries

Methods = Annotated[
    str | None,
    o.option(
        o.EXPLANATION,
        "--methods",
        metavar="A,B,…",
        help="Names from `slalom methods`; by default all of them.",
    ),
]
Corpus = Annotated[
    str | None,
    o.option(
        o.EXPLANATION,
        "--corpus",
        metavar="SOURCE",
        help="Labelled texts for the methods that need them: a Parquet, CSV or JSON lines file with text "
        "and label, a name (imdb, yelp, …) or a hub id.",
    ),
]
Signed = Annotated[
    bool, o.option(o.OUTPUT, "--signed", help="Correlate the scores with their signs, not their sizes.")
]


@grouped
def compare(
    text: arguments.TextGiven,
    model: arguments.ModelGiven,
    language: arguments.LanguageGiven,
    how: arguments.Explained,
    methods: Methods = None,
    corpus: Corpus = None,
    signed: Signed = False,
    json: o.Json = False,
    html: o.Html = None,
    quiet: o.Quiet = False,
) -> None:
    """Explain a text by every method, side by side, and say how far their rankings agree.

    Examples:

        slalom compare "attention based explanations are popular but questionable"

        slalom compare -f review.txt -m ./my-model --methods slalom,lime,kernel_shap --html methods.html
    """
    text.check()
    chosen = arguments.names(methods)
    call: arguments.Call = how.call() | {"side": text.explained}
    asking = language.asking()
    with guarded(quiet):
        check_paths(html)
        given = text.read()
        still_libraries()
        with progress(quiet) as report:
            from slalom.compare import compare as run
            from slalom.explainers import load, names

            for name in chosen or ():
                load(name)  # a wrong name need not wait for the model to load
            explainer = arguments.explainer(model, asking)
            calls = [{**call, "method": name} for name in chosen or names()]
            if language.tell_cost(explainer, [given], calls, quiet=quiet):
                return
            comparison = run(explainer, given, chosen, data=corpus, progress=report, **call)
        from slalom.files import to_json

        if html is not None:
            comparison.to_html(html, signed=signed)
        if json:
            typer.echo(to_json(comparison.to_dict()))
        else:
            comparison.show(signed=signed)
        tell_written(quiet, html)


def methods(json: o.Json = False) -> None:
    """List the methods: their names, what they need from a model, and what they do.

    Example:

        slalom methods --json
    """
    with guarded():
        from slalom.explainers import methods as known

        found = known().values()
        if json:
            import json as json_text

            typer.echo(json_text.dumps([asdict(method) for method in found], indent=1))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("name", "needs", "summary"):
            table.add_column(name)
        for method in found:
            table.add_row(method.name, method.needs, method.summary)
        Console(markup=False).print(table)
