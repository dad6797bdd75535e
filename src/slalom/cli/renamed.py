"""Options that have another name now: the old one is still taken, and told."""

from __future__ import annotations

from slalom.cli.run import say

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
