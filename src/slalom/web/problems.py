"""How errors become answers: a status, and a sentence for whoever asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse

from slalom.errors import ModelError, SlalomError
from slalom.web.guard import CLOSING, problem, unexpected
from slalom.web.tasks import TooLong
from slalom.web.watch import Stopped
from slalom.web.work import Full

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
