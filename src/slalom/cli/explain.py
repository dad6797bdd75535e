"""`slalom explain`, `slalom show` and `slalom explain-answer`: one text, one model, one explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.output import Output, check_paths, tell_written
from slalom.cli.run import grouped, guarded, progress, still_libraries

Question = Annotated[str, typer.Option("--question", metavar="TEXT", help="What the model was asked.")]
Sources = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="A file for each source; a single one is cut into --units."),
]
Answer = Annotated[
    str | None,
    typer.Option("--answer", metavar="TEXT", help="What it answered; by default it answers now."),
]
Parts = Annotated[
    str | None,
    typer.Option("--parts", metavar="NAME", help="Explain parts of the answer, too: sentences, words."),
]
SourceUnits = Annotated[
    str,
    typer.Option(
        "--units", metavar="NAME", help="The sources in a single file: sentences, paragraphs, lines."
    ),
]
Generator = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A causal language model: directory or hub id.")
]
Saved = Annotated[Path, typer.Argument(help="A file written by `slalom explain --out FILE.json`.")]
OtherTarget = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", metavar="LABEL", help="Another label, if it was explained with --every-class."
    ),
]


@grouped
def explain(
    text: arguments.TextGiven,
    model: arguments.ModelGiven,
    language: arguments.LanguageGiven,
    how: arguments.ExplainedBy,
    output: Output,
    every_class: o.EveryClass = False,
    refine: o.Refine = False,
) -> None:
    """Explain what a text classifier saw in a text.

    Examples:

        slalom explain "the food was great but the service was awful"

        slalom explain -f review.txt -m ./my-model --target positive --html report.html

        slalom explain --units sentences --format markdown < review.txt
    """
    output.check()
    text.check()
    call: arguments.Call = how.call() | {
        "refine": refine,
        "every_class": every_class,
        "side": text.explained,
    }
    options, asking = how.options, language.asking()
    with guarded(output.quiet):
        output.check_paths()
        given = text.read()
        still_libraries()
        with progress(output.quiet) as report:
            from slalom.explainers import check_options

            check_options(how.method, options)  # a wrong name need not wait for the model to load
            explainer = arguments.explainer(model, asking)
            if language.tell_cost(explainer, [given], [call | options], quiet=output.quiet):
                return
            explanation = explainer(given, progress=report, **call, **options)
        output.deliver(explanation)


@grouped
def show(file: Saved, output: Output, target: OtherTarget = None) -> None:
    """Show a saved explanation again, without its model.

    Examples:

        slalom show review.json --all

        slalom show review.json --html report.html
    """
    output.check()
    with guarded(output.quiet):
        output.check_paths()
        from slalom.explanation import Explanation

        explanation = Explanation.load(file)
        output.deliver(explanation if target is None else explanation.of(target))


def explain_answer(
    sources: Sources,
    question: Question,
    model: Generator,
    answer: Answer = None,
    parts: Parts = None,
    units: SourceUnits = "sentences",
    device: o.Device = None,
    method: o.Method = "slalom",
    effort: o.Effort = None,
    budget: o.Budget = "auto",
    seed: o.Seed = 0,
    option: o.Options = None,
    json: o.Json = False,
    html: o.Html = None,
    quiet: o.Quiet = False,
) -> None:
    """Explain a language model's answer by the sources it was given.

    Examples:

        slalom explain-answer menu.txt reviews.txt -m ./my-llm --question "Anything for vegetarians?"

        slalom explain-answer report.txt -m ./my-llm --question "Who paid?" --parts sentences --html a.html
    """
    cut = arguments.units(units)
    of_answer = None if parts is None else arguments.units(parts)
    method_options = arguments.method_options(option, effort)
    with guarded(quiet):
        check_paths(html)
        from slalom.files import read_text, to_json

        texts = [read_text(path) for path in sources]
        still_libraries()
        with progress(quiet) as report:
            from slalom.sources import explain_answer as run

            found = run(
                model,
                question,
                texts if len(texts) > 1 else texts[0],
                answer,
                units=cut,
                parts=of_answer,
                device=device,
                method=method,
                budget=arguments.queries(budget),
                seed=seed,
                progress=report,
                **method_options,
            )
        if html is not None:
            found.to_html(html)
        typer.echo(to_json(found.to_dict()) if json else str(found))
        tell_written(quiet, html)
