"""The application: its routes, and how the library's errors become answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from slalom.errors import SlalomError
from slalom.web import page, routes
from slalom.web.cancellation import Stopped
from slalom.web.executor import Closing, Desk
from slalom.web.middleware import Guard, problem
from slalom.web.registry import Shelf
from slalom.web.reports import open_reports
from slalom.web.routes import Example, State, answer_to, invalid
from slalom.web.schemas import schema
from slalom.web.settings import Limits, Settings

DESCRIPTION = """Explanations of text classifiers: every token gets a value and an importance.

With `Accept: application/x-ndjson`, /api/explain answers with a line of JSON for every step: progress (how
many queries are asked so far), and at the end the result or an error. Leaving ends the work."""


def build(settings: Settings) -> FastAPI:
    """The ASGI application for these settings."""
    limits, closing = settings.limits, Closing()
    state = State(
        settings,
        Shelf(settings.models),
        open_reports(settings.reports, limits.reports, limits.report_bytes),
        closing,
        explanations=Desk("explain", limits.concurrent, limits.waiting, closing),
        # These wait for each other, but keep nobody else waiting.
        single=Desk("single", 1, limits.waiting, closing),
        # What-if and reports are quick, and do not wait behind explanations.
        quick=Desk("quick", limits.concurrent, 4 * (limits.concurrent + limits.waiting), closing),
        example=Example(),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await state.close()

    app = FastAPI(
        title="slalom",
        version=version("slalom-xai"),
        description=DESCRIPTION,
        docs_url=None,  # the usual page loads its script from elsewhere; ours is in slalom.web.docs
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.slalom = state
    app.include_router(routes.api)
    app.include_router(routes.reports)
    app.include_router(page.router)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(SlalomError, _failed)
    app.add_exception_handler(Stopped, _failed)
    app.add_middleware(Guard, settings=settings, closing=closing)
    app.openapi_schema = _with_limits(app.openapi(), limits)
    return app


def _with_limits(document: dict[str, Any], limits: Limits) -> dict[str, Any]:
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
