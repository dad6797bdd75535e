"""Requests to an endpoint: sent again where that may help, counted, kept; the key is never said."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from slalom.errors import InputError, ModelError, StoppedError
from slalom.models.endpoint import Endpoint
from slalom.models.endpoint.scoring import Body, Reply, first_choice
from slalom.models.protocol import JSON

_log = logging.getLogger(__name__)
_AGAIN = (408, 409, 425, 429)
_LONGEST = 60.0
"""Seconds that are waited at most before a request is sent again, whatever the server asks for."""
_PER_TOKEN = 4
"""Characters of a token, where the endpoint does not say how many it has read."""


class RefusedError(ModelError):
    """The endpoint refused a request as such; another form of it may do."""


@dataclass
class Spent:
    """What was sent so far."""

    requests: int = 0
    failures: int = 0
    tokens: int = 0


class Client:
    """A connection to an endpoint, for many threads."""

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self.spent = Spent()
        self._lock = threading.Lock()
        self._key = endpoint.key
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(
            max_connections=endpoint.concurrent, max_keepalive_connections=endpoint.concurrent
        )
        self._http = httpx.Client(headers=headers, timeout=endpoint.timeout, limits=limits)
        weakref.finalize(self, self._http.close)

    def post(self, path: str, body: Body, stop: threading.Event | None = None) -> Reply:
        """The endpoint's answer, an object with `choices`; `stop` ends the waiting between two attempts."""
        stop = stop or threading.Event()
        problem = ""
        for attempt in range(self.endpoint.retries + 1):
            self._charge()
            wait = self.endpoint.backoff * 2**attempt * random.uniform(0.5, 1.0)  # not all at once again
            try:
                response = self._http.post(f"{self.endpoint.url.rstrip('/')}/{path}", json=body)
            except (httpx.TransportError, httpx.DecodingError) as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if response.status_code == 200:
                    answer = _answer(response)
                    if answer is not None:
                        self._count(answer, body)
                        return answer
                    problem = "an answer that is no JSON object with choices"
                else:
                    problem = self._refused(response)
                    wait = max(wait, _asked_wait(response))
            self._failed(problem, attempt)
            if attempt < self.endpoint.retries and stop.wait(min(wait, _LONGEST)):
                raise StoppedError("stopped before the answer came")
        raise StoppedError(
            f"the endpoint {self.endpoint.url} gave no answer in {self.endpoint.retries + 1} attempts; the "
            f"last gave {self.said(problem)}. What was answered is kept: start again to go on"
        )

    def said(self, text: str) -> str:
        """A text of the server's on one line, without the key."""
        plain = " ".join(text.split())
        return (plain.replace(self._key, "…") if self._key else plain)[:300]

    def _refused(self, response: httpx.Response) -> str:
        """The problem, if the same request may do another time; raises where it will not."""
        status, reason = response.status_code, self.said(_reason(response))
        if status in _AGAIN or status >= 500:
            return f"HTTP {status}: {reason}"
        if status in (401, 403):
            variable = self.endpoint.key_variable
            there = "the key in" if self._key else "no key in"
            raise StoppedError(
                f"the endpoint refused the request ({there} {variable}): HTTP {status}: {reason}"
            )
        if status == 404:
            raise StoppedError(
                f"the endpoint has no {response.url.path}, or no model {self.endpoint.model!r}: {reason}"
            )
        raise RefusedError(f"the endpoint refused the request: HTTP {status}: {reason}")

    def _charge(self) -> None:
        most, limit = self.endpoint.max_requests, self.endpoint.max_tokens
        with self._lock:
            if most is not None and self.spent.requests >= most:
                raise StoppedError(
                    f"the limit of {most:,} requests is reached; what was answered is kept: raise "
                    "max_requests (--max-requests), or start again to go on"
                )
            if limit is not None and self.spent.tokens >= limit:
                raise StoppedError(
                    f"the limit of {limit:,} tokens is reached; what was answered is kept: raise max_tokens "
                    "(--max-tokens), or start again to go on"
                )
            self.spent.requests += 1

    def _count(self, answer: Reply, body: Body) -> None:
        usage = answer.get("usage")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        with self._lock:
            self.spent.tokens += total if isinstance(total, int) else len(str(body)) // _PER_TOKEN

    def _failed(self, problem: str, attempt: int) -> None:
        with self._lock:
            self.spent.failures += 1
        _log.info("attempt %d at an answer failed: %s", attempt + 1, self.said(problem))


def _answer(response: httpx.Response) -> Reply | None:
    try:
        answer: JSON = response.json()
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and first_choice(answer) is not None else None


def _reason(response: httpx.Response) -> str:
    """What a server says of an error."""
    try:
        said: JSON = response.json()
    except ValueError:
        return response.text
    error = said.get("error", said) if isinstance(said, dict) else said
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def _asked_wait(response: httpx.Response) -> float:
    """Seconds that the server asks to wait; dates are not read."""
    try:
        return max(0.0, float(response.headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0


_WAIT = 60.0
"""Seconds that other processes may write meanwhile."""


def key_of(url: str, path: str, body: Mapping[str, JSON]) -> str:
    """What a request is known by: where it goes and all that it says. No text can be read back from it."""
    said = json.dumps([url.rstrip("/"), path, body], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


class Cache:
    """Answers by request; written as they come, shared by threads and processes."""

    def __init__(self, path: Path):
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._lines = sqlite3.connect(path, timeout=_WAIT, check_same_thread=False, isolation_level=None)
            self._lines.execute("PRAGMA journal_mode=WAL")
            self._lines.execute("PRAGMA synchronous=NORMAL")
            self._lines.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)"
            )
            weakref.finalize(self, self._lines.close)
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"answers cannot be kept in {path}: {error}; choose another file (cache)"
            ) from error

    def get(self, key: str) -> Reply | None:
        """The answer to a request; None where there is none yet."""
        with self._lock:
            row = self._lines.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, answer: Reply) -> None:
        """Keeps an answer, at once and for good."""
        with self._lock:
            self._lines.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))


_KEPT = ("choices", "prompt_logprobs")
"""What is kept of an answer."""
Check = Callable[[Reply], object]
"""Raises where an answer is of no use, so that it is not kept."""


class Door:
    """Answers of an endpoint, from the file of answers or from the endpoint itself."""

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self.client = Client(endpoint)
        self._cache = Cache(endpoint.where)
        self._running: dict[str, Future[Reply]] = {}
        self._lock = threading.Lock()

    def key(self, path: str, body: Mapping[str, JSON]) -> str:
        """What a request is known by."""
        return key_of(self.endpoint.url, path, body)

    def known(self, path: str, body: Mapping[str, JSON]) -> bool:
        """Whether the answer is there already."""
        return self._cache.get(self.key(path, body)) is not None

    def post(
        self,
        path: str,
        body: Body,
        check: Check | None = None,
        stop: threading.Event | None = None,
    ) -> Reply:
        """The answer to one request."""
        key = self.key(path, body)
        reply = self._cache.get(key)
        if reply is None:
            answer = self.client.post(path, body, stop)
            reply = {name: answer[name] for name in _KEPT if name in answer}
            if check is not None:
                check(reply)
            self._cache.put(key, reply)
        return reply

    def post_all(self, path: str, bodies: Sequence[Body], check: Check) -> list[Reply]:
        """The answers to many requests, sent side by side; the first that fails ends them all."""
        keys = [self.key(path, body) for body in bodies]
        kept = {key: self._cache.get(key) for key in dict.fromkeys(keys)}
        replies = {key: reply for key, reply in kept.items() if reply is not None}
        missing = {key: body for key, body in zip(keys, bodies, strict=True) if key not in replies}
        if missing:
            with self._sending(path, missing, check) as running:
                wait(running.values(), return_when=FIRST_EXCEPTION)
                for key, future in running.items():
                    if future.done():
                        replies[key] = self._result(future, path, missing[key], check)
                replies |= {key: self._result(running[key], path, missing[key], check) for key in running}
        return [replies[key] for key in keys]

    def _result(self, future: Future[Reply], path: str, body: Body, check: Check) -> Reply:
        try:
            return future.result()
        except CancelledError:  # it was another thread's, which gave up for reasons of its own
            return self.post(path, body, check)

    @contextmanager
    def _sending(
        self, path: str, missing: Mapping[str, Body], check: Check
    ) -> Generator[dict[str, Future[Reply]], None, None]:
        """The requests on their way; whatever happens, those that were sent are waited for and kept."""
        stop, own = threading.Event(), list[str]()
        pool = ThreadPoolExecutor(self.endpoint.concurrent, thread_name_prefix="slalom-endpoint")
        running: dict[str, Future[Reply]] = {}
        try:
            with self._lock:
                for key, body in missing.items():
                    if key not in self._running:
                        self._running[key] = pool.submit(self.post, path, body, check, stop)
                        own.append(key)
                    running[key] = self._running[key]
            yield running
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            with self._lock:
                for key in own:
                    self._running.pop(key, None)
