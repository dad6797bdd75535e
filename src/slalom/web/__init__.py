"""A page and a JSON API in front of models: `slalom serve`, or `create_app` for a server of your own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom.errors import MissingExtraError
from slalom.web.settings import Limits, Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Limits", "Settings", "create_app"]


def create_app(
    models: Mapping[str, Any] | None = None,
    *,
    token: str | None = None,
    hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
    reports: str | Path | None = None,
) -> FastAPI:
    """The ASGI application. `models` are what `slalom.Explainer` takes, by the names they are served under.

    The models are opened here, and kept. `token` guards /api and /reports; `hosts` are the names
    besides localhost under which the server is reached; `reports` is a directory for saved reports, which
    otherwise live in memory.
    """
    try:
        import fastapi  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("fastapi", "web", "a web page") from error
    from slalom.web.app import build

    served = {"bundled": None} if models is None else dict(models)
    folder = None if reports is None else Path(reports)
    return build(Settings(served, token, tuple(hosts), limits or Limits(), folder))
