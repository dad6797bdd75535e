"""What every command shares: errors as one line, warnings as one line, progress that keeps out of the way.

Options that have another name now: the old one is still taken, and told.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TextIO

import typer

from slalom.errors import SlalomError, SlalomWarning

if TYPE_CHECKING:
    from rich.console import Console


INTERRUPTED = 130
"""The shell's own code for Ctrl-C."""


@contextmanager
def guarded(quiet: bool = False) -> Iterator[None]:
    """Inside, an error ends the program with one sentence on stderr; SLALOM_DEBUG=1 shows its origin."""
    with warnings.catch_warnings():
        warnings.simplefilter("default" if debug() else "ignore")
        warnings.simplefilter("ignore" if quiet else "always", SlalomWarning)
        warnings.showwarning = _show_warning
        try:
            yield
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except (BrokenPipeError, typer.BadParameter, typer.Exit):  # wrong usage is told by the caller
            raise
        except Exception as error:
            if debug():
                raise
            fail(_sentence(error))


def fail(message: str, code: int = 1) -> NoReturn:
    """End the program with one line on stderr."""
    say(f"error: {message}")
    raise typer.Exit(code)


def say(message: str) -> None:
    """One line on stderr."""
    from slalom.view.text import visible

    typer.echo(visible(" ".join(message.split())), err=True)


def debug() -> bool:
    return os.environ.get("SLALOM_DEBUG", "") not in ("", "0")


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A counter of queries on stderr while the model is asked; nothing unless a person is watching."""
    with status(quiet) as tell:
        yield tell and (lambda queries: tell(f"asking the model … {queries:,} queries"))


@contextmanager
def status(quiet: bool, first: str = "loading the model …") -> Iterator[Callable[[str], None] | None]:
    """A line on stderr that says what is being done; nothing unless a person is watching."""
    console = watched(quiet)
    if console is None:
        yield None
        return
    with console.status(first) as line:
        yield line.update


def watched(quiet: bool) -> Console | None:
    """The console on stderr, if a person is watching it."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal and not quiet else None


def still_libraries() -> None:
    """Keep the model libraries' own bars and advice off the terminal; what a user set himself stays."""
    for name, value in {
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }.items():
        os.environ.setdefault(name, value)


def _sentence(error: Exception) -> str:
    if isinstance(error, SlalomError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (SLALOM_DEBUG=1 shows where)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, SlalomWarning):
        say(f"warning: {message}")
    else:
        print(
            warnings.formatwarning(message, category, filename, lineno, line), end="", file=file or sys.stderr
        )


RENAMED = {
    "evaluate": {"--documents": "--limit", "--corpus-documents": "--corpus-limit"},
    "bench": {"--documents": "--limit", "--slow-documents": "--slow-limit", "--samples": "--budget"},
    "global": {"--queries": "--budget"},
}
"""By command: one name for one thing in all of them."""


def today(arg: str, renamed: dict[str, str]) -> str:
    """An argument of the command line by the name that its option has now."""
    name, equals, value = arg.partition("=")
    if name not in renamed:
        return arg
    say(f"warning: {name} is called {renamed[name]} now")
    return f"{renamed[name]}{equals}{value}"
