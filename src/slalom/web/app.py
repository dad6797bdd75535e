"""The application: its routes, its pages, and how the library's errors become answers.

The page is a few files of its own, and the view's style and script; /docs tells the API in words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from slalom.errors import SlalomError
from slalom.view.page import COMPARISON, FRAGMENT, SCRIPT
from slalom.web import Limits, ServerSettings, routes
from slalom.web.executor import Closing, ModelRegistry, Stopped, WorkQueue
from slalom.web.middleware import AccessMiddleware, answer_to, invalid, problem
from slalom.web.reports import CorpusPages, open_reports
from slalom.web.routes import ExampleReport, ServerState
from slalom.web.schemas import Schema, in_words, schema
from slalom.web.tasks import EXAMPLE

DESCRIPTION = """Explanations of text classifiers: every token gets a value and an importance.

With `Accept: application/x-ndjson`, /api/explain answers with a line of JSON for every step: progress (how
many queries are asked so far), and at the end the result or an error. Leaving ends the work."""


def build(settings: ServerSettings) -> FastAPI:
    """The ASGI application for these settings."""
    limits, closing = settings.limits, Closing()
    state = ServerState(
        settings,
        ModelRegistry(settings.models),
        open_reports(settings.reports, limits.reports, limits.report_bytes),
        closing,
        explanations=WorkQueue("explain", limits.concurrent, limits.waiting, closing),
        # These wait for each other, but keep nobody else waiting.
        single=WorkQueue("single", 1, limits.waiting, closing),
        # What-if and reports are quick, and do not wait behind explanations.
        quick=WorkQueue("quick", limits.concurrent, 4 * (limits.concurrent + limits.waiting), closing),
        example=ExampleReport(),
        corpora=CorpusPages(settings.corpora),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await state.close()

    app = FastAPI(
        title="slalom",
        version=version("slalom-xai"),
        description=DESCRIPTION,
        docs_url=None,  # the usual page loads its script from elsewhere; ours is `_described`
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.slalom = state
    app.include_router(routes.api)
    app.include_router(routes.reports)
    app.include_router(routes.corpora)
    app.include_router(router)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(SlalomError, _failed)
    app.add_exception_handler(Stopped, _failed)
    app.add_middleware(AccessMiddleware, settings=settings, closing=closing)
    app.openapi_schema = _with_limits(app.openapi(), limits)
    return app


def _with_limits(document: Schema, limits: Limits) -> Schema:
    """The description, with what this server allows."""
    schemas = document["components"]["schemas"]
    for name in ("ExplainRequest", "PredictRequest", "CompareRequest"):
        schemas[name]["properties"]["text"]["maxLength"] = limits.characters
    schemas["ExplainRequest"]["properties"]["options"] |= schema()
    for name in ("ExplainRequest", "CompareRequest"):
        for form in schemas[name]["properties"]["budget"]["anyOf"]:
            if form.get("type") == "integer":
                form["maximum"] = limits.queries
    return document


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    return problem(422, invalid(error))


async def _http(_: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = {404: "there is nothing here", 405: "this address takes another method"}
    return problem(status, said.get(status, str(getattr(error, "detail", ""))))


async def _failed(_: Request, error: Exception) -> JSONResponse:
    return answer_to(error).response


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
    html = _described(request.app.openapi(), EXAMPLE)
    headers = {"content-security-policy": POLICY}
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in _names():
        raise HTTPException(404)
    content = _view()[name] if name in _view() else _own(name)
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]])


@cache
def _names() -> frozenset[str]:
    own = {entry.name for entry in files("slalom.web").joinpath("static").iterdir()}
    return frozenset(name for name in own | set(_view()) if name.rpartition(".")[2] in _TYPES)


@cache
def _own(name: str) -> bytes:
    return files("slalom.web").joinpath("static", name).read_bytes()


@cache
def _view() -> dict[str, str]:
    return {"explanation.css": f"{FRAGMENT}\n{COMPARISON}", "explanation.js": SCRIPT}


def _described(document: Schema, example: str) -> str:
    """The whole page. `example` is a text for the commands that it shows."""
    sections = "".join(
        in_words(document, path, method, operation, example)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    about = escape(document["info"]["description"].partition("\n\n")[0])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>slalom · API</title>\n'
        '<link rel="icon" href="static/icon.svg" type="image/svg+xml">\n'
        '<link rel="stylesheet" href="static/app.css">\n</head>\n<body class="docs">\n<header>'
        '<h1><img src="static/icon.svg" alt="" width="26" height="26"> slalom '
        "<span>the API of this server</span>"
        f'</h1></header>\n<main>\n<p>{about} The page is <a href="./">here</a>; a machine reads '
        '<a href="openapi.json">openapi.json</a>. Errors are <code>{"detail": "a sentence"}</code>.</p>\n'
        f"{sections}</main>\n</body>\n</html>\n"
    )
