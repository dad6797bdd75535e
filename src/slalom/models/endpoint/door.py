"""The one door to an endpoint: what it answered once is not asked again, and many ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from slalom.models.endpoint import Endpoint
from slalom.models.endpoint.cache import Cache, key_of
from slalom.models.endpoint.client import Client

_KEPT = ("choices", "prompt_logprobs")
"""What is kept of an answer."""
Check = Callable[[dict[str, Any]], object]
"""Raises where an answer is of no use, so that it is not kept."""


class Door:
    """Answers of an endpoint, from the file of answers or from the endpoint itself."""

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self.client = Client(endpoint)
        self._cache = Cache(endpoint.where)
        self._running: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()

    def key(self, path: str, body: Mapping[str, Any]) -> str:
        """What a request is known by."""
        return key_of(self.endpoint.url, path, body)

    def known(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the answer is there already."""
        return self._cache.get(self.key(path, body)) is not None

    def post(
        self,
        path: str,
        body: dict[str, Any],
        check: Check | None = None,
        stop: threading.Event | None = None,
    ) -> dict[str, Any]:
        """The answer to one request."""
        key = self.key(path, body)
        found = self._cache.get(key)
        if found is None:
            answer = self.client.post(path, body, stop)
            found = {name: answer[name] for name in _KEPT if name in answer}
            if check is not None:
                check(found)
            self._cache.put(key, found)
        return found

    def post_all(self, path: str, bodies: Sequence[dict[str, Any]], check: Check) -> list[dict[str, Any]]:
        """The answers to many requests, sent side by side; the first that fails ends them all."""
        keys = [self.key(path, body) for body in bodies]
        found = {key: self._cache.get(key) for key in dict.fromkeys(keys)}
        missing = {key: body for key, body in zip(keys, bodies, strict=True) if found[key] is None}
        if missing:
            with self._sending(path, missing, check) as running:
                wait(running.values(), return_when=FIRST_EXCEPTION)
                for key, future in running.items():
                    if future.done():
                        found[key] = self._result(future, path, missing[key], check)
                found |= {key: self._result(running[key], path, missing[key], check) for key in running}
        return [found[key] for key in keys]

    def _result(self, future: Future[Any], path: str, body: dict[str, Any], check: Check) -> dict[str, Any]:
        try:
            return future.result()
        except CancelledError:  # it was another thread's, which gave up for reasons of its own
            return self.post(path, body, check)

    @contextmanager
    def _sending(
        self, path: str, missing: Mapping[str, dict[str, Any]], check: Check
    ) -> Iterator[dict[str, Future[Any]]]:
        """The requests on their way; whatever happens, those that were sent are waited for and kept."""
        stop, own = threading.Event(), list[str]()
        pool = ThreadPoolExecutor(self.endpoint.concurrent, thread_name_prefix="slalom-endpoint")
        running: dict[str, Future[Any]] = {}
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
