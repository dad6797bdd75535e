"""`slalom show`: look at a saved explanation again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom.cli import options as o
from slalom.cli.arguments import check_json, check_paths, deliver
from slalom.cli.run import guarded


def show(
    file: Annotated[Path, typer.Argument(help="A file written by `slalom explain --save`.")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="LABEL", help="Another label, if it was explained with --every-class."
        ),
    ] = None,
    json: o.Json = False,
    html: o.Html = None,
    every_token: o.EveryToken = False,
    quiet: o.Quiet = False,
) -> None:
    """Show a saved explanation again, without its model.

    Examples:

        slalom show review.json --all

        slalom show review.json --html report.html
    """
    check_json(json, every_token)
    with guarded(quiet):
        check_paths(html)
        from slalom.explanation import Explanation

        explanation = Explanation.load(file)
        chosen = explanation if target is None else explanation.of(target)
        deliver(chosen, json=json, html=html, every_token=every_token, quiet=quiet)
