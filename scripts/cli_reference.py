"""Pages that the site takes from elsewhere: the commands' own reference, the changelog, the model card.

python scripts/cli_reference.py prints the reference: every command with its arguments and options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from slalom.cli import app

_HEAD = """# Command line

Made from the commands themselves when this site is built. Exit codes: 0 fine, 1 an error (one line on
stderr), 2 wrong usage.
"""


_ROOT = Path(__file__).resolve().parents[1]
_TAKEN = {"changelog.md": _ROOT / "CHANGELOG.md", "model-card.md": _ROOT / "src/slalom/bundled/README.md"}


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages to those of the site."""
    files.append(File.generated(config, "cli.md", content=page()))
    for name, source in _TAKEN.items():
        files.append(File.generated(config, name, content=source.read_text(encoding="utf-8")))
    return files


def page() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    parts = [_HEAD]
    for name in sorted(group.commands):
        parts += _command(f"slalom {name}", group.commands[name])
    return "\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    if getattr(command, "hidden", False):
        return
    yield f"## {name}\n"
    yield _prose(command.help or command.short_help or "") + "\n"
    inner = getattr(command, "commands", {})
    for part in sorted(inner):
        yield from _command(f"{name} {part}", inner[part])
    rows = [_row(one) for one in command.params if not getattr(one, "hidden", False)]
    if rows:
        yield "| argument or option | what it does |\n|---|---|"
        yield "\n".join(rows) + "\n"


def _row(parameter: Any) -> str:
    options = (*parameter.opts, *parameter.secondary_opts) if parameter.param_type_name == "option" else ()
    names = ", ".join(f"`{one}`" for one in options)
    word = parameter.metavar or parameter.name.upper()
    told = _prose(getattr(parameter, "help", None) or "")
    return f"| {names or f'`{word}`'} | {told} |"


def _prose(text: str) -> str:
    """One line, without what a Markdown table would take for its own."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page())
