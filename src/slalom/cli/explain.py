"""`slalom explain`: one text, one model, one explanation."""

from __future__ import annotations

import json as json_text
from typing import Any

import typer

from slalom.cli import options as o
from slalom.cli.given import read_given, text_source
from slalom.cli.output import check_json, check_paths, deliver
from slalom.cli.run import guarded, progress, still_libraries

_TAKEN = ("target", "method", "budget", "seed", "granularity", "every_class", "explain", "progress")
"""Arguments of an explanation that have a way of their own on the command line."""


def explain(
    text: o.Text = None,
    file: o.File = None,
    pair: o.Pair = None,
    side: o.Side = None,
    model: o.Model = None,
    device: o.Device = None,
    engine: o.Engine = None,
    engine_tolerance: o.EngineTolerance = None,
    target: o.Target = None,
    every_class: o.EveryClass = False,
    method: o.Method = "slalom",
    effort: o.Effort = None,
    budget: o.Budget = "auto",
    seed: o.Seed = 0,
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

        slalom explain --words --json < review.txt
    """
    check_json(json, every_token, html, save)
    if words and types:
        raise typer.BadParameter("--words and --types exclude each other")
    if side is not None and pair is None:
        raise typer.BadParameter("--side needs a second text: --pair TEXT2")
    method_options = _method_options(option or [], effort)
    source = text_source(text, file)
    with guarded(quiet):
        check_paths(html, save)
        given = read_given(source, text)
        still_libraries()
        with progress(quiet) as report:
            from slalom.api import Explainer
            from slalom.explainers import check_options

            check_options(method, method_options)  # a wrong name need not wait for the model to load
            explainer = Explainer(
                model,
                device=device,
                engine=engine.value if engine else None,
                engine_tolerance=engine_tolerance,
            )
            explanation = explainer(
                given if pair is None else (given, pair),
                target=target,
                method=method,
                budget=budget if budget == "auto" else int(budget),
                seed=seed,
                granularity="words" if words else "types" if types else "positions",
                every_class=every_class,
                explain=side.value if side else "both",
                progress=report,
                **method_options,
            )
        deliver(explanation, json=json, html=html, save=save, every_token=every_token, quiet=quiet)


def _method_options(given: list[str], effort: o.EffortName | None) -> dict[str, Any]:
    named: dict[str, Any] = {} if effort is None else {"effort": effort.value}
    for one in given:
        key, _, value = one.partition("=")
        if key in named:
            raise typer.BadParameter(f"the option {key!r} is given twice")
        if key in _TAKEN:
            raise typer.BadParameter(f"{key!r} is not an option of a method; see slalom explain --help")
        named[key] = _value(value)
    return named


def _value(given: str) -> Any:
    """Numbers, true, false and null as JSON has them; anything else is a string."""
    try:
        return json_text.loads(given)
    except ValueError:
        return given
