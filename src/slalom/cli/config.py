"""Options from a file: `--config FILE`, or `slalom.toml` where the command is started.

A key is an option without its dashes (or an argument), at the top for every command that has it, in the
table of a command for this one alone. What stands on the command line goes before.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from slalom.cli.run import RENAMED, say, today

NAME = "slalom.toml"


ABOUT = f"--config FILE takes options from a TOML file; by default from {NAME} here, if it is there."
"""What the help of every command ends with."""


class Command(TyperCommand):
    """A command that reads its options from a file, too, and understands the names they had before."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        renamed = RENAMED.get(self.name or "", {})
        path, rest = _path([today(arg, renamed) for arg in args])
        if path is not None and not {"--help", "-h"} & set(rest):
            ctx.default_map = (ctx.default_map or {}) | self._given(path, renamed)
            say(f"options from {path}")
        return super().parse_args(ctx, rest)

    def _given(self, path: Path, renamed: dict[str, str]) -> dict[str, Any]:
        document = _read(path)
        own = document.get(self.name or "", {})
        if not isinstance(own, dict):
            raise typer.BadParameter(f"{path}: {self.name!r} must be a table: [{self.name}]")
        known = {_key(name): param.name for param in self.params for name in _names(param)}
        shared = {key: value for key, value in document.items() if not isinstance(value, dict)}
        everywhere = {known[key]: value for key, value in shared.items() if key in known}
        found: dict[str, Any] = {}
        for key, value in own.items():
            current = _key(today(f"--{key}", renamed))
            if current not in known or isinstance(value, dict):
                listed = ", ".join(sorted(name for name in known if len(name) > 1))
                raise typer.BadParameter(
                    f"{path}: `slalom {self.name}` has no option {key!r}; it has: {listed}"
                )
            found[known[current]] = value
        return everywhere | found


def _names(param: Any) -> list[str]:
    """What a parameter is called on the command line; an argument has its own name."""
    return [*param.opts, *param.secondary_opts] or [param.name]


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


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{str(path)!r} is not TOML: {error}") from error
