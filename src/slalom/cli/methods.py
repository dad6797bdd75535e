"""`slalom methods`: what there is to explain with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from slalom.cli.run import guarded


def methods(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
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
