"""Where the text of a command comes from: the command line, a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

_MOST = 2**21
"""Bytes of a text that are read: far more than any classifier takes."""


def text_source(text: str | None, file: Path | None) -> Path | None:
    """The file to read, `-` for standard input, None where the text was given."""
    if text is not None and file is not None:
        raise typer.BadParameter("give TEXT or --file, not both")
    if file is not None or text not in (None, "-"):
        return file
    if text is None and (sys.stdin is None or sys.stdin.isatty()):
        raise typer.BadParameter("give TEXT, --file FILE, or a text on standard input")
    return Path("-")


def read_given(source: Path | None, text: str | None) -> str:
    """The text itself, without the line break at its end."""
    from slalom.files import read_stream, read_text

    if source is None:
        return text or ""
    if source == Path("-"):
        return read_stream(sys.stdin.buffer, "standard input", _MOST).rstrip("\r\n")
    return read_text(source, _MOST).rstrip("\r\n")
