"""What every command shares: errors and warnings as one line, progress that keeps out of the way, a file.

Options come from the command line, else from a file: `--config FILE`, or `slalom.toml` where the command is
started. A key there is an option without its dashes (or an argument), at the top for every command that has
it, in the table of a command for this one alone. An option that has another name now: the old one is still
taken, and told. `grouped` lets a command take several options as one thing.
"""

from __future__ import annotations

import inspect
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO, cast, get_type_hints

import typer
from typer.core import TyperCommand

from slalom.errors import SlalomError, SlalomWarning

if TYPE_CHECKING:
    from rich.console import Console


INTERRUPTED = 130
"""The shell's own code for Ctrl-C."""


@contextmanager
def guarded(quiet: bool = False) -> Generator[None]:
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
    from slalom.view import visible

    typer.echo(visible(" ".join(message.split())), err=True)


def debug() -> bool:
    return os.environ.get("SLALOM_DEBUG", "") not in ("", "0")


@contextmanager
def progress(quiet: bool) -> Generator[Callable[[int], None] | None]:
    """A counter of queries on stderr while the model is asked; nothing unless a person is watching."""
    with status(quiet) as tell:
        yield tell and (lambda queries: tell(f"asking the model … {queries:,} queries"))


@contextmanager
def status(quiet: bool, first: str = "loading the model …") -> Generator[Callable[[str], None] | None]:
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


def check_distinct(**files: Path | None) -> None:
    """Refuse to write two things to one file."""
    named = {name: os.path.realpath(path) for name, path in files.items() if path is not None}
    if len(set(named.values())) < len(named):
        raise typer.BadParameter(f"two of {', '.join(f'--{name}' for name in named)} name the same file")


def check_paths(*paths: Path | None) -> None:
    """Refuse paths that cannot be written, before any work is done for them."""
    from slalom.files import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def tell_written(quiet: bool, *paths: Path | None) -> None:
    """Say which files were written."""
    for path in paths:
        if path is not None and not quiet:
            say(f"wrote {path}")


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
    "explain": {"--save": "--out"},
    "compare": {"--data": "--corpus"},
    "evaluate": {
        "--documents": "--limit",
        "--corpus-documents": "--corpus-limit",
        "--cut": "--length",
    },
    "explain-answer": {"-a": "--answer"},
    "explain-corpus": {"--resume": "--check"},
    "bench": {
        "--documents": "--limit",
        "--slow-documents": "--slow-limit",
        "--samples": "--budget",
        "--tokens": "--length",
        "--quality-tokens": "--quality-length",
    },
    "global": {"--queries": "--budget", "--save": "--out"},
    "train": {"-a": "--architecture", "-o": "--out"},
}
"""By command: one name for one thing in all of them."""
_WHY = {
    "--resume": "--resume is not needed: an unfinished run goes on by itself; --check mends damaged parts"
}


def today(args: list[str], renamed: Mapping[str, str]) -> list[str]:
    """The arguments of the command line by the names that their options have now."""
    end = args.index("--") if "--" in args else len(args)
    return [*(_today(arg, renamed) for arg in args[:end]), *args[end:]]


def _today(arg: str, renamed: Mapping[str, str]) -> str:
    name, equals, value = arg.partition("=")
    if name not in renamed:
        return arg
    say(f"warning: {_WHY.get(name, f'{name} is called {renamed[name]} now')}")
    return f"{renamed[name]}{equals}{value}"


NAME = "slalom.toml"


ABOUT = f"--config FILE takes options from a TOML file; by default from {NAME} here, if it is there."
"""What the help of every command ends with."""


class _Parameter(Protocol):
    """What there is to know of an option or an argument."""

    @property
    def name(self) -> str | None: ...

    @property
    def opts(self) -> Sequence[str]: ...

    @property
    def secondary_opts(self) -> Sequence[str]: ...


class Command(TyperCommand):
    """A command that reads its options from a file, too, and understands the names they had before."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        renamed = RENAMED.get(self.name or "", {})
        path, rest = _path(today(args, renamed))
        if path is not None and not {"--help", "-h"} & set(rest):
            ctx.default_map = {**(ctx.default_map or {}), **self._given(path, renamed)}
            say(f"options from {path}")
        return super().parse_args(ctx, rest)

    def _given(self, path: Path, renamed: Mapping[str, str]) -> dict[str, object]:
        document = _read(path)
        own = document.get(self.name or "", {})
        if not isinstance(own, dict):
            raise typer.BadParameter(f"{path}: {self.name!r} must be a table: [{self.name}]")
        known = {_key(name): param.name for param in self.params for name in _names(param)}
        shared = {key: value for key, value in document.items() if not isinstance(value, dict)}
        everywhere = {known[key]: value for key, value in shared.items() if key in known}
        found: dict[str, object] = {}
        for key, value in cast(dict[str, object], own).items():
            current = _key(_today(f"--{key}", renamed))
            if current not in known or isinstance(value, dict):
                listed = ", ".join(sorted(name for name in known if len(name) > 1))
                raise typer.BadParameter(
                    f"{path}: `slalom {self.name}` has no option {key!r}; it has: {listed}"
                )
            found[known[current]] = value
        return everywhere | found


def _names(param: _Parameter) -> list[str]:
    """What a parameter is called on the command line; an argument has its own name."""
    return [*param.opts, *param.secondary_opts] or [param.name or ""]


def _key(name: str) -> str:
    return name.lstrip("-").replace("_", "-").lower()


def _path(args: list[str]) -> tuple[Path | None, list[str]]:
    """The file that is named, else the one that is here, else none; and the other arguments."""
    for place, arg in enumerate(args):
        if arg == "--":
            break
        name, equals, value = arg.partition("=")
        if name == "--config":
            if not equals and place + 1 == len(args):
                raise typer.BadParameter("--config needs the name of a file")
            named = value if equals else args[place + 1]
            return Path(named), args[:place] + args[place + (1 if equals else 2) :]
    here = Path(NAME)
    return (here if here.is_file() else None), args


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{str(path)!r} is not TOML: {error}") from error


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command that is given groups: each parameter whose type is a dataclass is made of options.

    The fields of the dataclass are the options, declared as typer wants them; the command gets the whole.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}

    @wraps(command)
    def run(**given: object) -> None:
        parts = {name: _filled(group, given) for name, group in groups.items()}
        command(**parts, **given)

    parameters = [
        parameter
        for own in inspect.signature(command).parameters.values()
        for parameter in (_parameters(groups[own.name]) if own.name in groups else [_keyword(own, hints)])
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _filled(group: type, given: dict[str, object]) -> object:
    return group(**{field.name: given.pop(field.name) for field in fields(group)})


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def _keyword(own: inspect.Parameter, hints: dict[str, object]) -> inspect.Parameter:
    return own.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[own.name])
