"""`slalom compare`: one text, one model, every method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom.cli import arguments, language
from slalom.cli import options as o
from slalom.cli.arguments import check_json, check_paths, read_given, text_source
from slalom.cli.run import guarded, progress, say, still_libraries

if TYPE_CHECKING:
    from slalom.compare import Compared


Methods = Annotated[
    str | None,
    o.option(
        o.EXPLANATION,
        "--methods",
        metavar="A,B,…",
        help="Names from `slalom methods`; by default all of them.",
    ),
]
Labelled = Annotated[
    Path | None,
    o.option(
        o.EXPLANATION,
        "--data",
        metavar="FILE",
        help="Labelled texts for the methods that need them: a Parquet, CSV or JSON lines file with text "
        "and label, a name (imdb, yelp, …) or a hub id.",
    ),
]
Signed = Annotated[
    bool, o.option(o.OUTPUT, "--signed", help="Correlate the scores with their signs, not their sizes.")
]


def compare(
    text: o.Text = None,
    file: o.File = None,
    pair: o.Pair = None,
    side: o.Side = None,
    model: o.Model = None,
    device: o.Device = None,
    engine: o.Engine = None,
    engine_tolerance: o.EngineTolerance = None,
    prompt_file: language.PromptFile = None,
    labels: language.Labels = None,
    endpoint: language.EndpointUrl = None,
    llm: language.Llm = None,
    endpoint_option: language.EndpointOptions = None,
    max_requests: language.MaxRequests = None,
    estimate: language.Estimate = False,
    target: o.Target = None,
    methods: Methods = None,
    data: Labelled = None,
    budget: o.Budget = "auto",
    seed: o.Seed = 0,
    units: o.Units = None,
    tokens: o.Tokens = False,
    words: o.Words = False,
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
    check_json(json, False, html)
    if side is not None and pair is None:
        raise typer.BadParameter("--side needs a second text: --pair TEXT2")
    chosen = arguments.names(methods)
    source = text_source(text, file)
    asking = language.asking(prompt_file, labels, endpoint, llm, endpoint_option, max_requests)
    with guarded(quiet):
        check_paths(html)
        given = read_given(source, text)
        still_libraries()
        with progress(quiet) as report:
            from slalom.compare import compare as run
            from slalom.explainers import load, names

            for name in chosen or ():
                load(name)  # a wrong name need not wait for the model to load
            explainer = arguments.explainer(model, device, engine, engine_tolerance, asking)
            call = {
                "target": target,
                "budget": arguments.queries(budget),
                "seed": seed,
                "granularity": arguments.granularity(words),
                "units": arguments.units(units, tokens),
                "side": side.value if side else "both",
            }
            texts = given if pair is None else (given, pair)
            calls = [{**call, "method": name} for name in chosen or names()]
            if language.tell_cost(explainer, [texts], calls, only=estimate, quiet=quiet):
                return
            comparison = run(explainer, texts, chosen, data=data, progress=report, **call)
        _deliver(comparison, json, html, signed, quiet)


def _deliver(comparison: Compared, json: bool, html: Path | None, signed: bool, quiet: bool) -> None:
    from slalom.files import to_json, write_text
    from slalom.view.compare import show
    from slalom.view.compare_html import render

    if html is not None:
        write_text(html, render(comparison, signed=signed))
    if json:
        typer.echo(to_json(comparison.to_dict()))
    else:
        show(comparison, signed=signed)
    if html is not None and not quiet:
        say(f"wrote {html}")
