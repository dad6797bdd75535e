"""The command line. A command parses, calls and prints; it knows nothing that the library does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from slalom.cli.audit import global_, summarize
from slalom.cli.evaluate import evaluate
from slalom.cli.explain import compare, explain, explain_answer, methods, show
from slalom.cli.explain_corpus import explain_corpus
from slalom.cli.run import ABOUT, INTERRUPTED, Command
from slalom.cli.serve import serve


def _lab(name: str) -> Callable[..., None]:
    """A command of the lab, by name: nothing of the library imports what proves it."""
    return getattr(import_module(f"slalom_lab.cli.{name}"), name)


app = typer.Typer(
    name="slalom",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command, epilog=ABOUT)(explain)
app.command(cls=Command, epilog=ABOUT)(compare)
app.command(cls=Command, epilog=ABOUT)(_lab("bench"))
app.command(cls=Command, epilog=ABOUT)(evaluate)
app.command(cls=Command, epilog=ABOUT)(explain_answer)
app.command(cls=Command, epilog=ABOUT)(explain_corpus)
app.command("global", cls=Command, epilog=ABOUT)(global_)
app.command(cls=Command, epilog=ABOUT)(_lab("league"))
app.command(cls=Command, epilog=ABOUT)(methods)
app.command(cls=Command, epilog=ABOUT)(_lab("reproduce"))
app.command(cls=Command, epilog=ABOUT)(serve)
app.command(cls=Command, epilog=ABOUT)(show)
app.command(cls=Command, epilog=ABOUT)(summarize)
app.command(cls=Command, epilog=ABOUT)(_lab("train"))


def _version(wanted: bool) -> None:
    if wanted:
        from slalom import __version__

        typer.echo(f"slalom {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Explain transformer text classifiers: every token gets a value and an importance.

    Exit codes: 0 fine, 1 an error (one line on stderr), 2 wrong usage.
    """


def main() -> None:
    """The `slalom` command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a terminal that lacks a character shows "?" rather than a traceback
            reconfigure(errors="replace")
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
