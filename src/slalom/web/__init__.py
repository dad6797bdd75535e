"""A page and a JSON API in front of models: `slalom serve`, or `create_app` for a server of your own.

What a server allows is checked before it starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from slalom.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Limits", "ServerSettings", "create_app"]

_NAME = re.compile(r"[\w][\w.-]{0,63}")
_TOKEN = re.compile(r"[!-~]{8,256}")

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""The names under which a server on this machine is always reached."""


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for, and how many requests there may be.

    Example:
        >>> from slalom.web import Limits
        >>> Limits(seconds=30).characters
        20000
    """

    characters: int = 20_000
    """Of a text, or of both texts of a pair."""
    tokens: int = 2_000
    """Of a text that is explained, as its model reads it."""
    body: int = 1_000_000
    """Bytes of a request."""
    queries: int = 20_000
    """The largest budget."""
    concurrent: int = 2
    """Explanations at the same time."""
    waiting: int = 8
    """Explanations that may wait for their turn; the next one is sent away."""
    connections: int = 500
    """Open at the same time; beyond, those that wait for their client go, the oldest first."""
    seconds: float = 120.0
    """From the request to its answer."""
    reports: int = 200
    """Saved reports; the oldest one goes first."""
    report_bytes: int = 200_000_000
    """Of all saved reports together."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            given, least = getattr(self, entry.name), 0 if entry.name == "waiting" else 1
            if entry.name == "seconds":
                if not (isinstance(given, int | float) and 0 < given < math.inf):
                    raise InputError(f"the limit seconds must be a positive number; got {given!r}")
            elif type(given) is not int or given < least:
                raise InputError(
                    f"the limit {entry.name} must be a whole number of at least {least}; got {given!r}"
                )


@dataclass(frozen=True)
class ServerSettings:
    """Everything a server is started with.

    Example:
        >>> ServerSettings({"sentiment": None}).hosts
        ()
    """

    models: Mapping[str, object]
    """By name: whatever `slalom.Explainer` takes, None for the bundled model."""
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    """Names besides localhost in the Host header; "*" allows any."""
    limits: Limits = field(default_factory=Limits)
    reports: Path | None = None
    corpora: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name: what `slalom explain-corpus` wrote."""

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("a server needs at least one model; give -m NAME=DIR_OR_HUB_ID")
        named = [("model", name) for name in self.models] + [("corpus", name) for name in self.corpora]
        for kind, name in named:
            if not _NAME.fullmatch(name):
                raise InputError(
                    f"{name!r} cannot be the name of a {kind}; use up to 64 letters, digits, '.', '_' or '-'"
                )
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise InputError("a token is 8 to 256 visible ASCII characters without spaces")

    @property
    def first(self) -> str:
        """The model that answers where none is named."""
        return next(iter(self.models))


def create_app(
    models: Mapping[str, object] | None = None,
    *,
    token: str | None = None,
    hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
    reports: str | Path | None = None,
    corpora: Mapping[str, str | Path] | None = None,
) -> FastAPI:
    """The page and its API as an ASGI application. The models are opened here, and kept.

    Args:
        models: what `slalom.Explainer` takes, by the names they are served under; by default the bundled one.
        token: guards /api, /reports and /corpora.
        hosts: names besides localhost under which the server is reached.
        limits: how much a request may ask for.
        reports: a directory for saved reports, which otherwise live in memory.
        corpora: folders that `slalom explain-corpus` wrote, by the names that the page lists them under.

    Returns:
        The application; any ASGI server runs it.

    Raises:
        MissingExtraError: the extra `web` is not installed.

    Example:
        >>> from slalom.web import create_app
        >>> app = create_app({"shouting": lambda texts: [float(text.isupper()) - 0.5 for text in texts]})
        >>> app.title
        'slalom'
    """
    try:
        import fastapi  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise MissingExtraError("fastapi", "web", "a web page") from error
    from slalom.web.app import build

    served = {"bundled": None} if models is None else dict(models)
    folder = None if reports is None else Path(reports)
    explained = {name: str(place) for name, place in (corpora or {}).items()}
    return build(ServerSettings(served, token, tuple(hosts), limits or Limits(), folder, explained))
