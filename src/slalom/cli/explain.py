"""`slalom explain`: one text, one model, one explanation."""

from __future__ import annotations

import typer

from slalom.cli import arguments, language
from slalom.cli import options as o
from slalom.cli.arguments import check_json, check_paths, deliver, read_given, text_source
from slalom.cli.run import guarded, progress, still_libraries


def explain(
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
    every_class: o.EveryClass = False,
    method: o.Method = "slalom",
    effort: o.Effort = None,
    budget: o.Budget = "auto",
    seed: o.Seed = 0,
    units: o.Units = None,
    tokens: o.Tokens = False,
    refine: o.Refine = False,
    long: o.Long = o.LongName.cut,
    words: o.Words = False,
    types: o.Types = False,
    option: o.Options = None,
    json: o.Json = False,
    html: o.Html = None,
    save: o.Save = None,
    every_token: o.EveryToken = False,
    quiet: o.Quiet = False,
) -> None:
    """Explain what a text classifier saw in a text.

    Examples:

        slalom explain "the food was great but the service was awful"

        slalom explain -f review.txt -m ./my-model --target positive --html report.html

        slalom explain --units sentences --json < review.txt
    """
    check_json(json, every_token, html, save)
    granularity = arguments.granularity(words, types)
    chosen = arguments.units(units, tokens)
    if side is not None and pair is None:
        raise typer.BadParameter("--side needs a second text: --pair TEXT2")
    method_options = arguments.method_options(option, effort)
    source = text_source(text, file)
    asking = language.asking(prompt_file, labels, endpoint, llm, endpoint_option, max_requests)
    with guarded(quiet):
        check_paths(html, save)
        given = read_given(source, text)
        still_libraries()
        with progress(quiet) as report:
            from slalom.explainers import check_options

            check_options(method, method_options)  # a wrong name need not wait for the model to load
            explainer = arguments.explainer(model, device, engine, engine_tolerance, asking)
            call = {
                "target": target,
                "method": method,
                "budget": arguments.queries(budget),
                "seed": seed,
                "granularity": granularity,
                "units": chosen,
                "refine": refine,
                "long": long.value,
                "every_class": every_class,
                "side": side.value if side else "both",
                **method_options,
            }
            texts = given if pair is None else (given, pair)
            if language.tell_cost(explainer, [texts], [call], only=estimate, quiet=quiet):
                return
            explanation = explainer(texts, progress=report, **call)
        deliver(explanation, json=json, html=html, save=save, every_token=every_token, quiet=quiet)
