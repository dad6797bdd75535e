"""The commands for one text and one model: explain, show, explain-answer, compare, methods."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    from slalom.explanation import Explanation

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

EveryClass = Annotated[
    bool, o.option(o.EXPLANATION, "--every-class", help="Explain every label, from the same queries.")
]
Refine = Annotated[
    bool,
    o.option(o.EXPLANATION, "--refine", help="Explain sentences first, then the words of those that matter."),
]
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


@grouped
def explain(
    text: arguments.TextGiven,
    model: arguments.ModelGiven,
    language: arguments.LanguageGiven,
    how: arguments.ExplainedBy,
    output: Output,
    every_class: EveryClass = False,
    refine: Refine = False,
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
