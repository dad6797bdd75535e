"""The addresses of the API and of saved reports.

How errors become answers: a status, and a sentence for whoever asked.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from slalom.errors import ModelError, SlalomError
from slalom.models.text.texts import check_text
from slalom.web import schemas as s
from slalom.web import tasks
from slalom.web.cancellation import Stopped, Watch
from slalom.web.executor import TICK, Closing, Desk, Full, Job
from slalom.web.middleware import CLOSING, problem, report_key, unexpected
from slalom.web.page import report_policy
from slalom.web.registry import Shelf
from slalom.web.reports import Reports
from slalom.web.schemas import offered
from slalom.web.settings import Settings
from slalom.web.tasks import TooLong

_STOPPED = {
    "late": (504, "the explanation took longer than this server allows; ask with a smaller budget or text"),
    "closing": (503, CLOSING),
    "left": (499, "the client left"),
}


@dataclass(frozen=True)
class Failure:
    """What a client is told."""

    status: int
    detail: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def response(self) -> JSONResponse:
        return problem(self.status, self.detail, **self.headers)


def answer_to(error: BaseException) -> Failure:
    """The answer to a request that ended with this error."""
    if isinstance(error, Stopped):
        return Failure(*_STOPPED[error.why])
    if isinstance(error, Full):
        return Failure(503, str(error), {"retry_after": "5"})
    if isinstance(error, TooLong):
        return Failure(413, str(error))
    # A model's own failure carries the words of whatever failed in it, which are for the log alone.
    broken = isinstance(error, ModelError) and error.__cause__ is not None
    if isinstance(error, SlalomError) and not broken:
        return Failure(422, str(error))
    return Failure(500, unexpected(error))


def invalid(error: Exception) -> str:
    """What is wrong with the fields of a request, in one sentence for each of them."""
    if not isinstance(error, RequestValidationError):
        return str(error)
    said: dict[str, list[str]] = {}
    for entry in error.errors():
        if entry["type"] == "json_invalid":
            return f"the request is not JSON: {entry.get('ctx', {}).get('error', entry['msg'])}"
        where = [str(part) for part in entry["loc"][1:2]]
        message = str(entry["msg"]).removeprefix("Value error, ")
        messages = said.setdefault(".".join(where) or "the request", [])
        if message not in messages:
            messages.append(message)
    return "; ".join(f"{name}: {' or '.join(messages)}" for name, messages in said.items())


LINES = "application/x-ndjson"
GRACE = 3.0
"""Seconds for work to end when the server is told to."""
_BEARER = Security(HTTPBearer(auto_error=False, description="The token, where the server has one."))
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": s.Problem} for status in (400, 401, 413, 415, 422, 500, 503, 504)
}

api = APIRouter(responses=_PROBLEMS)
reports = APIRouter(prefix="/reports", responses={404: {"model": s.Problem}}, dependencies=[_BEARER])


class Example:
    """The explanation that the page begins with: made when somebody first looks, and kept."""

    name = "example"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._document: str | None = None

    def get(self, make: Callable[[], str]) -> str:
        with self._lock:
            if self._document is None:
                self._document = make()
            return self._document


@dataclass(frozen=True, eq=False)
class State:
    """What the routes share."""

    settings: Settings
    shelf: Shelf
    reports: Reports
    closing: Closing
    explanations: Desk
    single: Desk
    quick: Desk
    example: Example

    def watch(self) -> Watch:
        return Watch(self.settings.limits.seconds)

    @property
    def busy(self) -> bool:
        """Whether any thread still works."""
        return any(desk.inside for desk in self._desks)

    @property
    def _desks(self) -> tuple[Desk, ...]:
        return self.explanations, self.single, self.quick

    async def close(self) -> None:
        """Tells everybody who waits, and gives the threads a little time to end."""
        self.closing.begin()
        for desk in self._desks:
            desk.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while self.busy:
                    await asyncio.sleep(TICK)


def _state(request: Request) -> State:
    return request.app.state.slalom


@api.get("/healthz", response_model=s.Health, tags=["server"])
async def healthz() -> dict[str, str]:
    """Whether the server is there. Needs no token."""
    return {"status": "ok", "version": version("slalom-xai")}


@api.get("/api/models", response_model=s.ModelsAnswer, tags=["server"], dependencies=[_BEARER])
async def models(request: Request) -> dict[str, Any]:
    """The models this server may use, and what it allows."""
    state = _state(request)
    limits = state.settings.limits
    return {
        "default": state.settings.first,
        "models": [place.described for place in state.shelf.places.values()],
        "limits": {name: getattr(limits, name) for name in s.LimitsInfo.model_fields},
    }


@api.get("/api/models/{name}", response_model=s.ModelInfo, tags=["server"], dependencies=[_BEARER])
async def model(request: Request, name: str) -> dict[str, Any]:
    """One model."""
    return _state(request).shelf[name].described


@api.get("/api/methods", response_model=list[s.MethodInfo], tags=["server"], dependencies=[_BEARER])
async def methods() -> list[dict[str, Any]]:
    """The methods, what they need from a model, their options, and what this server takes for each."""
    return offered()


@api.post("/api/predict", response_model=s.PredictAnswer, tags=["ask"], dependencies=[_BEARER])
async def predict(request: Request, order: s.PredictRequest) -> dict[str, Any]:
    """The model's answer to a text, or to what is left of it: some of its tokens, or copies of them."""
    state, watch = _state(request), _state(request).watch()
    place = state.shelf[order.model]
    _check_text(order, state.settings.limits.characters)
    most = state.settings.limits.characters
    return await state.quick.start(watch, partial(tasks.predict, place, order, watch, most)).wait(request)


@api.post(
    "/api/explain",
    response_model=s.ExplainAnswer,
    tags=["ask"],
    dependencies=[_BEARER],
    responses={200: {"content": {LINES: {"schema": {"type": "string"}}}}},
)
async def explain(request: Request, order: s.ExplainRequest) -> Response:
    """Explains a text. `Accept: application/x-ndjson` gives progress while the queries are asked."""
    state, watch = _state(request), _state(request).watch()
    place = state.shelf[order.model]
    _check_text(order, state.settings.limits.characters)
    tasks.check(order, state.settings.limits.queries)

    def work() -> str:
        explanation = tasks.explain(place, order, watch, state.settings.limits.tokens)
        name = state.reports.put(tasks.document(explanation)) if order.save else None
        return tasks.answer(explanation, name, _address(state, name))

    desk = state.single if tasks.one_at_a_time(order.method) else state.explanations
    return await _answered(request, desk.start(watch, work))


async def _answered(request: Request, job: Job) -> Response:
    """The result of a job; line by line for clients that want to see how it goes."""
    if LINES in request.headers.get("accept", ""):
        headers = {"x-accel-buffering": "no"}  # nginx would keep the progress back otherwise
        return StreamingResponse(_lines(request, job), media_type=LINES, headers=headers)
    return Response(await job.wait(request), media_type="application/json")


@api.post(
    "/api/compare",
    response_model=s.CompareAnswer,
    tags=["ask"],
    dependencies=[_BEARER],
    responses={200: {"content": {LINES: {"schema": {"type": "string"}}}}},
)
async def compare(request: Request, order: s.CompareRequest) -> Response:
    """Explains a text by several methods and says which predicts the model best; progress as for explain."""
    state, watch = _state(request), _state(request).watch()
    place = state.shelf[order.model]
    _check_text(order, state.settings.limits.characters)
    wanted = tasks.orders(order, state.settings.limits.queries)

    def work() -> str:
        comparison = tasks.compare(place, wanted, watch, state.settings.limits.tokens)
        name = state.reports.put(tasks.document(comparison)) if order.save else None
        return tasks.compared(comparison, name, _address(state, name))

    return await _answered(request, state.single.start(watch, work))


@api.get("/api/example", response_model=s.ExampleAnswer, tags=["ask"], dependencies=[_BEARER])
async def example(request: Request) -> dict[str, Any]:
    """An explained example, by the first model; made once, then kept."""
    state, watch = _state(request), _state(request).watch()
    await state.explanations.start(watch, partial(_example, state, watch)).wait(request)
    asked = s.ExplainRequest.model_validate({"text": tasks.EXAMPLE, "model": state.settings.first})
    return {
        "id": Example.name,
        "report": _address(state, Example.name),
        "request": asked.model_dump(include={"text", "model", "units"}),
    }


def _example(state: State, watch: Watch) -> str:
    order = s.ExplainRequest.model_validate({"text": tasks.EXAMPLE})
    place = state.shelf[state.settings.first]
    make = partial(tasks.explain, place, order, watch, state.settings.limits.tokens)
    return state.example.get(lambda: tasks.document(make()))


@reports.get("/{name}", response_class=HTMLResponse, tags=["reports"])
async def report(request: Request, name: str) -> Response:
    """A saved explanation as a page of its own."""
    html = await _rendered(request, name, tasks.page)
    return HTMLResponse(html, headers={"content-security-policy": report_policy()})


@reports.get("/{name}/fragment", response_class=HTMLResponse, tags=["reports"])
async def fragment(request: Request, name: str) -> Response:
    """The same without the page around it, its style and its script: what the server's own page shows.

    The header `Link` says where the page is.
    """
    html = await _rendered(request, name, tasks.part)
    return HTMLResponse(html, headers={"link": f'<{_address(_state(request), name)}>; rel="alternate"'})


async def _rendered(request: Request, name: str, render: Any) -> str:
    state = _state(request)

    watch = state.watch()

    def work() -> str | None:
        kept = _example(state, watch) if name == Example.name else state.reports.get(name)
        return None if kept is None else render(kept)

    html = await state.quick.start(watch, work).wait(request)
    if html is None:
        raise HTTPException(404)
    return html


async def _lines(request: Request, job: Job) -> AsyncIterator[str]:
    """Progress, then the result or an error: one JSON object on each line."""
    try:
        async for queries in job.follow(request):
            yield json.dumps({"event": "progress", "queries": queries}) + "\n"
        yield '{"event": "result", ' + job.result()[1:] + "\n"
    except Exception as error:  # noqa: BLE001
        failure = answer_to(error)
        yield json.dumps({"event": "error", "status": failure.status, "detail": failure.detail}) + "\n"


def _check_text(order: s.ExplainRequest | s.CompareRequest | s.PredictRequest, most: int) -> None:
    given = len(order.text) + len(order.pair or "")
    if given > most:
        raise tasks.TooLong(f"the text has {given:,} characters; this server takes {most:,}")
    check_text(order.text if order.pair is None else (order.text, order.pair), order.explain)


def _address(state: State, name: str | None) -> str | None:
    if name is None:
        return None
    key = report_key(state.settings.token, name)
    return f"/reports/{name}" if key is None else f"/reports/{name}?key={key}"
