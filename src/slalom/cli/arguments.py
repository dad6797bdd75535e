"""What the arguments of a command mean: where its text comes from, what its options say, where results go."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from slalom.cli.options import EffortName, EngineChoice
from slalom.cli.run import say

if TYPE_CHECKING:
    from slalom.api import Explainer
    from slalom.explanation import Explanation


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


_TAKEN = (
    "target",
    "method",
    "budget",
    "seed",
    "granularity",
    "every_class",
    "side",
    "explain",
    "progress",
    "units",
    "refine",
    "long",
)
"""Arguments of an explanation that have a way of their own on the command line."""


def names(given: str | None) -> list[str] | None:
    """A list with commas."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def queries(budget: str) -> int | Literal["auto"]:
    """The value of --budget, which has been checked."""
    return "auto" if budget == "auto" else int(budget)


def granularity(words: bool, types: bool = False) -> Literal["positions", "types", "words"]:
    """What --words and --types ask for."""
    if words and types:
        raise typer.BadParameter("--words and --types exclude each other")
    return "words" if words else "types" if types else "positions"


def units(given: str | None, tokens: bool) -> Any:
    """What --units and --tokens ask for: a name, or spans written START-END,START-END."""
    from slalom.errors import InputError
    from slalom.units import check_units

    if given is not None and tokens:
        raise typer.BadParameter("--tokens and --units exclude each other")
    if given is None:
        return "tokens" if tokens else "words"
    spans = re.findall(r"(\d+)-(\d+)", given) if re.fullmatch(r"\d+-\d+(,\d+-\d+)*", given) else None
    try:
        return check_units(given if spans is None else [(int(low), int(high)) for low, high in spans])
    except InputError as error:
        raise typer.BadParameter(f"{error} (on the command line: 0-120,120-340)") from error


def explainer(
    model: str | None,
    device: str | None,
    engine: EngineChoice | None,
    tolerance: float | None,
    asking: Mapping[str, Any],
) -> Explainer:
    """The model of --model, --device, --engine, --engine-tolerance and those of a language model."""
    from slalom.api import Explainer

    name = engine.value if engine else None
    return Explainer(model, device=device, engine=name, engine_tolerance=tolerance, **asking)


def method_options(given: list[str] | None, effort: EffortName | None) -> dict[str, Any]:
    """What --option and --effort hand to the method."""
    named: dict[str, Any] = {} if effort is None else {"effort": effort.value}
    for one in given or []:
        key, _, value = one.partition("=")
        if key in named:
            raise typer.BadParameter(f"the option {key!r} is given twice")
        if key in _TAKEN:
            raise typer.BadParameter(f"{key!r} is not an option of a method; see slalom explain --help")
        named[key] = value_of(value)
    return named


def value_of(given: str) -> Any:
    """Numbers, true, false and null as JSON has them; anything else is a string."""
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


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
