"""The addresses of the API and of saved reports."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Security
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response, StreamingResponse

from slalom.compare import Compared
from slalom.explanation import Explanation
from slalom.models.text import check_text
from slalom.web import ServerSettings, tasks
from slalom.web import schemas as s
from slalom.web.executor import TICK, Cancellation, Closing, ModelRegistry, QueuedJob, ServedModel, WorkQueue
from slalom.web.middleware import answer_to, report_key
from slalom.web.reports import CorpusPages, Reports, corpus_policy, page, part, report_policy
from slalom.web.schemas import offered

LINES = "application/x-ndjson"
GRACE = 3.0
"""Seconds for work to end when the server is told to."""
_BEARER = Security(HTTPBearer(auto_error=False, description="The token, where the server has one."))
_PROBLEMS: dict[int | str, dict[str, object]] = {
    status: {"model": s.Problem} for status in (400, 401, 413, 415, 422, 500, 503, 504)
}

_FOLLOWED: dict[str, Any] = {
    "tags": ["ask"],
    "dependencies": [_BEARER],
    "responses": {200: {"content": {LINES: {"schema": {"type": "string"}}}}},
}
"""Of questions whose answers a client may follow line by line."""

api = APIRouter(responses=_PROBLEMS)
corpora = APIRouter(prefix="/corpora", responses={404: {"model": s.Problem}}, dependencies=[_BEARER])
reports = APIRouter(prefix="/reports", responses={404: {"model": s.Problem}}, dependencies=[_BEARER])


class ExampleReport:
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
class ServerState:
    """What the routes share."""

    settings: ServerSettings
    models: ModelRegistry
    reports: Reports
    closing: Closing
    explanations: WorkQueue
    single: WorkQueue
    quick: WorkQueue
    example: ExampleReport
    corpora: CorpusPages

    def cancellation(self) -> Cancellation:
        return Cancellation(self.settings.limits.seconds)

    @property
    def busy(self) -> bool:
        """Whether any thread still works."""
        return any(queue.inside for queue in self._queues)

    @property
    def _queues(self) -> tuple[WorkQueue, ...]:
        return self.explanations, self.single, self.quick

    async def close(self) -> None:
        """Tells everybody who waits, and gives the threads a little time to end."""
        self.closing.begin()
        for queue in self._queues:
            queue.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while self.busy:
                    await asyncio.sleep(TICK)


def _state(request: Request) -> ServerState:
    return request.app.state.slalom


@api.get("/healthz", response_model=s.Health, tags=["server"])
async def healthz() -> dict[str, str]:
    """Whether the server is there. Needs no token."""
    return {"status": "ok", "version": version("slalom-xai")}


@api.get("/api/models", response_model=s.ModelsAnswer, tags=["server"], dependencies=[_BEARER])
async def models(request: Request) -> dict[str, object]:
    """The models this server may use, and what it allows."""
    state = _state(request)
    limits = state.settings.limits
    return {
        "default": state.settings.first,
        "models": [served.described for served in state.models.models.values()],
        "limits": {name: getattr(limits, name) for name in s.LimitsInfo.model_fields},
    }


@api.get("/api/models/{name}", response_model=s.ModelInfo, tags=["server"], dependencies=[_BEARER])
async def model(request: Request, name: str) -> dict[str, object]:
    """One model."""
    return _state(request).models[name].described


@api.get("/api/methods", response_model=list[s.MethodInfo], tags=["server"], dependencies=[_BEARER])
async def methods() -> list[dict[str, object]]:
    """The methods, what they need from a model, their options, and what this server takes for each."""
    return offered()


@api.get("/api/corpora", response_model=list[s.CorpusInfo], tags=["server"], dependencies=[_BEARER])
async def explained_corpora(request: Request) -> list[dict[str, object]]:
    """The explained corpora that this server shows, and where their pages are."""
    state = _state(request)
    return [{"name": name, "page": _linked(state, f"/corpora/{name}")} for name in state.corpora.names]


@corpora.get("/{name}", response_class=HTMLResponse, tags=["server"])
async def corpus(request: Request, name: str) -> Response:
    """An explained corpus as a page: the strongest words of each label with examples, a chart, tables."""
    state = _state(request)
    work = partial(state.corpora.get, name)
    html = await state.single.start(state.cancellation(), work).wait(request)
    if html is None:
        raise HTTPException(404)
    return HTMLResponse(html, headers={"content-security-policy": corpus_policy()})


@api.post("/api/predict", response_model=s.PredictAnswer, tags=["ask"], dependencies=[_BEARER])
async def predict(request: Request, response: Response, body: s.PredictRequest) -> dict[str, object]:
    """The model's answer to a text, or to what is left of it: some of its tokens, or copies of them."""
    state, cancellation, served = _begun(request, body)
    response.headers.update(body.told)
    most = state.settings.limits.characters
    work = partial(tasks.predict, served, body, cancellation, most)
    return await state.quick.start(cancellation, work).wait(request)


@api.post("/api/explain", response_model=s.ExplainAnswer, **_FOLLOWED)
async def explain(request: Request, body: s.ExplainRequest) -> Response:
    """Explains a text. `Accept: application/x-ndjson` gives progress while the queries are asked."""
    state, cancellation, served = _begun(request, body)
    tasks.check(body, state.settings.limits.queries)
    work = partial(tasks.explain, served, body, cancellation, state.settings.limits.tokens)
    queue = state.single if tasks.one_at_a_time(body.method) else state.explanations
    job = queue.start(cancellation, partial(_kept, state, work, body.save))
    return await _answered(request, job, body.told)


@api.post("/api/compare", response_model=s.CompareAnswer, **_FOLLOWED)
async def compare(request: Request, body: s.CompareRequest) -> Response:
    """Explains a text by several methods and says which predicts the model best; progress as for explain."""
    state, cancellation, served = _begun(request, body)
    wanted = tasks.requests(body, state.settings.limits.queries)
    work = partial(tasks.compare, served, wanted, cancellation, state.settings.limits.tokens)
    job = state.single.start(cancellation, partial(_kept, state, work, body.save))
    return await _answered(request, job, body.told)


def _begun(
    request: Request, body: s.ExplainRequest | s.CompareRequest | s.PredictRequest
) -> tuple[ServerState, Cancellation, ServedModel]:
    """What every question begins with; raises where its text is not to be answered."""
    state = _state(request)
    served = state.models[body.model]
    _check_text(body, state.settings.limits.characters)
    return state, state.cancellation(), served


def _kept(state: ServerState, work: Callable[[], Explanation | Compared], save: bool) -> str:
    """The answer of some work, which is kept as a report where that is asked for."""
    result = work()
    name = state.reports.put(tasks.document(result)) if save else None
    return tasks.answer(result, name, _address(state, name))


async def _answered(request: Request, job: QueuedJob[str], headers: dict[str, str]) -> Response:
    """The result of a job; line by line for clients that want to see how it goes."""
    if LINES in request.headers.get("accept", ""):
        headers = headers | {"x-accel-buffering": "no"}  # nginx would keep the progress back otherwise
        return StreamingResponse(_lines(request, job), media_type=LINES, headers=headers)
    return Response(await job.wait(request), media_type="application/json", headers=headers)


@api.get("/api/example", response_model=s.ExampleAnswer, tags=["ask"], dependencies=[_BEARER])
async def example(request: Request) -> dict[str, object]:
    """An explained example, by the first model; made once, then kept."""
    state, cancellation = _state(request), _state(request).cancellation()
    await state.explanations.start(cancellation, partial(_example, state, cancellation)).wait(request)
    asked = s.ExplainRequest.model_validate({"text": tasks.EXAMPLE, "model": state.settings.first})
    return {
        "id": ExampleReport.name,
        "report": _address(state, ExampleReport.name),
        "request": asked.model_dump(include={"text", "model", "units"}),
    }


def _example(state: ServerState, cancellation: Cancellation) -> str:
    body = s.ExplainRequest.model_validate({"text": tasks.EXAMPLE})
    served = state.models[state.settings.first]
    make = partial(tasks.explain, served, body, cancellation, state.settings.limits.tokens)
    return state.example.get(lambda: tasks.document(make()))


@reports.get("/{name}", response_class=HTMLResponse, tags=["reports"])
async def report(request: Request, name: str) -> Response:
    """A saved explanation as a page of its own."""
    html = await _rendered(request, name, page)
    return HTMLResponse(html, headers={"content-security-policy": report_policy()})


@reports.get("/{name}/fragment", response_class=HTMLResponse, tags=["reports"])
async def fragment(request: Request, name: str) -> Response:
    """The same without the page around it, its style and its script: what the server's own page shows.

    The header `Link` says where the page is.
    """
    html = await _rendered(request, name, part)
    return HTMLResponse(html, headers={"link": f'<{_address(_state(request), name)}>; rel="alternate"'})


async def _rendered(request: Request, name: str, render: Callable[[str], str]) -> str:
    state = _state(request)

    cancellation = state.cancellation()

    def work() -> str | None:
        kept = _example(state, cancellation) if name == ExampleReport.name else state.reports.get(name)
        return None if kept is None else render(kept)

    html = await state.quick.start(cancellation, work).wait(request)
    if html is None:
        raise HTTPException(404)
    return html


async def _lines(request: Request, job: QueuedJob[str]) -> AsyncIterator[str]:
    """Progress, then the result or an error: one JSON object on each line."""
    try:
        async for queries in job.follow(request):
            yield json.dumps({"event": "progress", "queries": queries}) + "\n"
        yield '{"event": "result", ' + job.result()[1:] + "\n"
    except Exception as error:  # noqa: BLE001
        failure = answer_to(error)
        yield json.dumps({"event": "error", "status": failure.status, "detail": failure.detail}) + "\n"


def _check_text(body: s.ExplainRequest | s.CompareRequest | s.PredictRequest, most: int) -> None:
    given = len(body.text) + len(body.pair or "")
    if given > most:
        raise tasks.TooLong(f"the text has {given:,} characters; this server takes {most:,}")
    check_text(body.text if body.pair is None else (body.text, body.pair), body.side)


def _address(state: ServerState, name: str | None) -> str | None:
    return None if name is None else _linked(state, f"/reports/{name}")


def _linked(state: ServerState, path: str) -> str:
    """An address that a browser can open, with its key where the server has a token."""
    key = report_key(state.settings.token, path)
    return quote(path) if key is None else f"{quote(path)}?key={key}"
