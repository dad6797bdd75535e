"""Work that can be stopped: every batch of queries and every turn of a loop is a place to stop at."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Literal

import numpy as np

from slalom.models.protocol import Model, Text
from slalom.models.proxy import Proxy
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, IntArray, Tokens

CHUNK = 4096
"""The least tokens that are asked about before the next look at whether anybody still wants the answer."""

_SPECIAL = 2
"""Tokens that models put around a query, more or less."""

Why = Literal["left", "late", "closing"]


class Stopped(Exception):  # noqa: N818 - not an error: somebody wanted it
    """Nobody waits for the answer any more."""

    def __init__(self, why: Why):
        super().__init__(why)
        self.why: Why = why


class Watch:
    """Shared by a piece of work and whoever waits for it: the queries so far one way, "stop" the other."""

    def __init__(self, seconds: float):
        self.queries = 0
        self._deadline = time.monotonic() + seconds
        self._why: Why | None = None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def stop(self, why: Why) -> None:
        """Ask the work to end the next time it looks."""
        self._why = self._why or why

    def check(self) -> None:
        """Raises where the work is to end."""
        if self.left < 0:
            self.stop("late")
        if self._why is not None:
            raise Stopped(self._why)

    def report(self, queries: int) -> None:
        """The `progress` of an explanation: notes the queries, and checks."""
        self.queries = max(self.queries, queries)
        self.check()


class Watched(Proxy):
    """A model that looks at the watch between batches, so that a long set of queries can be stopped too."""

    def __init__(self, model: Model, watch: Watch, lock: threading.Lock):
        super().__init__(model)
        self._watch = watch
        self._lock = lock
        self._asked = 0

    def tokenize(self, text: Text, explain: Literal["both", "first", "second"] = "both") -> Tokens:
        with self._lock:
            return super().tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        answers = np.zeros((len(perturbations), len(self.labels)))
        for rows in self._watched(tokens, perturbations):
            answers[rows] = super().logits(tokens, perturbations[rows])
        return answers

    def gradients(
        self, tokens: Tokens, perturbations: Perturbations, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        answers = np.zeros((len(perturbations), len(self.labels)))
        slopes = np.zeros(len(perturbations.positions))
        for rows in self._watched(tokens, perturbations):
            answers[rows], part = super().gradients(tokens, perturbations[rows], weights)
            slopes[np.isin(perturbations.rows, rows)] = part
        return answers, slopes

    def _watched(self, tokens: Tokens, perturbations: Perturbations) -> Iterator[IntArray]:
        """The queries in chunks; the watch is looked at before and after each."""
        for rows in _chunks(tokens, perturbations, max(CHUNK, 2 * self.batch_tokens)):
            self._watch.report(self._asked)
            yield np.sort(rows)
            self._asked += len(rows)
        self._watch.report(self._asked)


def _chunks(tokens: Tokens, queries: Perturbations, size: int) -> Iterator[IntArray]:
    """The queries, shortest first, in chunks of about `size` tokens; batches hold queries of one length."""
    sizes = np.array([len(piece) for piece in tokens.pieces], dtype=np.int64)
    lengths = np.bincount(queries.rows, weights=sizes[queries.positions], minlength=len(queries)) + _SPECIAL
    order = np.argsort(lengths, kind="stable")
    waiting: list[IntArray] = []
    room = float(size)
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        step = max(1, int(size // lengths[group[:1]].sum())) if len(group) else 1
        for start in range(0, len(group), step):
            part = group[start : start + step]
            if waiting and lengths[part].sum() > room:
                yield np.concatenate(waiting)
                waiting, room = [], float(size)
            waiting.append(part)
            room -= lengths[part].sum()
    if waiting:
        yield np.concatenate(waiting)
