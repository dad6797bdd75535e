"""Options that have another name now: the old one is still taken, and told."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from slalom.cli.run import say

RENAMED = {
    "evaluate": {"--documents": "--limit", "--corpus-documents": "--corpus-limit"},
    "bench": {"--documents": "--limit", "--slow-documents": "--slow-limit", "--samples": "--budget"},
    "global": {"--queries": "--budget"},
}
"""By command: one name for one thing in all of them."""


class Command(TyperCommand):
    """A command that understands the names its options had before."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        renamed = RENAMED.get(self.name or "", {})
        return super().parse_args(ctx, [_today(arg, renamed) for arg in args])


def _today(arg: str, renamed: dict[str, str]) -> str:
    name, equals, value = arg.partition("=")
    if name not in renamed:
        return arg
    say(f"warning: {name} is called {renamed[name]} now")
    return f"{renamed[name]}{equals}{value}"
