"""`slalom explain-answer`: which source made a language model say that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import arguments
from slalom.cli import options as o
from slalom.cli.arguments import check_json, check_paths
from slalom.cli.run import guarded, progress, say, still_libraries

Question = Annotated[str, typer.Option("--question", metavar="TEXT", help="What the model was asked.")]
Sources = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="A file for each source; a single one is cut into --units."),
]
Answer = Annotated[
    str | None,
    typer.Option("--answer", "-a", metavar="TEXT", help="What it answered; by default it answers now."),
]
Parts = Annotated[
    str | None,
    typer.Option("--parts", metavar="NAME", help="Explain parts of the answer, too: sentences, words."),
]
Units = Annotated[
    str,
    typer.Option(
        "--units", metavar="NAME", help="The sources in a single file: sentences, paragraphs, lines."
    ),
]
Name = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A causal language model: directory or hub id.")
]


def explain_answer(
    sources: Sources,
    question: Question,
    model: Name,
    answer: Answer = None,
    parts: Parts = None,
    units: Units = "sentences",
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
    check_json(json, False, html)
    cut = arguments.units(units, tokens=False)
    of_answer = None if parts is None else arguments.units(parts, tokens=False)
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
        if html is not None and not quiet:
            say(f"wrote {html}")
