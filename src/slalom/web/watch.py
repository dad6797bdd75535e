"""Work that can be stopped: every batch of queries is a place to stop at."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from slalom.models.protocol import Activation, Model, Text
from slalom.perturb import Perturbations
from slalom.tokens import FloatArray, IntArray, Tokens

CHUNK = 4096
"""Tokens that are asked about before the next look at whether anybody still wants the answer."""

Why = Literal["left", "late", "closing"]


class Stopped(Exception):  # noqa: N818 - not an error: somebody wanted it
    """Nobody waits for the answer any more."""

    def __init__(self, why: Why):
        super().__init__(why)
        self.why: Why = why


class Watch:
    """Shared by a piece of work and whoever waits for it: the queries so far one way, "stop" the other."""

    def __init__(self, seconds: float):
        self.deadline = time.monotonic() + seconds
        self.queries = 0
        self._why: Why | None = None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def stop(self, why: Why) -> None:
        """Ask the work to end at the next batch of queries."""
        self._why = self._why or why

    def report(self, queries: int) -> None:
        """The `progress` of an explanation: notes the queries; raises where the work is to end."""
        self.queries = max(self.queries, queries)
        if self._why is None and self.left < 0:
            self._why = "late"
        if self._why is not None:
            raise Stopped(self._why)


class Watched:
    """A model that looks at the watch between batches, so that a long set of queries can be stopped too."""

    def __init__(self, model: Model, watch: Watch, lock: threading.Lock):
        self._model = model
        self._watch = watch
        self._lock = lock
        self._asked = 0
        self.tokenizer = getattr(model, "tokenizer", None)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def labels(self) -> tuple[str, ...]:
        return self._model.labels

    @property
    def activation(self) -> Activation:
        return self._model.activation

    def tokenize(self, text: Text, explain: Literal["both", "first", "second"] = "both") -> Tokens:
        with self._lock:  # tokenizers are not made for several threads
            return self._model.tokenize(text, explain)

    def logits(self, tokens: Tokens, perturbations: Perturbations) -> FloatArray:
        answers = np.zeros((len(perturbations), len(self.labels)))
        for rows in _chunks(tokens, perturbations):
            self._watch.report(self._asked)
            answers[rows] = self._model.logits(tokens, perturbations[rows])
            self._asked += len(rows)
        self._watch.report(self._asked)
        return answers


def _chunks(tokens: Tokens, queries: Perturbations) -> Iterator[IntArray]:
    """The queries, shortest first, in chunks of about CHUNK tokens.

    Queries of one length stay together where they can: a model then sees the very batches it would see
    without chunks, and gives the very same answers.
    """
    sizes = np.array([len(piece) for piece in tokens.pieces], dtype=np.int64)
    lengths = np.bincount(queries.rows, weights=sizes[queries.positions], minlength=len(queries)) + 1
    order = np.argsort(lengths, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)
    waiting: list[IntArray] = []
    cost = 0.0
    for group in groups:
        for part in np.array_split(group, max(1, int(lengths[group].sum() // (4 * CHUNK)))):
            waiting.append(part)
            cost += lengths[part].sum()
            if cost >= CHUNK:
                yield np.concatenate(waiting)
                waiting, cost = [], 0.0
    if waiting:
        yield np.concatenate(waiting)


def alone(model: Any) -> Any:
    """The same torch model for one piece of work: it shares the weights and has hooks of its own.

    Methods that look inside a model hook into its layers, where another thread would run into them.
    """
    module = getattr(model, "module", None)
    if module is None:
        return model
    tensors = (*module.parameters(), *module.buffers())
    mine = copy.copy(model)
    mine.module = copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})
    return mine
