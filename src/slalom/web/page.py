"""The page: a few files of its own, and the view's style and script."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing inline, nothing from elsewhere."""

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index() -> Response:
    headers = {"content-security-policy": POLICY}
    return Response(_own("index.html"), media_type="text/html; charset=utf-8", headers=headers)


@router.get("/docs")
async def docs(request: Request) -> Response:
    from slalom.web.docs import render
    from slalom.web.tasks import EXAMPLE

    html = render(request.app.openapi(), EXAMPLE)
    headers = {"content-security-policy": POLICY}
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in _names():
        raise HTTPException(404)
    content = _view()[name] if name in _view() else _own(name)
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]])


@cache
def report_policy() -> str:
    """What a report may do: run and look like what the view wrote into it."""
    from slalom.view.page import COMPARISON, FRAGMENT, PAGE, SCRIPT, policy

    return f"{policy((PAGE, FRAGMENT, COMPARISON), (SCRIPT,))}; frame-ancestors 'none'"


@cache
def _names() -> frozenset[str]:
    own = {entry.name for entry in files("slalom.web").joinpath("static").iterdir()}
    return frozenset(name for name in own | set(_view()) if name.rpartition(".")[2] in _TYPES)


@cache
def _own(name: str) -> bytes:
    return files("slalom.web").joinpath("static", name).read_bytes()


@cache
def _view() -> dict[str, str]:
    from slalom.view.page import COMPARISON, FRAGMENT, SCRIPT

    return {"explanation.css": f"{FRAGMENT}\n{COMPARISON}", "explanation.js": SCRIPT}
