"""Where an explanation goes: the terminal, JSON on stdout, files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slalom.cli.run import say

if TYPE_CHECKING:
    from slalom.explanation import Explanation


def check_json(json: bool, every_token: bool, *files: Path | None) -> None:
    """Refuse outputs that contradict each other."""
    if json and every_token:
        raise typer.BadParameter("--json holds every token anyway; leave --all out")
    paths = [os.path.realpath(path) for path in files if path is not None]
    if len(set(paths)) < len(paths):
        raise typer.BadParameter("--html and --save name the same file")


def check_paths(*paths: Path | None) -> None:
    """Refuse paths that cannot be written, before any work is done for them."""
    from slalom.files import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def deliver(
    explanation: Explanation,
    *,
    json: bool = False,
    html: Path | None = None,
    save: Path | None = None,
    every_token: bool = False,
    quiet: bool = False,
) -> None:
    """Write the files that were asked for and print the explanation."""
    from slalom.files import to_json, write_text

    if save is not None:
        explanation.save(save)
    if html is not None:
        from slalom.view.html import render

        write_text(html, render(explanation))
    if json:
        typer.echo(to_json(explanation.to_dict()))
    else:
        from slalom.view.terminal import show

        show(explanation, every_token=every_token)
    for path in (save, html):
        if path is not None and not quiet:
            say(f"wrote {path}")
