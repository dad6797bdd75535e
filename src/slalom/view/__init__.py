"""How results are shown. A file here that says its SUFFIX is a format of explanations; nothing else names it.

A format is a module with

    "..."      a docstring; its first sentence says what it is
    SUFFIX     the ending of its files, ".md"
    render     (explanation) → the text of such a file

`slalom explain --format NAME` prints one, `--out FILE` writes the one of the file's ending. Another package
brings one by an entry point of the group `slalom.views`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from slalom.files import write_text
from slalom.registry import Registry

if TYPE_CHECKING:
    from slalom.explanation import Explanation

REGISTRY = Registry("format", __name__, "SUFFIX", "slalom.views")


def names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    return REGISTRY.names()


def load(name: str) -> Callable[[Explanation], str]:
    """The function of a format that turns an explanation into text."""
    return REGISTRY.module(name).render


def of_path(path: str | os.PathLike[str]) -> str:
    """The format of a file by its ending; json, which `Explanation.load` reads, for endings of no format."""
    ending = Path(path).suffix.lower()
    suffixes = {str(REGISTRY.header(name).said["SUFFIX"]): name for name in reversed(names())}
    return suffixes.get({".htm": ".html"}.get(ending, ending), "json")


def write(explanation: Explanation, path: str | os.PathLike[str], name: str | None = None) -> None:
    """Write an explanation to a file, in the format that is named or else in that of the file's ending."""
    write_text(path, load(name or of_path(path))(explanation))
